/** What a phase of a machine's life answers, and the pure rules for how long to wait. */
import type { FailureCode } from '../../api/failures.ts';
import { failures } from '../../api/failures.ts';
import type { MachinePhase } from '../../api/model/machine.ts';

/** What comes after a phase was tried. */
export type PhaseOutcome =
  /** Its work is done, now or long ago: on to the next phase. */
  | { readonly kind: 'done' }
  /** Look again when there is news, at the latest after this long; without a time only when there is news. */
  | { readonly kind: 'wait'; readonly timeoutMs?: number }
  /** Something has changed that an earlier phase may care about: begin anew at once. */
  | { readonly kind: 'again' }
  /** The machine will not make it. Its owner replaces it; until then only its Node is looked after. */
  | { readonly kind: 'failed' };

export const done: PhaseOutcome = { kind: 'done' };
export const again: PhaseOutcome = { kind: 'again' };
export const failed: PhaseOutcome = { kind: 'failed' };

/** Look again when there is news, at the latest after `timeoutMs`. */
export function waitFor(timeoutMs?: number): PhaseOutcome {
  return timeoutMs === undefined ? { kind: 'wait' } : { kind: 'wait', timeoutMs };
}

/** Phases before and during the creation of a machine. In any other it has nothing more to do with that. */
const creationPhases: readonly MachinePhase[] = ['', 'CrashLoopBackOff', 'Pending'];

/** Whether a machine in this phase is past its creation, for good or ill. */
export function isPastCreation(phase: MachinePhase): boolean {
  return !creationPhases.includes(phase);
}

/** Whether the Node of a machine in this phase has joined for certain. A Terminating one may never have had any. */
export function hasJoined(phase: MachinePhase): boolean {
  return isPastCreation(phase) && phase !== 'Failed' && phase !== 'Terminating';
}

const seconds = 1_000;
const minutes = 60 * seconds;

/** The longest wait between two tries, whatever the cloud asks for. */
const longestPauseMs = 10 * minutes;

/**
 * How long to wait after a failed call to the cloud until the next, ms; news ends the wait at once. The figures are
 * machine-controller-manager's: 10 minutes without capacity, 5 s for what is transient and for the set-up of a VM that
 * exists, else 3 minutes when creating and 10 when deleting. Longer where the cloud asks for it.
 */
export function retryPauseMs(
  { code, retryAfterMs = 0 }: { readonly code: FailureCode; readonly retryAfterMs?: number },
  during: 'creation' | 'deletion',
): number {
  return Math.min(Math.max(pauseByCodeMs(code, during), retryAfterMs), longestPauseMs);
}

function pauseByCodeMs(code: FailureCode, during: 'creation' | 'deletion'): number {
  if (failures[code].transient) return 5 * seconds;
  if (during === 'creation' && code === 'Uninitialized') return 5 * seconds;
  if (during === 'deletion' || code === 'ResourceExhausted') return longestPauseMs;
  return 3 * minutes;
}

/** How long to wait before the cloud is asked again about a VM that has not become a Node, ms. Grows to 2 minutes. */
export function nextAskPauseMs(pauseMs: number): number {
  return Math.min(pauseMs * 2, 2 * minutes);
}

/** First such pause. Most VMs join sooner, and then nobody asks. */
export const firstAskPauseMs = 10 * seconds;
