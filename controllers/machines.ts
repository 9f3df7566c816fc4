/**
 * Starts and signals the workflows of machines. `attention` says which need one; the workflow decides everything else.
 */
import { attention } from '../api/attention.ts';
import { maintenanceDue, planMaintenance } from '../api/maintenance.ts';
import type { MachineObservation, MachineSnapshot, MaintenanceDue } from '../api/model/machine.ts';
import { desiredState, endsOf } from '../api/model/machine.ts';
import type { NodeView } from '../api/model/node.ts';
import { type FoundNode, toNodeViewOf } from '../api/node.ts';
import type { KubeObject } from '../api/objects.ts';
import { controllerOf, deploymentOf } from '../api/owner/ownership.ts';
import { workflowId } from '../api/workflow-id.ts';
import type { Node } from '../kube/core.ts';
import { signalMachine, startWorkflow } from '../temporal/workflows.ts';
import type { Controller, ControllerContext } from './controller.ts';
import { keyOf, refOf, textOf, toObjectKey } from './objects.ts';
import { type Caches, judgeSeen } from './own-nodes.ts';
import { createResyncBackoff } from './resync-backoff.ts';
import { byController, byNode, bySecret, bySource, byUid, indexesOf, nodeKeyOf } from './watches.ts';

/**
 * What a workflow was signalled last. A field that differs is a change. One that cannot be seen now keeps its last
 * value.
 */
interface Signalled {
  readonly uid: string;
  readonly desiredState: string;
  readonly managed: boolean;
  readonly node: string | undefined;
  /** What an outdated Node lacks, as text; undefined: nothing. The versions of a Node that stays so are no change. */
  readonly outdated: string | undefined;
  readonly sourceVersion: string | undefined;
  readonly deployment: string | undefined;
  /** What its preservation or in-place update needs, and where something is to be written, what; undefined: nothing. */
  readonly maintenance: string | undefined;
  /** When it asked to be replaced; undefined where it does not, or its Node cannot be seen. */
  readonly asks: string | undefined;
  /** When it was signalled or started, by performance.now(). */
  readonly sentAtMs: number;
}

type MachineControllerContext = Pick<
  ControllerContext,
  'watches' | 'dialect' | 'installation' | 'defaults' | 'resyncMs' | 'refresh'
>;

