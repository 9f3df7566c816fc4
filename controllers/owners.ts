/** Starts and signals the workflows of MachineDeployments, and of MachineSets without one. */
import type { OwnerView } from '../api/model/owner.ts';
import type { ObjectRef } from '../api/model/ref.ts';
import type { KubeObject } from '../api/objects.ts';
import { selects } from '../api/owner/adoption.ts';
import { msUntilAvailable } from '../api/owner/availability.ts';
import { ownerNeeds } from '../api/owner/needs.ts';
import { controllerOf } from '../api/owner/ownership.ts';
import { isLone, toDeploymentView, toLoneSetView } from '../api/owner/view.ts';
import { workflowId } from '../api/workflow-id.ts';
import { signalOwner, startWorkflow } from '../temporal/workflows.ts';
import { isWorthAStep } from '../workflows/rollout/plan.ts';
import type { Controller, ControllerContext } from './controller.ts';
import { refOf, textOf } from './objects.ts';
import { createResyncBackoff } from './resync-backoff.ts';
import { byController, byUid, type Change, type Watches } from './watches.ts';

type OwnerControllerContext = Pick<ControllerContext, 'watches' | 'dialect' | 'installation' | 'resyncMs' | 'refresh'>;

/** How far the clock of a worker may be behind ours, ms: it has to find a machine available, too. */
const clockSkewMs = 1_000;

/** How an owner in need of something looked last. */
interface Seen {
  readonly text: string;
  readonly workflowId: string;
  /** It was not signalled: no step could act on it. */
  readonly isWithheld: boolean;
}

/**
 * Keys are UIDs of owners. A workflow is started with the first need. Later changes are signalled if a step could act
 * on them; the others wait for the next resync.
 */
