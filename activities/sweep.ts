/** What the orphan sweep reads and does in Kubernetes. Every reading is live: nothing is deleted by a cache. */
import { asyncLocalStorage } from '@temporalio/activity';
import { type ClassEvent, classEvents } from '../api/events.ts';
import { secretsOf } from '../api/gardener/machine/source.ts';
import { apiVersion, finalizers, labels, resources } from '../api/gardener/names.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../api/gardener/resources.ts';
import type { Machine } from '../api/gardener/schema/machine.ts';
import type {
  Ownership,
  PastSweeps,
  ReleasableClass,
  ResourceKey,
  SweepLimits,
  SweepNamespace,
  SweepNotice,
  SweepScope,
} from '../api/model/sweep.ts';
import { vmOf } from '../api/provider-id.ts';
import type { KubeClient } from '../kube/client.ts';
import { nodes } from '../kube/core.ts';
import { StatusError } from '../kube/errors.ts';
import type { EventRecorder } from '../kube/events.ts';
import { removeFinalizer } from './owner/finalizers.ts';

export interface SweepDeps {
  /** Cluster of the classes and Machines. */
  readonly control: KubeClient;
  /** Cluster of the Nodes; may be the same. */
  readonly target: KubeClient;
  readonly events: EventRecorder;
  readonly sweep: SweepLimits;
  readonly past: SweepMemory;
}

/** What Temporal knows of the sweeps and machines of the installation. */
export interface SweepMemory {
  readPast(): Promise<PastSweeps>;
  /** How many machines were deleted through their workflows since a time, RFC 3339. */
  countDeletions(since: string): Promise<number>;
}

export type SweepActivities = ReturnType<typeof createSweepActivities>;