/** Keys are `<namespace>/<name>` of Machines. */
export function createMachineController(context: MachineControllerContext) {
  const { watches, dialect, installation, defaults, resyncMs, refresh } = context;
  const signalled = new Map<string, Signalled>();
  /** When the preservation or the in-place update of a machine ends, as it was seen last. */
  const ends = new Map<string, string>();
  const backoff = createResyncBackoff(resyncMs);
  const refreshWorkflowOf = (machine: KubeObject) =>
    refresh(workflowId(installation.name, 'Machine', refOf(dialect, machine)));
  const nodeKeys = indexesOf(dialect, defaults).nodes[byNode];
  const keysBy = (index: string, value: string) => watches.machines.byIndex(index, value).map(keyOf);

  function observe(machine: KubeObject): MachineObservation {
    const deployment = deploymentOf(dialect, machine, (uid) => watches.sets.byIndex(byUid, uid)[0]);
    const snapshot = dialect.machine.toSnapshot(machine, defaults);
    const node = viewNode(context, machine, snapshot);
    const maintenance = viewMaintenance(context, machine, snapshot, node);
    const version = mayWaitForSource(snapshot) ? sourceVersionOf(context, machine) : undefined;
    const isAsking = snapshot.request !== undefined && node.state !== 'unknown';
    return {
      machine: snapshot,
      node,
      ...(deployment !== undefined && { deployment }),
      ...(maintenance !== undefined && { maintenance }),
      ...(version !== undefined && { sourceVersion: version }),
      ...(isAsking && { watchedMs: Math.round(watches.nodes.answersForMs) }),
    };
  }

  function forget(key: string): void {
    signalled.delete(key);
    backoff.forget(key);
  }

  /** Notes when a preservation or an in-place update ends. Returns whether that has moved: the workflow has to know. */
  function noteEnds(key: string, machine: MachineSnapshot): boolean {
    const before = ends.get(key);
    if (machine.preservedUntil === undefined && machine.updateDueBy === undefined) {
      ends.delete(key);
      return false;
    }
    const now = endsOf(machine);
    ends.set(key, now);
    return before !== undefined && before !== now;
  }

  async function handle(key: string): Promise<void> {
    const machine = watches.machines.get(toObjectKey(key));
    if (machine === undefined) {
      ends.delete(key);
      return forget(key);
    }
    const seen = observe(machine);
    const isMoved = noteEnds(key, seen.machine);
    const ref = refOf(dialect, machine);
    const last = signalled.get(key);
    const before = last?.uid === ref.uid ? last : undefined;
    if (attention(seen.machine, seen.node, seen.maintenance).length === 0) {
      forget(key); // a later return to what was signalled last is a change again
      // Its workflow has ended, unless somebody else removed the finalizer: then it must read the Machine.
      const isLetGo = before !== undefined && seen.machine.deletingSince !== undefined;
      if (isLetGo || isMoved) refreshWorkflowOf(machine);
      return;
    }
    const now = toSignalled(seen, dueWrites(context, machine, seen), before);
    const isUnchanged = before !== undefined && !isChanged(before, now);
    if (before === undefined && isNew(seen.machine)) await startWorkflow(installation, 'Machine', ref, seen);
    else if (!isUnchanged) await signalMachine(installation, ref, seen);
    else if (isMoved) refreshWorkflowOf(machine);
    signalled.set(key, isUnchanged ? { ...now, sentAtMs: before.sentAtMs } : now);
  }

  /**
   * Starts a workflow that somebody has terminated, and signals one that may have lost its signals. One that was
   * started or signalled since the last resync is left alone.
   */
  async function resync(key: string): Promise<void> {
    const machine = watches.machines.get(toObjectKey(key));
    if (machine === undefined) return;
    const seen = observe(machine);
    if (attention(seen.machine, seen.node, seen.maintenance).length === 0) return;
    const text = textOf(seen);
    const isDue = backoff.isDue(key, text);
    const last = signalled.get(key);
    const isRecent = last?.uid === machine.metadata.uid && performance.now() < last.sentAtMs + resyncMs;
    if (isDue) await signalMachine(installation, refOf(dialect, machine), seen);
    else if (!isRecent) await startWorkflow(installation, 'Machine', refOf(dialect, machine), seen);
    backoff.note(key, text, isDue);
  }

  const keys = () => watches.machines.list().map(keyOf);
  return {
    queue: 'machines',
    hears: {
      machines({ kind, object }) {
        // Most workflows have removed the finalizer themselves and end. One that has not would wait forever.
        if (kind === 'deleted') refreshWorkflowOf(object);
        return [keyOf(object)];
      },
      sets(change) {
        // Its machines belong to another deployment, or it comes after them: each kind has a watch of its own.
        const isSame = change.kind === 'updated' && controllerOf(change.previous) === controllerOf(change.object);
        return isSame ? [] : keysBy(byController, change.object.metadata.uid);
      },
      nodes: ({ object }) => nodeKeys(object).flatMap((key) => keysBy(byNode, key)),
      sources: ({ object }) => keysBy(bySource, object.metadata.name),
      secrets({ object: { metadata } }) {
        const sources = watches.sources.byIndex(bySecret, metadata.name);
        return [...keysBy(bySecret, metadata.name), ...sources.flatMap((each) => keysBy(bySource, each.metadata.name))];
      },
    },
    hearsLists: { nodes: keys }, // before its first list every Node is unknown
    delayMs: 0,
    keys,
    handle,
    resync,
    onRestored() {
      signalled.clear();
      for (const machine of watches.machines.list()) refreshWorkflowOf(machine);
    },
  } satisfies Controller;
}

function viewNode(caches: Caches, machine: KubeObject, snapshot: MachineSnapshot): NodeView {
  const { watches, dialect } = caches;
  if (nodeKeyOf(dialect, snapshot) === undefined) return { state: 'absent' };
  if (!watches.nodes.synced || !watches.nodes.reachable) return { state: 'unknown' };
  return toNodeViewOf(dialect, nodeOf(caches, machine, snapshot), machine, sourceOf(caches, machine));
}

function sourceOf({ watches, dialect }: Caches, machine: KubeObject): KubeObject | undefined {
  const { namespace } = machine.metadata;
  return watches.sources.get({ namespace, name: dialect.source.nameOf(machine) ?? '' });
}

function nodeOf(caches: Caches, machine: KubeObject, snapshot: MachineSnapshot): FoundNode<Node> {
  const { watches, dialect } = caches;
  const key = nodeKeyOf(dialect, snapshot);
  return judgeSeen(caches, machine, key === undefined ? undefined : watches.nodes.byIndex(byNode, key)[0]);
}

