/** What the workflow of a machine hears: its signals, and what an observation changes. Nothing here waits. */
import { patched, setHandler } from '@temporalio/workflow';
import { desiredState, endsOf, type MachineObservation, type MachineSnapshot } from '../../api/model/machine.ts';
import type { NodeView } from '../../api/model/node.ts';
import { isNewer } from '../../api/model/ref.ts';
import { names } from '../../api/names.ts';
import type { Interruption } from '../../api/provider.ts';
import { refreshSignal, retryNowSignal } from '../messages.ts';
import { noteOrder } from '../orders.ts';
import { forceDeletionSignal, interruptedSignal, observedSignal, skipDrainSignal } from './messages.ts';
import { withName } from './phases/creation.ts';
import { forgetDeployment, showDeployment } from './progress.ts';
import type { MachineState } from './state.ts';

/** Starts handling signals. Those that came in earlier are handled now. */
export function listen(state: MachineState): void {
  const requestRefresh = () => {
    state.stale = true; // no change by itself, but a drain has to stop until everything is read
    state.onChange?.();
  };
  // An order may arrive before the deletion that it is for.
  const order = (command: string, change: Pick<Partial<MachineState>, 'forceDeletion' | 'skipDrain'>) => {
    return (by?: string) => {
      noteOrder(by, { command, kind: 'Machine', ref: state.ref });
      Object.assign(state, change);
      if (state.machine.deletingSince === undefined) requestRefresh();
      else notifyChange(state);
    };
  };
  setHandler(observedSignal, (seen) => applyObservation(state, seen), {
    description: 'A watcher saw the Machine or its Node.',
  });
  setHandler(refreshSignal, requestRefresh, { description: 'What was seen may be wrong: read it again.' });
  const noteInterruption = (interruption: Interruption) => {
    state.interruption = interruption;
    notifyChange(state);
  };
  setHandler(interruptedSignal, noteInterruption, { description: 'The cloud is about to take a VM away.' });
  setHandler(retryNowSignal, (by) => retryNow(state, by), { description: 'Try again now what is being waited for.' });
  setHandler(forceDeletionSignal, order('drain --force', { forceDeletion: true }), {
    description: 'Finish the deletion that is under way without regard for pods.',
  });
  setHandler(skipDrainSignal, order('drain --skip', { skipDrain: true }), {
    description: 'Finish the deletion that is under way with the pods still on the node.',
  });
}

function retryNow(state: MachineState, by: string | undefined): void {
  noteOrder(by, { command: 'retry', kind: 'Machine', ref: state.ref });
  state.repeats = {};
  state.evictsNow = true;
  if (state.nodeQuestion) state.nodeQuestion = { ...state.nodeQuestion, about: '' };
  if (state.nextPollMs > Date.now() && patched('retry-asks-the-cloud')) state.nextPollMs = 0;
  notifyChange(state);
}

function notifyChange(state: MachineState): void {
  state.changes++;
  state.onChange?.();
}

/**
 * Takes the answer to a write. Every answer goes through here, so that no deletion is missed. An answer that is older
 * than what is known was overtaken by a signal, or a backup was restored: the Machine is read again.
 */
export function setMachine(state: MachineState, machine: MachineSnapshot): void {
  const asked = desiredState(state.machine);
  if (isNewer(state.machine.resourceVersion, machine.resourceVersion)) state.stale = true;
  else putMachine(state, machine);
  // A change that arrived with an answer ends a wait as a signal does: the signal for it brings nothing new.
  if (desiredState(state.machine) !== asked && patched('answers-with-changes')) state.changes++;
  state.onChange?.();
}

/** What is known of the Machine from now on. */
export function putMachine(state: MachineState, machine: MachineSnapshot): void {
  const isFirst = state.machine.resourceVersion === '';
  state.machine = machine;
  hearOrders(state, isFirst);
  state.creation = withName(state.creation, machine.providerID !== undefined);
}

/** Who has given an order, as far as Millwright knows: the audit log of Kubernetes has the name. */
const byAnnotation = (name: string) => `whoever wrote the annotation ${name}`;

