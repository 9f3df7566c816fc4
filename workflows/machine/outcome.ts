/** What a phase of a machine answers, and how long it waits between two attempts. Pure. */
import type { FailureCode } from '../../api/failures.ts';
import { failures } from '../../api/failures.ts';
import type { Failure } from '../calls/failure.ts';

/** What follows after a phase. */
export type PhaseOutcome =
  /** Its work is done, now or long ago: the next phase follows. */
  | { readonly kind: 'done' }
  /**
   * Start at the first phase again after a change, at the latest after this long; without a time only after a change.
   */
  | { readonly kind: 'wait'; readonly timeoutMs?: number }
  /** Something has changed that an earlier phase may handle: start at the first phase again at once. */
  | { readonly kind: 'again' }
  /** The creation has failed. The Machine's owner replaces it; until then only its Node is watched. */
  | { readonly kind: 'failed' };

export const done: PhaseOutcome = { kind: 'done' };
export const again: PhaseOutcome = { kind: 'again' };
export const failed: PhaseOutcome = { kind: 'failed' };

/** Start again after a change, at the latest after `timeoutMs`. */
export function waitFor(timeoutMs?: number): PhaseOutcome {
  return timeoutMs === undefined ? { kind: 'wait' } : { kind: 'wait', timeoutMs };
}

const seconds = 1_000;
const minutes = 60 * seconds;

/** The longest wait between two attempts, whatever the cloud asks for. */
const longestPauseMs = 10 * minutes;

/**
 * How long to wait after a failed call to the cloud until the next, ms. A change ends the wait at once. `noRoomMs`
 * without capacity, 5 s for what is transient and for the set-up of a VM that exists, else 3 minutes when creating.
 * When deleting, 30 s at first and then as long as the cloud has refused already, up to 10 minutes: nothing says when a
 * right is back. Longer where the cloud asks for it.
 * @param options.refusedForMs how long a deletion was refused in the same way
 */
export function retryPauseMs(
  { code, retryAfterMs = 0 }: { readonly code: FailureCode; readonly retryAfterMs?: number },
  during: 'creation' | 'deletion',
  { noRoomMs = longestPauseMs, refusedForMs = 0 }: { readonly noRoomMs?: number; readonly refusedForMs?: number } = {},
): number {
  if (during === 'creation' && code === 'ResourceExhausted')
    return Math.max(noRoomMs, Math.min(retryAfterMs, longestPauseMs));
  return Math.min(Math.max(pauseByCodeMs(code, during, refusedForMs), retryAfterMs), longestPauseMs);
}

function pauseByCodeMs(code: FailureCode, during: 'creation' | 'deletion', refusedForMs: number): number {
  if (failures[code].transient) return 5 * seconds;
  if (during === 'creation' && code === 'Uninitialized') return 5 * seconds;
  return during === 'deletion' ? Math.max(30 * seconds, refusedForMs) : 3 * minutes;
}

/** How long to wait before the cloud is asked again about a VM that has not become a Node, ms. Grows to 2 minutes. */
export function nextPollIntervalMs(pauseMs: number): number {
  return Math.min(pauseMs * 2, 2 * minutes);
}

/** The shortest and the longest pause before the cloud is asked again about a deletion that it has accepted, ms. */
const deletionPolls = { shortestMs: seconds, longestMs: 2 * minutes } as const;

/**
 * The same about a VM that the cloud has accepted to delete: as long as the provider says. Else the time that it has
 * taken already, from 1 s to 10 s, and from 40 s on a quarter of it, up to 2 minutes. A cloud may never do it.
 * @param askAgainMs of the provider's answer; from 1 s to 2 minutes
 */
export function deletionPollMs(lastedMs: number, askAgainMs?: number): number {
  const { shortestMs, longestMs } = deletionPolls;
  const wantedMs = askAgainMs ?? Math.max(Math.min(lastedMs, firstPollIntervalMs), lastedMs / 4);
  return Math.min(Math.max(wantedMs, shortestMs), longestMs);
}

/** The same about a VM that is not set up, after the pause before: grows by a quarter from 5 s to 2 minutes. */
export function nextSetUpPauseMs(pauseMs: number): number {
  return Math.min(Math.max(pauseByCodeMs('Uninitialized', 'creation', 0), pauseMs * 1.25), 2 * minutes);
}

/** First such interval. Most VMs join sooner, and then nobody asks. */
export const firstPollIntervalMs = 10 * seconds;

/** The same without a target cluster, where the cloud alone says that a VM runs. */
export const firstPollWithoutNodeMs = seconds;

/** From this length on a pause is a wait of the workflow, ms: then a signal can end it. */
const longPauseMs = 10 * seconds;

/** How often a call that may have made a VM is made, within seconds, before its failure is reported. */
const quickAttempts = 4;

/** An error that lasts is written again after this long, ms, so that it does not look old. */
const refusalAgeMs = 30 * minutes;

/** Whether the status of a Machine need not be written again for an error that it has, ms since the epoch. */
export function isWrittenRecently(writtenMs: number, nowMs: number): boolean {
  return nowMs < writtenMs + refusalAgeMs;
}

/**
 * How long to wait before a call for a VM is repeated although its failure was not reported, ms; undefined: report it.
 * A refusal is reported at once even if its provider marked it retryable.
 * @param attempts how many calls have failed so, this one included
 */
export function quickPauseMs(failure: Failure, attempts: number): number | undefined {
  const { attemptsUsedUp, code, blockedOn, retryAfterMs = 0 } = failure;
  const isWorthIt = attemptsUsedUp === true && failures[code].outcomeUnknown && blockedOn !== 'ProviderWorker';
  if (!isWorthIt || attempts >= quickAttempts || retryAfterMs >= longPauseMs) return undefined;
  return Math.max(retryAfterMs, seconds * 2 ** (attempts - 1));
}
