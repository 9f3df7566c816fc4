/** What there is to do for an owner of machines, and what that waits for: read live, whether or not a workflow answers. */
import { dialectOf } from '../../api/dialects.ts';
import { machineSets, machines } from '../../api/gardener/resources.ts';
import type { MachineDeployment } from '../../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../../api/gardener/schema/machine-set.ts';
import type { OwnerView, RolloutBlockers } from '../../api/model/owner.ts';
import { findBlockers } from '../../api/owner/blockers.ts';
import { type OwnerNeed, ownerNeeds } from '../../api/owner/needs.ts';
import { toDeploymentView, toLoneSetView } from '../../api/owner/view.ts';
import { waitsOf } from '../../api/owner/waits.ts';
import type { KubeClient } from '../../kube/client.ts';

const dialect = dialectOf('gardener');

export interface OwnerState {
  readonly view: OwnerView;
  /** Empty at rest. */
  readonly needs: readonly OwnerNeed[];
  /** What has to happen before more can be done. */
  readonly waitsFor: string | undefined;
  /** The machines that a deployment waits for; undefined at rest, and for a set. */
  readonly blockedBy: RolloutBlockers | undefined;
}

/** Reads the sets and machines of a deployment. */
export async function readDeploymentState(control: KubeClient, deployment: MachineDeployment): Promise<OwnerState> {
  const { namespace = '' } = deployment.metadata;
  const sets = (await control.list(machineSets, { namespace })).items;
  const found = (await control.list(machines, { namespace })).items;
  const state = stateOf(toDeploymentView(dialect, deployment, sets, found));
  const { needs, waitsFor, view } = state;
  // Machines that have been made and do not run need nothing of their deployment, and it waits for them all the same.
  const isAtRest = needs.length === 0 && (waitsFor === undefined || view.paused);
  return { ...state, blockedBy: isAtRest ? undefined : findBlockers(dialect, deployment, sets, found) };
}

/** Reads the machines of a set that has no deployment. */
export async function readSetState(control: KubeClient, set: MachineSet): Promise<OwnerState> {
  const { items } = await control.list(machines, { namespace: set.metadata.namespace ?? '' });
  return stateOf(toLoneSetView(dialect, set, items));
}

function stateOf(view: OwnerView): OwnerState {
  return { view, needs: ownerNeeds(view), waitsFor: waitsOf(view), blockedBy: undefined };
}

/** Machines of a state: all of them, those of older templates, and those that are active or available. */
export function countsOf({ view: { sets } }: OwnerState) {
  const sum = (count: (set: (typeof sets)[number]) => number) => sets.reduce((total, set) => total + count(set), 0);
  return {
    total: sum(({ total }) => total),
    older: sum(({ isNew, total }) => (isNew ? 0 : total)),
    active: sum(({ active }) => active),
    available: sum(({ available }) => available),
  };
}

/** What holds a rollout up, a line each. */
export function heldUpLines({ count, machines: named, problem }: RolloutBlockers): string[] {
  const more = count - named.length;
  return [
    ...(problem === undefined ? [] : [problem]),
    ...named.map(({ name, reason }) => `${name}: ${reason}`),
    ...(more > 0 ? [`${more} more`] : []),
  ];
}
