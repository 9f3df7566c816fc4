/** Wakes the workflows of MachineDeployments, and of MachineSets that have none. */
import { dialectOf } from '../api/dialects.ts';
import type { MachineSet } from '../api/gardener/schema/machine-set.ts';
import type { OwnerView } from '../api/model/owner.ts';
import type { ObjectRef } from '../api/model/ref.ts';
import { ownerNeeds } from '../api/owner/needs.ts';
import { controllerOf, isLone, toDeploymentView, toLoneSetView } from '../api/owner/view.ts';
import { type Installation, startWorkflow, wakeOwner, workflowId } from '../temporal/workflows.ts';
import { refOf, textOf } from './objects.ts';
import { createReminders } from './reminders.ts';
import { byController, byUid, type Watches } from './watches.ts';

const dialect = dialectOf('gardener');

export interface OwnerWakerOptions {
  readonly watches: Watches;
  readonly installation: Installation;
  /** Has the open workflow with this id, if there is one, look live soon. */
  readonly look: (workflowId: string) => void;
}

export interface OwnerWaker {
  /** Looks at one owner, by UID. */
  handle(uid: string): Promise<void>;
  /**
   * Looks at one owner for what no event tells. Where it needs something its workflow is started: somebody may have
   * terminated it. Where that changes nothing it is told again, ever more seldom: it may have forgotten, as when
   * Temporal was set back to a backup.
   */
  recheck(uid: string): Promise<void>;
  /** What workflows were told may be wrong: they are told anew. */
  forget(): void;
}

/** @param options.watches stores that are synced, but for Nodes */
export function createOwnerWaker({ watches, installation, look }: OwnerWakerOptions): OwnerWaker {
  const told = new Map<string, { readonly text: string; readonly workflowId: string }>();
  const reminders = createReminders();

  async function handle(uid: string): Promise<void> {
    const owner = viewOwner(watches, uid);
    const last = told.get(uid);
    if (owner === undefined || ownerNeeds(owner.view).length === 0) {
      told.delete(uid);
      reminders.forget(uid);
      // A run that waits for an owner that is gone or was adopted, or for what has come about by itself, would not learn
      // that it has nothing to wait for.
      if (last !== undefined) look(last.workflowId);
      return;
    }
    const { ref, view } = owner;
    const text = textOf(view);
    if (last?.text === text) return;
    await wakeOwner(installation, ref, view);
    told.set(uid, { text, workflowId: workflowId(installation.name, view.kind, ref) });
  }

  async function recheck(uid: string): Promise<void> {
    const owner = viewOwner(watches, uid);
    if (owner === undefined || ownerNeeds(owner.view).length === 0) return;
    const text = textOf(owner.view);
    if (reminders.isDue(uid, text)) await wakeOwner(installation, owner.ref, owner.view);
    else await startWorkflow(installation, owner.view.kind, owner.ref);
    reminders.count(uid, text);
  }

  return { handle, recheck, forget: () => told.clear() };
}

/** The owner with this UID as the caches know it. undefined: it is gone, or it is a set of a deployment. */
function viewOwner(watches: Watches, uid: string): { ref: ObjectRef; view: OwnerView } | undefined {
  const { deployments, sets, machines } = watches;
  const [deployment] = deployments.byIndex(byUid, uid);
  if (deployment !== undefined) {
    const own = sets.byIndex(byController, uid);
    const theirs = own.flatMap((set) => machines.byIndex(byController, set.metadata.uid));
    return { ref: refOf(deployment), view: toDeploymentView(dialect, deployment, own, theirs) };
  }
  const [set] = sets.byIndex(byUid, uid);
  if (set === undefined || !isKnownLone(watches, set)) return undefined;
  return { ref: refOf(set), view: toLoneSetView(dialect, set, machines.byIndex(byController, uid)) };
}

/** Whether a set has to look after itself, as far as the caches can tell: one that may be behind makes no set lone. */
export function isKnownLone({ deployments }: Watches, set: MachineSet): boolean {
  const uid = controllerOf(set);
  if (uid !== undefined && !(deployments.synced && deployments.reachable)) return false;
  return isLone(set, uid === undefined ? undefined : deployments.byIndex(byUid, uid)[0]);
}

/** UID of what owns a machine or a set in the end: its deployment, or the set itself. */
export function ownerOf(watches: Watches, setUid: string): string {
  const [set]: (MachineSet | undefined)[] = watches.sets.byIndex(byUid, setUid);
  if (set === undefined || isKnownLone(watches, set)) return setUid;
  return controllerOf(set) ?? setUid;
}