/** Follows orders in annotations, each once. A retry that a new run finds is none: it tries everything anyway. */
function hearOrders(state: MachineState, isFirst: boolean): void {
  const { skipDrain, deletingSince, retry } = state.machine;
  if (skipDrain === undefined && retry === undefined) return;
  if (!patched('orders-in-annotations')) return;
  if (skipDrain && deletingSince !== undefined && !state.skipDrain) {
    noteOrder(byAnnotation(names.skipDrain), { command: 'drain --skip', kind: 'Machine', ref: state.ref });
    state.skipDrain = true;
    notifyChange(state);
  }
  if (retry === undefined || retry === state.heardRetry) return;
  state.heardRetry = retry;
  if (!isFirst) retryNow(state, byAnnotation(names.retry));
}

/** What is known of the Node from now on. One that a watcher has seen outdated is so until it is brought up to date. */
export function putNode(state: MachineState, node: NodeView): void {
  const { node: before } = state;
  const isSame = before.state === 'present' && node.state === 'present' && before.uid === node.uid;
  state.node = isSame && before.outdated ? { ...node, outdated: true } : node;
}

/**
 * Takes the parts of an observation that are newer than what is known. Watchers repeat what they saw, in case a signal
 * was lost: a repetition is no change and ends no wait.
 */
function applyObservation(state: MachineState, seen: MachineObservation): void {
  if (seen.machine.uid !== state.ref.uid || seen.machine.stage === undefined) return; // of an older release
  const before = relevantState(state);
  const endsBefore = endsOf(state.machine);
  const isOlder = isNewer(state.machine.resourceVersion, seen.machine.resourceVersion);
  if (!isOlder) putMachine(state, seen.machine);
  else if (desiredState(seen.machine) !== desiredState(state.machine)) state.stale = true;
  applyNode(state, seen.node);
  if (seen.watchedMs !== undefined && seen.machine.request !== undefined) {
    state.outageEndMs = Math.max(state.outageEndMs, Date.now() - seen.watchedMs);
    state.heardAskedAt = seen.machine.request.askedAt;
  }
  if (seen.deployment !== undefined) showDeployment(state, seen.deployment);
  else if (!isOlder && seen.machine.alone) forgetDeployment(state);
  if (seen.maintenance !== undefined) state.maintenance = seen.maintenance; // only a step knows that nothing is due
  if (seen.sourceVersion !== undefined) state.sourceVersion = seen.sourceVersion;
  if (!state.wasRead) state.stale = true; // somebody was faster, perhaps an earlier run
  const isRetry = state.isTemplateRefused === true && state.node.state === 'present' && state.node.outdated === true;
  if (isRetry) state.isTemplateRefused = false;
  const isRelevant = state.stale || isRetry || relevantState(state) !== before;
  // A wait lasts until one of these ends at the latest.
  if (isRelevant || (endsOf(state.machine) !== endsBefore && patched('ends-that-move'))) notifyChange(state);
}

/** What ends a wait when it changes, as text to compare. During the deletion only the Node's existence matters. */
function relevantState(state: MachineState): string {
  const { machine, node, sourceVersion, reading, heardAskedAt, maintenance } = state;
  const { resourceVersion: _, ...view } = node.state === 'present' ? node : { ...node, resourceVersion: '' };
  const nodePart = machine.stage === 'deleting' ? view.state : view;
  const { stage, phase, managed } = machine;
  const version = sourceVersion ?? reading?.version;
  return JSON.stringify([desiredState(machine), stage, phase, managed, nodePart, version, heardAskedAt, maintenance]);
}

function applyNode(state: MachineState, seen: NodeView): void {
  const known = state.node;
  if (seen.state === 'unknown') {
    state.outageEndMs = Date.now();
    return;
  }
  if (seen.state === 'present' && seen.uid === state.replacedNodeUid) return;
  const isOlder =
    seen.state === 'present' &&
    known.state === 'present' &&
    seen.uid === known.uid &&
    isNewer(known.resourceVersion, seen.resourceVersion);
  // No version says whether an absent Node is gone or was not there yet, and a Node that is there has to be drained.
  const isMissing = seen.state === 'absent' && known.state === 'present';
  if (isOlder || isMissing) state.stale = true;
  else state.node = seen;
}