function viewMaintenance(
  caches: Caches,
  machine: KubeObject,
  snapshot: MachineSnapshot,
  { state }: NodeView,
): MaintenanceDue | undefined {
  const isUnknown = state === 'unknown' && !snapshot.limits.hasNoNode;
  return isUnknown ? undefined : maintenanceDue(maintenanceOf(caches, machine, snapshot));
}

function maintenanceOf(caches: Caches, machine: KubeObject, snapshot: MachineSnapshot) {
  const { node } = snapshot.limits.hasNoNode ? { node: undefined } : nodeOf(caches, machine, snapshot);
  const { updateSeconds } = caches.defaults;
  const moment = { nowMs: Date.now(), ...(updateSeconds !== undefined && { updateSeconds }) };
  return planMaintenance(caches.dialect, machine, node, moment);
}

/** In a plan, they differ with each look. */
const times = /\d{4}-\d\d-\d\dT[\d:.]+Z/g;

/** What has to be written for a machine and its Node, as text to compare. */
function dueWrites(
  caches: Caches,
  machine: KubeObject,
  { machine: snapshot, node: view, maintenance }: MachineObservation,
): Pick<Signalled, 'outdated' | 'maintenance'> {
  const { node } = nodeOf(caches, machine, snapshot);
  const isOutdated = view.state === 'present' && view.outdated === true && node !== undefined;
  const patch = isOutdated && caches.dialect.machine.toNodePatch(machine, node, sourceOf(caches, machine));
  const plan = maintenance === 'write' ? maintenanceOf(caches, machine, snapshot) : undefined;
  return {
    outdated: patch ? JSON.stringify(patch) : undefined,
    maintenance: plan === undefined ? maintenance : JSON.stringify(plan).replaceAll(times, ''),
  };
}

/** A machine that is not deleted and whose VM exists, or was abandoned, does not wait for its source. */
function mayWaitForSource({ stage, deletingSince }: MachineSnapshot): boolean {
  return stage === 'new' || stage === 'creating' || deletingSince !== undefined;
}

function sourceVersionOf(caches: Caches, machine: KubeObject): string {
  const { watches, dialect } = caches;
  const { kinds, source } = dialect;
  const object = kinds.source === undefined ? machine : sourceOf(caches, machine);
  const secrets = object === undefined ? [] : source.secretsOf(object).map((key) => watches.secrets.get(key));
  return source.versionOf(object, secrets);
}

function toSignalled(
  { machine, node, deployment, sourceVersion: version, watchedMs }: MachineObservation,
  due: Pick<Signalled, 'outdated' | 'maintenance'>,
  before: Signalled | undefined,
): Signalled {
  return {
    uid: machine.uid,
    desiredState: desiredState(machine),
    managed: machine.managed,
    // What becomes of the Node of a deleted machine is mostly the workflow's own work, and its drain watches the Node.
    node: node.state === 'unknown' || machine.stage === 'deleting' ? before?.node : nodeText(node),
    ...due,
    sourceVersion: version ?? before?.sourceVersion,
    deployment: deployment ?? before?.deployment,
    asks: watchedMs === undefined ? undefined : machine.request?.askedAt,
    sentAtMs: performance.now(),
  };
}

/** The fields of a Node that others change: our own marks are no change to the workflow that sets them. */
function nodeText(node: NodeView): string {
  if (node.state !== 'present') return JSON.stringify(node);
  const { uid, deleting, conditions, startingUp, interruption } = node;
  return JSON.stringify([uid, deleting, conditions, startingUp, interruption]);
}

function isChanged(before: Signalled, now: Signalled): boolean {
  const isEqual =
    before.desiredState === now.desiredState &&
    before.node === now.node &&
    before.sourceVersion === now.sourceVersion &&
    before.deployment === now.deployment;
  const isAsking = now.asks !== undefined && now.asks !== before.asks;
  const isOutdatedAnew = now.outdated !== undefined && now.outdated !== before.outdated;
  const isMaintenanceDue = now.maintenance !== undefined && now.maintenance !== before.maintenance;
  // Adding our finalizer and bringing the Node up to date are the workflow's own writes. The reverse may be somebody
  // else's.
  return !isEqual || (before.managed && !now.managed) || isAsking || isOutdatedAnew || isMaintenanceDue;
}

/** Nothing was done for it yet: its workflow is started with what was seen, and needs no signal. */
function isNew({ stage, managed, deletingSince }: MachineSnapshot): boolean {
  return stage === 'new' && !managed && deletingSince === undefined;
}
