/** Wakes the workflows of MachineDeployments, and of MachineSets that have none. */
import { deploymentNeeds } from '../api/attention.ts';
import type { MachineSet } from '../api/gardener/machine-set.ts';
import { controllerOf, toDeploymentView, toLoneSetView } from '../api/gardener/owner.ts';
import type { ObjectRef, OwnerView } from '../api/model.ts';
import type { KubeObject } from '../kube/types.ts';
import { type Installation, startWorkflow, wakeOwner } from '../temporal/workflows.ts';
import { byController, byUid, type Watches } from './watches.ts';

export interface OwnerWakerOptions {
  readonly watches: Watches;
  readonly installation: Installation;
}

export interface OwnerWaker {
  /** Looks at one owner, by UID. */
  handle(uid: string): Promise<void>;
  /** Looks at every owner that needs something, for what no event tells: a workflow that somebody terminated. */
  resync(): Promise<void>;
}

/** @param options.watches stores that are synced, but for Nodes */
export function createOwnerWaker({ watches, installation }: OwnerWakerOptions): OwnerWaker {
  const told = new Map<string, string>();

  async function handle(uid: string): Promise<void> {
    const owner = viewOwner(watches, uid);
    if (owner === undefined || deploymentNeeds(owner.view).length === 0) {
      told.delete(uid);
      return;
    }
    const text = textOf(owner.view);
    if (told.get(uid) === text) return;
    await wakeOwner(installation, owner.ref, owner.view);
    told.set(uid, text);
  }

  async function resync(): Promise<void> {
    for (const { metadata } of [...watches.deployments.list(), ...watches.sets.list()]) {
      const owner = viewOwner(watches, metadata.uid);
      if (owner === undefined || deploymentNeeds(owner.view).length === 0) continue;
      await startWorkflow(installation, owner.view.kind, owner.ref);
    }
  }

  return { handle, resync };
}

/** The owner with this UID as the caches know it. undefined: it is gone, or it is a set of a deployment. */
function viewOwner(
  { deployments, sets, machines }: Watches,
  uid: string,
): { ref: ObjectRef; view: OwnerView } | undefined {
  const [deployment] = deployments.byIndex(byUid, uid);
  if (deployment !== undefined) {
    const own = sets.byIndex(byController, uid);
    const theirs = own.flatMap((set) => machines.byIndex(byController, set.metadata.uid));
    return { ref: refOf(deployment), view: toDeploymentView(deployment, own, theirs) };
  }
  const [set] = sets.byIndex(byUid, uid);
  if (set === undefined || controllerOf(set) !== undefined) return undefined;
  return { ref: refOf(set), view: toLoneSetView(set, machines.byIndex(byController, uid)) };
}

/** UID of what owns a machine or a set in the end: its deployment, or the set itself. */
export function ownerOf(watches: Watches, setUid: string): string {
  const [set]: (MachineSet | undefined)[] = watches.sets.byIndex(byUid, setUid);
  return (set && controllerOf(set)) ?? setUid;
}

/** A view without the versions of objects: they change with every write of a status. */
function textOf(view: OwnerView): string {
  return JSON.stringify(view, (key, value: unknown) => (key === 'resourceVersion' ? undefined : value));
}

function refOf({ metadata }: KubeObject): ObjectRef {
  const { namespace = '', name, uid } = metadata;
  return { dialect: 'gardener', namespace, name, uid };
}
