/** Starts and signals the workflows of MachineDeployments, and of MachineSets without one. */
import type { OwnerView } from '../api/model/owner.ts';
import type { ObjectRef } from '../api/model/ref.ts';
import type { KubeObject } from '../api/objects.ts';
import { ownerNeeds } from '../api/owner/needs.ts';
import { controllerOf, isLone, toDeploymentView, toLoneSetView } from '../api/owner/view.ts';
import { signalOwner, startWorkflow, workflowId } from '../temporal/workflows.ts';
import type { Controller, ControllerContext } from './controller.ts';
import { refOf, textOf } from './objects.ts';
import { createResyncBackoff } from './resync-backoff.ts';
import { byController, byUid, type Change, type Watches } from './watches.ts';

type OwnerControllerContext = Pick<ControllerContext, 'watches' | 'dialect' | 'installation' | 'resyncMs' | 'refresh'>;

/** Keys are UIDs of owners. */
export function createOwnerController(context: OwnerControllerContext) {
  const { watches, installation, resyncMs, refresh } = context;
  const signalled = new Map<string, { readonly text: string; readonly workflowId: string }>();
  const backoff = createResyncBackoff(resyncMs);

  async function handle(uid: string): Promise<void> {
    const owner = viewOwner(context, uid);
    const last = signalled.get(uid);
    if (owner === undefined || ownerNeeds(owner.view).length === 0) {
      signalled.delete(uid);
      backoff.forget(uid);
      // Nothing else ends the wait of a run whose owner is gone, was adopted, or got what it needed without the run.
      if (last !== undefined) refresh(last.workflowId);
      return;
    }
    const { ref, view } = owner;
    const text = textOf(view);
    if (last?.text === text) return;
    await signalOwner(installation, ref, view);
    signalled.set(uid, { text, workflowId: workflowId(installation.name, view.kind, ref) });
  }

  /** Starts a workflow that somebody has terminated, and signals one that may have lost its signals. */
  async function resync(uid: string): Promise<void> {
    const owner = viewOwner(context, uid);
    if (owner === undefined || ownerNeeds(owner.view).length === 0) return;
    const text = textOf(owner.view);
    const isDue = backoff.isDue(uid, text);
    if (isDue) await signalOwner(installation, owner.ref, owner.view);
    else await startWorkflow(installation, owner.view.kind, owner.ref);
    backoff.note(uid, text, isDue);
  }

  return {
    hears: hearOwners(watches),
    delayMs: 100,
    keys: () => ownerKeys(watches),
    handle,
    resync,
    onRestored() {
      signalled.clear();
      for (const uid of ownerKeys(watches)) {
        const owner = viewOwner(context, uid);
        if (owner !== undefined) refresh(workflowId(installation.name, owner.view.kind, owner.ref));
      }
    },
  } satisfies Controller;
}

/** The change handlers of a controller whose keys are UIDs of owners. */
export function hearOwners(watches: Watches): Controller['hears'] {
  const ownersOfChange = (change: Change) => {
    const owners = ownersOf(watches, change.object);
    const isMoved = change.kind === 'updated' && controllerOf(change.previous) !== controllerOf(change.object);
    return isMoved ? [...owners, ...ownersOf(watches, change.previous)] : owners;
  };
  return {
    machines: ownersOfChange,
    sets: ownersOfChange,
    deployments(change) {
      // When it is gone, its sets become owners.
      const sets = watches.sets.byIndex(byController, change.object.metadata.uid);
      return [...ownersOfChange(change), ...sets.flatMap((set) => ownersOf(watches, set))];
    },
  };
}

/** UIDs of all deployments and sets. */
export function ownerKeys({ deployments, sets }: Watches): string[] {
  return [...deployments.list(), ...sets.list()].map(({ metadata }) => metadata.uid);
}

/** UIDs of the objects whose counts or plans depend on this one: itself, its controller and the deployment above. */
function ownersOf(watches: Watches, object: KubeObject): string[] {
  const { uid } = object.metadata;
  const parent = controllerOf(object) ?? uid;
  return [uid, parent, ownerOf(watches, parent)];
}

/** The owner with this UID as the caches know it. undefined: it is gone, or it is a set of a deployment. */
function viewOwner(
  { watches, dialect }: Pick<ControllerContext, 'watches' | 'dialect'>,
  uid: string,
): { ref: ObjectRef; view: OwnerView } | undefined {
  const { deployments, sets, machines } = watches;
  const [deployment] = deployments.byIndex(byUid, uid);
  if (deployment !== undefined) {
    const own = sets.byIndex(byController, uid);
    const theirs = own.flatMap((set) => machines.byIndex(byController, set.metadata.uid));
    return { ref: refOf(dialect, deployment), view: toDeploymentView(dialect, deployment, own, theirs) };
  }
  const [set] = sets.byIndex(byUid, uid);
  if (set === undefined || !isKnownLone(watches, set)) return undefined;
  return { ref: refOf(dialect, set), view: toLoneSetView(dialect, set, machines.byIndex(byController, uid)) };
}

/** Whether a set has no deployment, as far as the caches can tell: a stale cache of deployments makes no set lone. */
export function isKnownLone({ deployments }: Watches, set: KubeObject): boolean {
  const uid = controllerOf(set);
  if (uid !== undefined && !(deployments.synced && deployments.reachable)) return false;
  return isLone(set, uid === undefined ? undefined : deployments.byIndex(byUid, uid)[0]);
}

/** UID of the topmost owner of a set: its deployment, or the set itself. */
function ownerOf(watches: Watches, setUid: string): string {
  const [set] = watches.sets.byIndex(byUid, setUid);
  if (set === undefined || isKnownLone(watches, set)) return setUid;
  return controllerOf(set) ?? setUid;
}
