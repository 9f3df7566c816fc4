/** What a failed activity means: one translation for every workflow. */
import {
  ActivityFailure,
  ApplicationFailure,
  CancelledFailure,
  isCancellation,
  patched,
  TemporalFailure,
  TimeoutFailure,
} from '@temporalio/workflow';
import { type FailureCode, failures, isFailureCode, isUnknownActivity, shortened } from '../../api/failures.ts';
import type { Blocker } from '../../api/names.ts';

/** A failed call to a provider or to Kubernetes. */
export interface Failure {
  readonly code: FailureCode;
  readonly message: string;
  /** What the cloud knows the call by. */
  readonly requestId?: string;
  readonly outcomeUnknown: boolean;
  /** The provider says that the call has certainly made nothing, whatever its code says. */
  readonly nothingMade?: true;
  readonly blockedOn: Blocker;
  /** How long the cloud asks to be left alone. */
  readonly retryAfterMs?: number;
  /** An API server, or our own rate limit, asks for a pause. */
  readonly isThrottled?: true;
  /** Temporal would have made another attempt, had the retry policy allowed one. */
  readonly attemptsUsedUp?: true;
}

/**
 * Whether an activity failed. Not a cancellation, and not a bug of ours, which shows as a failed workflow task. A local
 * activity fails with the bare ApplicationFailure, an ordinary one with an ActivityFailure around it.
 */
export function isActivityFailure(error: unknown): error is TemporalFailure {
  return error instanceof TemporalFailure && !isCancellation(error);
}

/**
 * Whether an activity was cancelled before any worker took it. The server says so in the details of the cancellation;
 * otherwise the activity counts as taken. Says nothing about attempts before the last.
 */
export function wasNeverTaken(error: unknown): boolean {
  const cause = error instanceof ActivityFailure ? error.cause : undefined;
  return cause instanceof CancelledFailure && cause.details[0] === 'ACTIVITY_ID_NOT_STARTED';
}

/** The meaning of a failed activity. A provider that fails with a type it should not use is taken as `Unknown`. */
export function toFailure(error: TemporalFailure): Failure {
  const isRemote = error instanceof ActivityFailure;
  const cause = isRemote ? error.cause : error;
  const attemptsUsedUp = isRemote &&
    error.retryState === 'MAXIMUM_ATTEMPTS_REACHED' && { attemptsUsedUp: true as const };
  if (cause instanceof TimeoutFailure) {
    return { ...fromTimeout(cause, isRemote ? error.activityType : 'a Kubernetes step'), ...attemptsUsedUp };
  }
  const type = cause instanceof ApplicationFailure ? cause.type : undefined;
  const code: FailureCode = isFailureCode(type) ? type : 'Unknown';
  const { outcomeUnknown, blockedOn } = failures[code];
  const details = cause instanceof ApplicationFailure ? detailsOf(cause) : {};
  const { retryAfterMs, nothingMade, requestId, isThrottled, ...said } = details;
  return {
    ...{ code, message: shortened(cause?.message ?? error.message), blockedOn, ...said },
    ...(nothingMade ? { outcomeUnknown: false, nothingMade } : { outcomeUnknown }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    ...(requestId !== undefined && { requestId }),
    ...(isThrottled && { isThrottled }),
    ...attemptsUsedUp,
  };
}

/** Whether a server does not answer. One that refuses a request, or asks for a pause, does. */
export function isOutage({ code, isThrottled }: Pick<Failure, 'code' | 'isThrottled'>): boolean {
  return (code === 'Unavailable' || code === 'DeadlineExceeded') && isThrottled === undefined;
}

type Details = Pick<Failure, 'retryAfterMs' | 'nothingMade' | 'requestId' | 'isThrottled' | 'blockedOn'>;

function detailsOf({ details }: ApplicationFailure): Partial<Details> {
  const found: Partial<Record<keyof Failure, unknown>> = Object(details?.[0]);
  const { retryAfterMs, nothingMade, requestId, isThrottled, blockedOn } = found;
  return {
    ...(isThrottled === true && { isThrottled }),
    ...(typeof retryAfterMs === 'number' && retryAfterMs > 0 && { retryAfterMs }),
    ...(nothingMade === true && { nothingMade }),
    ...(typeof requestId === 'string' && requestId !== '' && { requestId }),
    ...(blockedOn === 'WorkflowTask' && { blockedOn }), // of a claim; no provider says what blocks
  };
}

/** Whether two errors are the same but for words with digits: times, counts, ids of requests. */
export function isSameError(a: Pick<Failure, 'code' | 'message'>, b: Pick<Failure, 'code' | 'message'>): boolean {
  const withoutNumbers = (message: string) => message.replace(/\S*\d\S*/g, '#');
  return a.code === b.code && withoutNumbers(a.message) === withoutNumbers(b.message);
}

/** A failure of a provider's activity, with the provider in it where that may be what is wrong. */
export function withProvider(failure: Failure, provider: string): Failure {
  if (isUnknownActivity(failure.message) && patched('activities-that-a-worker-lacks')) {
    const hint = `the worker of provider "${provider}" has to register this activity under the name of the contract`;
    return { ...failure, message: `${failure.message}: ${hint}`, blockedOn: 'ProviderWorker' };
  }
  if (failure.blockedOn !== 'ProviderWorker') return failure;
  const hint = `is the name "${provider}" right, and does a worker of this provider run?`;
  return { ...failure, message: `${failure.message}: ${hint}` };
}

function fromTimeout(timeout: TimeoutFailure, activity: string): Failure {
  if (timeout.timeoutType === 'SCHEDULE_TO_START') {
    return {
      code: 'Unavailable',
      message: `no worker has taken ${activity}`,
      outcomeUnknown: true, // an attempt before this one may have run
      blockedOn: 'ProviderWorker',
    };
  }
  const message = `${activity} did not come back in time`;
  return { code: 'DeadlineExceeded', message, outcomeUnknown: true, blockedOn: 'CloudApi' };
}
