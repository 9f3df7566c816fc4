/** Writes of a machine's workflow that are not kept: they are repeated with growing pauses. */
import { patched } from '@temporalio/workflow';
import { isPaced, nextRepeat, repeatedAtMs } from '../../api/repeats.ts';
import { findWhoChanges } from '../calls/kubernetes.ts';
import { commandLine } from '../command-line.ts';
import { type PhaseOutcome, waitFor } from './outcome.ts';
import { type Activity, show, showWait } from './progress.ts';
import type { MachineState, Repeated } from './state.ts';

const change = 'what-is-not-kept-has-a-pause';

/** Notes that a write is made now. @param text what it is made from */
export function noteWrite({ repeats }: MachineState, what: Repeated, text = ''): void {
  repeats[what] = nextRepeat(repeats[what], text, Date.now());
}

/** Notes that a phase has written the status. @param from what the phase began with */
export function noteStatus({ repeats }: MachineState, from: string): void {
  const next = nextRepeat(repeats.status, from, Date.now());
  if (!isPaced(next) || patched('what-is-undone-has-a-pause')) repeats.status = next;
}

/** Whether a write has to wait: the same was made a moment ago, and is due again. */
export function isHeld({ repeats }: MachineState, what: Repeated, text = ''): boolean {
  const last = repeats[what];
  return last?.text === text && Date.now() < repeatedAtMs(last) && patched(change);
}

/** Notes that the marks of a preservation or an in-place update are written now. */
export function noteMarks(state: MachineState): void {
  noteWrite(state, 'maintenance', marksText(state));
}

/** Notes that the Node was drained for one of these, which is written now. */
export function noteDrain(state: MachineState): void {
  noteWrite(state, 'drained', drainText(state));
}

/** Whether what is due for a preservation or an in-place update has to wait: its marks, or its drain. */
export function isMaintenanceHeld(state: MachineState, isDrain = isDrainDue(state)): boolean {
  return isDrain ? isHeld(state, 'drained', drainText(state)) : isHeld(state, 'maintenance', marksText(state));
}

function isDrainDue({ maintenance }: MachineState): boolean {
  return maintenance !== undefined && maintenance !== 'write';
}

/** What these marks are made from, without the marks. */
function marksText({ machine: { stage, phase, preservedUntil, updateDueBy }, node }: MachineState): string {
  return JSON.stringify([stage, phase, preservedUntil, updateDueBy, node.state]);
}

/** A drain that somebody forces is another one. */
function drainText(state: MachineState): string {
  return JSON.stringify([state.maintenance, state.machine.forceDrain === true, marksText(state)]);
}

/** When the first write that waits may be made, ms since the epoch; Infinity: none waits. */
export function heldUntilMs({ repeats }: MachineState): number {
  const ends = Object.values(repeats).map(repeatedAtMs);
  const firstMs = Math.min(...ends.filter((endMs) => endMs > Date.now()));
  return Number.isFinite(firstMs) && !patched(change) ? Number.POSITIVE_INFINITY : firstMs;
}

/** What a machine shows while a write waits. */
export function held(state: MachineState, { doing }: Pick<Activity, 'doing'>): Activity {
  return {
    doing,
    waitingFor: 'the API server to keep what is written',
    until: new Date(heldUntilMs(state)).toISOString(),
    blockedOn: 'KubernetesApi',
    unblock: findWhoChanges('the Machine or its Node', commandLine('retry', state.ref)),
  };
}

/** Shows what is done with a write. That it is not kept is shown until it is. */
export function showTry(state: MachineState, activity: Activity): void {
  const { blockedOn, unblock } = state.progress;
  const isRepeated = blockedOn === 'KubernetesApi' && Object.values(state.repeats).some(isPaced) && patched(change);
  show(state, isRepeated ? { ...activity, blockedOn, ...(unblock !== undefined && { unblock }) } : activity);
}

/** Waits until the write may be made. */
export function waitForWrite(state: MachineState, activity: Pick<Activity, 'doing'>): PhaseOutcome {
  showWait(state, held(state, activity));
  return waitFor(heldUntilMs(state) - Date.now());
}