export function createSweepActivities({ control, target, events, sweep, past }: SweepDeps) {
  return {
    /** The classes of a namespace as they are now, how sure a sweep has to be, and what earlier ones have left. */
    async readSweepScope({ namespace }: SweepNamespace): Promise<SweepScope> {
      const { items } = await control.list(machineClasses, { namespace, ...endWithCall() });
      const classes = items.map((machineClass) => {
        const { metadata, provider = '', providerSpec } = machineClass;
        const { name, uid, generation = 0, deletionTimestamp } = metadata;
        return {
          uid,
          leaving: deletionTimestamp !== undefined && metadata.finalizers?.includes(finalizers.machine) === true,
          provider,
          class: { namespace, name, generation },
          providerSpec,
          credentials: secretsOf(machineClass),
        };
      });
      return { classes, limits: sweep, past: await past.readPast() };
    },

    /** How many machines were deleted through Millwright since a time, RFC 3339. */
    async countDeletions(_: SweepNamespace, since: string): Promise<number> {
      return past.countDeletions(since);
    },

    /**
     * Which of these resources have no Machine, by lists that are read now. A Machine has what carries its UID, and the
     * VM that it or its Node names by provider ID. A VM without a UID tag, as machine-controller-manager makes them, also
     * belongs to the Machine of its name that has no provider ID yet. A VM with the UID of a Machine is surplus once that
     * has joined and names another; until then `ensureVm` looks after it. Nodes are read only where a VM is named by no
     * Machine.
     */
    async findOwnerless({ namespace }: SweepNamespace, asked: readonly ResourceKey[]): Promise<Ownership> {
      const { items, resourceVersion } = await control.list(machines, { namespace, ...endWithCall() });
      const uids = new Set(items.map(({ metadata }) => metadata.uid));
      const named = new Set(items.flatMap(({ spec }) => (spec?.providerID ? vmOf(spec.providerID) : [])));
      const unnamed = new Set(items.filter(({ spec }) => !spec?.providerID).map(({ metadata }) => metadata.name));

      const joined = new Map(items.filter(hasJoined).map((machine) => [machine.metadata.uid, machine]));

      const isNamed = ({ kind, id }: ResourceKey) => kind === 'vm' && named.has(vmOf(id));
      const isOwned = (resource: ResourceKey) => {
        if (isNamed(resource)) return true;
        return resource.uid === undefined
          ? resource.kind === 'vm' && unnamed.has(resource.name)
          : uids.has(resource.uid);
      };
      const isSuspicious = (resource: ResourceKey) =>
        resource.kind === 'vm' && !isNamed(resource) && (!isOwned(resource) || joined.has(resource.uid ?? ''));
      if (asked.some(isSuspicious)) for (const vm of await vmsOfNodes(items)) named.add(vm);
      const surplus = asked.flatMap((resource, place) => {
        const { metadata, spec } = joined.get(resource.uid ?? '') ?? {};
        if (metadata === undefined || !spec?.providerID || !isSuspicious(resource)) return [];
        return [{ place, machine: metadata.name, keeper: vmOf(spec.providerID) }];
      });
      const adopted = asked.flatMap((resource) => {
        const { uid } = resource;
        return uid !== undefined && !uids.has(uid) && isNamed(resource) ? [uid] : [];
      });
      const ownerless = asked.flatMap((resource, i) => (isOwned(resource) ? [] : [i]));
      return { ownerless, adopted, surplus, machines: { count: items.length, resourceVersion } };
    },

    /**
     * Takes our finalizer off those of the classes that were deleted, were not changed since they were swept, and that
     * nobody uses. Answers with their names. One that the API server does not let us change is told and left to the next
     * sweep, so that it holds up no other.
     */
    async releaseClasses(
      { namespace }: SweepNamespace,
      releasable: readonly ReleasableClass[],
    ): Promise<readonly string[]> {
      const used = await usedClasses(namespace);
      const released: string[] = [];
      for (const { name, uid, generation } of releasable) {
        const machineClass = await control.find(machineClasses, { namespace, name }, endWithCall());
        const { metadata } = machineClass ?? {};
        const isSame = metadata?.uid === uid && (metadata.generation ?? 0) === generation;
        if (!isSame || metadata.deletionTimestamp === undefined || used.has(name)) continue;
        try {
          await removeFinalizer(control, machineClasses, { namespace, name, uid }, finalizers.machine);
          released.push(name);
        } catch (error) {
          if (!isRefusal(error)) throw error;
          tell(namespace, { name, uid }, 'ClassNotReleased', `could not take our finalizer off: ${error.message}`);
        }
      }
      return released;
    },

    /** Tells on a class what was done in its cloud, as Events. */
    async tellSweep({ namespace }: SweepNamespace, notices: readonly SweepNotice[]): Promise<void> {
      for (const { class: about, reason, note } of notices) tell(namespace, about, reason, note);
    },
  };

  function tell(namespace: string, about: { name: string; uid: string }, reason: ClassEvent, note: string): void {
    const regarding = { apiVersion, kind: resources.machineClasses.kind, namespace, ...about };
    events.record({ regarding, type: classEvents[reason].type, reason, note, action: 'Sweep' });
  }

  /** The VMs that the Nodes of these Machines name. */
  async function vmsOfNodes(owners: readonly Machine[]): Promise<string[]> {
    const names = new Set(owners.flatMap(({ metadata }) => metadata.labels?.[labels.node] ?? []));
    const { items } = await target.list(nodes, endWithCall());
    return items.flatMap(({ metadata, spec }) =>
      names.has(metadata.name) && spec?.providerID ? vmOf(spec.providerID) : [],
    );
  }

  async function usedClasses(namespace: string): Promise<ReadonlySet<string | undefined>> {
    const query = { namespace, ...endWithCall() };
    const [owned, sets, deployments] = await Promise.all([
      control.list(machines, query),
      control.list(machineSets, query),
      control.list(machineDeployments, query),
    ]);
    const templates = [...sets.items, ...deployments.items].map(({ spec }) => spec?.template?.spec?.class?.name);
    return new Set([...owned.items.map(({ spec }) => spec?.class?.name), ...templates]);
  }
}

/** Whether the Machine had a Node, so that nobody asks for its VM any more. */
function hasJoined({ status }: Machine): boolean {
  const phase = status?.currentStatus?.phase;
  return phase === 'Running' || phase === 'Unknown';
}

/** Whether it will be the same when asked again: neither a conflict, nor too many requests, nor a server in need. */
function isRefusal(error: unknown): error is StatusError {
  return error instanceof StatusError && error.code < 500 && error.code !== 409 && error.code !== 429;
}

/** For requests: they end when the activity is to end. */
function endWithCall() {
  return { signal: asyncLocalStorage.getStore()?.cancellationSignal };
}
