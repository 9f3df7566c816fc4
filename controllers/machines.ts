/** Wakes the workflows of machines. Nothing is decided here: `attention` says who needs one, the workflow does the rest. */
import { attention } from '../api/attention.ts';
import type { Machine } from '../api/gardener/machine.ts';
import { classVersion, secretRefsOf, toMachineSnapshot, toNodeSnapshot } from '../api/gardener/to-model.ts';
import type { MachineLimits, MachineObservation, MachineSnapshot, NodeView, ObjectRef } from '../api/model.ts';
import { wishes } from '../api/model.ts';
import type { ObjectKey } from '../kube/types.ts';
import { type Installation, startWorkflow, wakeMachine } from '../temporal/workflows.ts';
import type { Watches } from './watches.ts';

export interface MachineWakerOptions {
  readonly watches: Watches;
  readonly installation: Installation;
  readonly defaults: MachineLimits;
}

export interface MachineWaker {
  /** Looks at one machine, by `<namespace>/<name>`. */
  handle(key: string): Promise<void>;
  /** Looks at every machine that needs attention, for what no event tells: a workflow that somebody terminated. */
  resync(): Promise<void>;
}

/** What a workflow was told last. Unequal parts are news; a part that nobody can see now is not. */
interface Told {
  readonly wishes: string;
  readonly node: string | undefined;
  readonly classVersion: string | undefined;
}

/** @param options.watches stores that are synced, but for Nodes */
export function createMachineWaker({ watches, installation, defaults }: MachineWakerOptions): MachineWaker {
  const told = new Map<string, Told>();
  /** Machines whose Node asked for attention at the last resync, although their workflow had been told. */
  let unheard = new Set<string>();

  function observe(machine: Machine): MachineObservation {
    const snapshot = toMachineSnapshot(machine, defaults);
    const node = viewNode(watches, machine.metadata.name, snapshot);
    const version = mayWaitForClass(snapshot) ? versionOf(watches, machine) : undefined;
    return { machine: snapshot, node, ...(version !== undefined && { classVersion: version }) };
  }

  async function handle(key: string): Promise<void> {
    const machine = watches.machines.get(toObjectKey(key));
    if (machine === undefined) return forget();
    const seen = observe(machine);
    if (attention(seen.machine, seen.node).length === 0) return;

    const { uid } = machine.metadata;
    const before = told.get(uid);
    const now = toTold(seen, before);
    if (before !== undefined && isSame(before, now)) return;
    if (before === undefined && isNew(seen.machine))
      await startWorkflow(installation, 'Machine', refOf(machine), seen.machine);
    else await wakeMachine(installation, refOf(machine), seen);
    told.set(uid, now);
  }

  /** Drops what is remembered of machines that are gone. */
  function forget(): void {
    if (told.size <= watches.machines.size * 2 + 100) return;
    const present = new Set(watches.machines.list().map(({ metadata }) => metadata.uid));
    for (const uid of told.keys()) if (!present.has(uid)) told.delete(uid);
  }

  async function resync(): Promise<void> {
    const stillUnheard = new Set<string>();
    for (const machine of watches.machines.list()) {
      const seen = observe(machine);
      const reasons = attention(seen.machine, seen.node);
      if (reasons.length === 0) continue;
      const { uid } = machine.metadata;
      const isAboutNode = reasons.some((reason) => reason.startsWith('node'));
      if (isAboutNode) stillUnheard.add(uid);
      if (isAboutNode && unheard.has(uid)) await wakeMachine(installation, refOf(machine), seen);
      else await startWorkflow(installation, 'Machine', refOf(machine), seen.machine);
    }
    unheard = stillUnheard;
  }

  return { handle, resync };
}

function viewNode(watches: Watches, machineName: string, { nodeName }: MachineSnapshot): NodeView {
  if (nodeName === undefined) return { state: 'absent' };
  if (!watches.nodes.synced || !watches.nodes.reachable) return { state: 'unknown' };
  const node = watches.nodes.get({ name: nodeName });
  return node === undefined ? { state: 'absent' } : { state: 'present', ...toNodeSnapshot(node, machineName) };
}

/** A machine whose VM is there, or was given up, does not wait for its class. */
function mayWaitForClass({ phase }: MachineSnapshot): boolean {
  return phase === '' || phase === 'CrashLoopBackOff' || phase === 'Terminating';
}

function versionOf(watches: Watches, { metadata, spec }: Machine): string {
  const namespace = metadata.namespace ?? '';
  const machineClass = watches.classes.get({ namespace, name: spec?.class?.name ?? '' });
  if (machineClass === undefined) return classVersion(undefined, []);
  const refs = secretRefsOf(machineClass).filter((ref) => ref.namespace === namespace);
  return classVersion(
    machineClass,
    refs.map((ref) => watches.secrets.get(ref)),
  );
}

function toTold({ machine, node, classVersion: version }: MachineObservation, before: Told | undefined): Told {
  return {
    wishes: wishes(machine),
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

function isSame(a: Told, b: Told): boolean {
  return a.wishes === b.wishes && a.node === b.node && a.classVersion === b.classVersion;
}

/** Nobody has done anything for it yet: its workflow will read it when it starts, and needs to be told nothing. */
function isNew({ phase, managed, deletingSince }: MachineSnapshot): boolean {
  return phase === '' && !managed && deletingSince === undefined;
}

function refOf({ metadata }: Machine): ObjectRef {
  const { namespace = '', name, uid } = metadata;
  return { dialect: 'gardener', namespace, name, uid };
}

function toObjectKey(key: string): ObjectKey {
  const [namespace = '', name = ''] = key.split('/');
  return { namespace, name };
}
