/** What the check for interruptions reads in Kubernetes. */
import { dialectOf } from '../api/dialects.ts';
import type { MachineLimits, MachineStage } from '../api/model/machine.ts';
import type { Place } from '../api/model/source.ts';
import type { SweepNamespace } from '../api/model/sweep.ts';
import { providerKey } from '../api/names.ts';
import { inPortions } from '../api/payloads.ts';
import type { Interruption } from '../api/provider.ts';
import { vmOf } from '../api/provider-id.ts';
import { verdictOf } from '../api/verdict.ts';
import type { KubeClient } from '../kube/client.ts';
import { localRequest } from './local-request.ts';

export interface InterruptionDeps {
  /** Cluster of the Machines and their sources. */
  readonly control: KubeClient;
  /** For machines that do not say otherwise. */
  readonly defaults: MachineLimits;
}

/** A Machine whose VM is about to be taken away. */
export interface InterruptedMachine extends Interruption {
  readonly name: string;
  readonly uid: string;
}

/** Some of the places where VMs may be that their clouds take away. */
export interface PlacePage {
  readonly places: readonly Place[];
  /** Scope of the last one, where there are more. */
  readonly next?: string;
}

export type InterruptionActivities = ReturnType<typeof createInterruptionActivities>;

/** Stages in which a machine may have a Node that is marked. */
const marked: readonly MachineStage[] = ['joining', 'running', 'unhealthy'];

export function createInterruptionActivities({ control, defaults }: InterruptionDeps) {
  return {
    /**
     * Where VMs may be that their clouds take away, as many places as a payload can have: of the sources with one scope
     * the first.
     * @param after scope of the last place that is known; left out in the first call
     */
    async listInterruptible({ dialect, namespace }: SweepNamespace, after = ''): Promise<PlacePage> {
      const scopes = new Map<string, string>();
      const sources = await dialectOf(dialect).source.list(async (resource) => {
        const { items } = await control.list(resource, { namespace, ...localRequest() });
        for (const item of items) {
          const scope = verdictOf(item)?.interruptionScope;
          if (scope !== undefined) scopes.set(item.metadata.uid, scope);
        }
        return items;
      });
      const places = new Map<string, Place>();
      for (const { object, release: _, problem, ...place } of sources) {
        const scope = problem === undefined ? scopes.get(object.uid) : undefined;
        const key = JSON.stringify([providerKey(place.provider), scope]);
        if (scope !== undefined && !places.has(key)) places.set(key, place);
      }
      const left = [...places].filter(([key]) => key > after).toSorted(([a], [b]) => (a < b ? -1 : 1));
      const [page = [], ...more] = inPortions(left);
      const last = more.length > 0 ? page.at(-1) : undefined;
      return { places: page.map(([, place]) => place), ...(last && { next: last[0] }) };
    },

    /** The Machines of these VMs whose workflows mark their Nodes. */
    async findInterrupted(
      { dialect, namespace }: SweepNamespace,
      interruptions: readonly Interruption[],
    ): Promise<readonly InterruptedMachine[]> {
      const { kinds, machine } = dialectOf(dialect);
      const byVm = new Map(interruptions.map((each) => [vmOf(each.providerID), each]));
      const { items } = await control.list(kinds.machine, { namespace, ...localRequest() });
      return items.flatMap((item) => {
        const { uid, providerID, stage, deletingSince } = machine.toSnapshot(item, defaults);
        const interruption = providerID === undefined ? undefined : byVm.get(vmOf(providerID));
        const isConcerned = marked.includes(stage) && deletingSince === undefined;
        return interruption !== undefined && isConcerned ? [{ name: item.metadata.name, uid, ...interruption }] : [];
      });
    },
  };
}