export function createOwnerController(context: OwnerControllerContext) {
  const { watches, installation, resyncMs, refresh } = context;
  const seen = new Map<string, Seen>();
  const backoff = createResyncBackoff(resyncMs);

  function note(uid: string, { ref, view }: Owner, isWithheld: boolean): void {
    seen.set(uid, { text: textOf(view), workflowId: workflowId(installation.name, view.kind, ref), isWithheld });
  }

  async function handle(uid: string): Promise<void> {
    const owner = viewOwner(context, uid);
    const last = seen.get(uid);
    if (owner === undefined || isAtRest(owner)) {
      seen.delete(uid);
      backoff.forget(uid);
      // Nothing else ends the wait of a run whose owner is gone, was adopted, or got what it needed without the run.
      if (last !== undefined) refresh(last.workflowId);
      return;
    }
    const { view } = owner;
    if (last?.text === textOf(view)) return;
    const isWorthIt = last === undefined || view.orphans === true || isWorthAStep(view);
    if (isWorthIt) await signalOwner(installation, owner.ref, view);
    note(uid, owner, !isWorthIt);
  }

  /** Starts a workflow that somebody has terminated, and signals what was withheld or may have been lost. */
  async function resync(uid: string): Promise<void> {
    const owner = viewOwner(context, uid);
    if (owner === undefined || isAtRest(owner)) return;
    const text = textOf(owner.view);
    const last = seen.get(uid);
    const isDue = last?.isWithheld === true || backoff.isDue(uid, text);
    if (isDue) await signalOwner(installation, owner.ref, owner.view);
    else await startWorkflow(installation, owner.view.kind, owner.ref);
    if (isDue && seen.get(uid) === last) note(uid, owner, false); // else a change was handled meanwhile
    backoff.note(uid, text, isDue);
  }

  return {
    // One that is gone is known by its UID alone.
    queue: (uid) => (watches.deployments.has(byUid, uid) ? 'deployments' : 'sets'),
    hears: hearOwners(watches),
    delayMs: 300,
    keys: () => ownerKeys(watches),
    handle,
    againInMs(uid) {
      const ms = msUntilNextAvailable(context, uid);
      return ms === undefined ? undefined : ms + clockSkewMs;
    },
    resync,
    onRestored() {
      seen.clear();
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
    machines: (change) => [...ownersOfChange(change), ...selectingOwnersOf(watches, change.object)],
    sets: (change) => [...ownersOfChange(change), ...selectingDeploymentsOf(watches, change.object)],
    deployments(change) {
      // When it is gone, its sets become owners.
      const sets = watches.sets.byIndex(byController, change.object.metadata.uid);
      return [...ownersOfChange(change), ...sets.flatMap((set) => ownersOf(watches, set))];
    },
  };
}

/** UIDs of the deployments that may adopt a set. */
function selectingDeploymentsOf({ deployments }: Watches, set: KubeObject): string[] {
  if (controllerOf(set) !== undefined) return [];
  const selecting = deployments.list().filter((each) => selects(each, set.metadata.labels));
  return selecting.map(({ metadata }) => metadata.uid);
}

/** UIDs of the owners that may adopt a machine. */
function selectingOwnersOf(watches: Watches, machine: KubeObject): string[] {
  if (controllerOf(machine) !== undefined) return [];
  const selecting = watches.sets.list().filter((set) => selects(set, machine.metadata.labels));
  return selecting.map(({ metadata }) => ownerOf(watches, metadata.uid));
}

/**
 * When the next machine of a deployment or a set becomes available because time passes, ms from now; undefined: none
 * does.
 */
export function msUntilNextAvailable(
  { watches: { sets, machines }, dialect }: Pick<ControllerContext, 'watches' | 'dialect'>,
  uid: string,
): number | undefined {
  const own = [...sets.byIndex(byUid, uid), ...sets.byIndex(byController, uid)];
  return msUntilAvailable(
    { ...dialect, nowMs: Date.now() },
    own,
    own.flatMap((set) => machines.byIndex(byController, set.metadata.uid)),
  );
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

interface Owner {
  readonly ref: ObjectRef;
  readonly view: OwnerView;
}

/** Whether it needs no workflow. One whose spec is not valid has one, in which people find that. */
function isAtRest({ view }: Owner): boolean {
  return ownerNeeds(view).length === 0 && (view.problem === undefined || view.deleting);
}

/** The owner with this UID as the caches know it. undefined: it is gone, or it is a set of a deployment. */
function viewOwner(
  { watches, dialect }: Pick<ControllerContext, 'watches' | 'dialect'>,
  uid: string,
): Owner | undefined {
  const { deployments, sets, machines } = watches;
  const api = { ...dialect, nowMs: Date.now() };
  const ownerless = machines.byIndex(byController, '');
  const [deployment] = deployments.byIndex(byUid, uid);
  if (deployment !== undefined) {
    const own = sets.byIndex(byController, uid);
    const theirs = own.flatMap((set) => machines.byIndex(byController, set.metadata.uid));
    const known = ownerless.length === 0 ? [...own, ...sets.byIndex(byController, '')] : sets.list();
    const view = toDeploymentView(api, deployment, known, [...theirs, ...ownerless], deployments.list());
    return { ref: refOf(dialect, deployment), view };
  }
  const [set] = sets.byIndex(byUid, uid);
  if (set === undefined || !isKnownLone(watches, set)) return undefined;
  const known = [...machines.byIndex(byController, uid), ...ownerless];
  return {
    ref: refOf(dialect, set),
    view: toLoneSetView(api, set, known, ownerless.length === 0 ? [] : sets.list()),
  };
}

/** Whether a set has no deployment, as far as the caches can tell: a stale cache of deployments makes no set lone. */
export function isKnownLone({ deployments }: Watches, set: KubeObject): boolean {
  const uid = controllerOf(set);
  if (uid !== undefined && !(deployments.synced && deployments.reachable)) return false;
  return isLone(set, uid === undefined ? undefined : deployments.byIndex(byUid, uid)[0]);
}

/** UID of the topmost owner of a set: its deployment, or the set itself. */
export function ownerOf(watches: Watches, setUid: string): string {
  const [set] = watches.sets.byIndex(byUid, setUid);
  if (set === undefined || isKnownLone(watches, set)) return setUid;
  return controllerOf(set) ?? setUid;
}
