/** Wakes the workflows of machines. Nothing is decided here: `attention` says who needs one, the workflow does the rest. */
import { attention } from '../api/attention.ts';
import { dialectOf } from '../api/dialects.ts';
import { toMachineSnapshot } from '../api/gardener/machine/snapshot.ts';
import type { Machine } from '../api/gardener/schema/machine.ts';
import type { MachineLimits, MachineObservation, MachineSnapshot } from '../api/model/machine.ts';
import { desiredState } from '../api/model/machine.ts';
import type { NodeView } from '../api/model/node.ts';
import { toNodeView } from '../api/node.ts';
import { controllerOf } from '../api/owner/view.ts';
import { type Installation, startWorkflow, wakeMachine, workflowId } from '../temporal/workflows.ts';
import { refOf, textOf, toObjectKey } from './objects.ts';
import { createReminders } from './reminders.ts';
import { byUid, type Watches } from './watches.ts';

export interface MachineWakerOptions {
  readonly watches: Watches;
  readonly installation: Installation;
  readonly defaults: MachineLimits;
  /** Has the open workflow with this id, if there is one, look live soon. */
  readonly look: (workflowId: string) => void;
}

export interface MachineWaker {
  /** Looks at one machine, by `<namespace>/<name>`. */
  handle(key: string): Promise<void>;
  /**
   * Looks at one machine for what no event tells. Where it needs attention its workflow is started: somebody may have
   * terminated it. Where that changes nothing it is told again, ever more seldom: it may have forgotten, as when
   * Temporal was set back to a backup.
   */
  recheck(key: string): Promise<void>;
  /** What workflows were told may be wrong: they are told anew. */
  forget(): void;
}

/** What a workflow was told last. Unequal parts are news; a part that nobody can see now is not. */
interface Told {
  readonly uid: string;
  readonly desiredState: string;
  readonly managed: boolean;
  readonly node: string | undefined;
  readonly classVersion: string | undefined;
}

/** @param options.watches stores that are synced, but for Nodes */
export function createMachineWaker({ watches, installation, defaults, look }: MachineWakerOptions): MachineWaker {
  const told = new Map<string, Told>();
  const reminders = createReminders();

  function observe(machine: Machine): MachineObservation {
    const deployment = deploymentOf(watches, machine);
    const snapshot = { ...toMachineSnapshot(machine, defaults), ...(deployment !== undefined && { deployment }) };
    const node = viewNode(watches, machine.metadata.name, snapshot);
    const version = mayWaitForClass(snapshot) ? versionOf(watches, machine) : undefined;
    return { machine: snapshot, node, ...(version !== undefined && { classVersion: version }) };
  }

  async function handle(key: string): Promise<void> {
    const machine = watches.machines.get(toObjectKey(key));
    if (machine === undefined) {
      told.delete(key);
      reminders.forget(key);
      return;
    }
    const seen = observe(machine);
    const ref = refOf(machine);
    const last = told.get(key);
    const before = last?.uid === ref.uid ? last : undefined;
    if (attention(seen.machine, seen.node).length === 0) {
      told.delete(key); // should what was told come back, it is news again
      reminders.forget(key);
      // Others still hold on to it, but its workflow need not: it has ended by itself unless we lost our finalizer.
      if (before !== undefined && seen.machine.deletingSince !== undefined)
        look(workflowId(installation.name, 'Machine', ref));
      return;
    }
    const now = toTold(seen, before);
    if (before === undefined && isNew(seen.machine)) await startWorkflow(installation, 'Machine', ref, seen.machine);
    else if (before === undefined || isNews(before, now)) await wakeMachine(installation, ref, seen);
    told.set(key, now);
  }

  async function recheck(key: string): Promise<void> {
    const machine = watches.machines.get(toObjectKey(key));
    if (machine === undefined) return;
    const seen = observe(machine);
    if (attention(seen.machine, seen.node).length === 0) return;
    const text = textOf(seen);
    if (reminders.isDue(key, text)) await wakeMachine(installation, refOf(machine), seen);
    else await startWorkflow(installation, 'Machine', refOf(machine), seen.machine);
    reminders.count(key, text);
  }

  return { handle, recheck, forget: () => told.clear() };
}

function viewNode(watches: Watches, machineName: string, { nodeName, providerID }: MachineSnapshot): NodeView {
  if (nodeName === undefined) return { state: 'absent' };
  if (!watches.nodes.synced || !watches.nodes.reachable) return { state: 'unknown' };
  return toNodeView(dialectOf('gardener').marks, watches.nodes.get({ name: nodeName }), machineName, providerID);
}

/** Name of the MachineDeployment that a machine belongs to, through its set. */
function deploymentOf(watches: Watches, machine: Machine): string | undefined {
  const [set] = watches.sets.byIndex(byUid, controllerOf(machine) ?? '');
  return set?.metadata.ownerReferences?.find(({ controller, kind }) => controller && kind === 'MachineDeployment')
    ?.name;
}

/** A machine whose VM is there, or was given up, does not wait for its class. */
function mayWaitForClass({ phase }: MachineSnapshot): boolean {
  return phase === '' || phase === 'CrashLoopBackOff' || phase === 'Terminating';
}

function versionOf(watches: Watches, { metadata, spec }: Machine): string {
  const namespace = metadata.namespace ?? '';
  const { source } = dialectOf('gardener');
  const machineClass = watches.classes.get({ namespace, name: spec?.class?.name ?? '' });
  const refs = machineClass === undefined ? [] : source.secretsOf(machineClass);
  return source.versionOf(
    machineClass,
    refs.map((ref) => watches.secrets.get(ref)),
  );
}

function toTold({ machine, node, classVersion: version }: MachineObservation, before: Told | undefined): Told {
  return {
    uid: machine.uid,
    desiredState: desiredState(machine),
    managed: machine.managed,
    node: node.state === 'unknown' ? before?.node : nodeText(node),
    classVersion: version ?? before?.classVersion,
  };
}

/** What about a Node others change. Our own marks on it are not news to the workflow that makes them. */
function nodeText(node: NodeView): string {
  if (node.state !== 'present') return node.state;
  const { uid, deleting, conditions, startingUp } = node;
  return JSON.stringify([uid, deleting, conditions, startingUp]);
}

function isNews(before: Told, now: Told): boolean {
  const isEqual =
    before.desiredState === now.desiredState && before.node === now.node && before.classVersion === now.classVersion;
  // Our own finalizer is no news to the workflow that puts it there; that somebody took it off is.
  return !isEqual || (before.managed && !now.managed);
}

/** Nobody has done anything for it yet: its workflow will read it when it starts, and needs to be told nothing. */
function isNew({ phase, managed, deletingSince }: MachineSnapshot): boolean {
  return phase === '' && !managed && deletingSince === undefined;
}
