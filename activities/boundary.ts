/**
 * Where activities meet Temporal: heartbeats and the one translation of errors. A worker takes `boundary` as activity
 * interceptor, so no activity repeats either.
 */
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { ApplicationFailure, asyncLocalStorage, CancelledFailure, Context } from '@temporalio/activity';
import type { ActivityInterceptors } from '@temporalio/worker';
import { z } from 'zod';
import { type FailureCode, failures } from '../api/failures.ts';
import { ConnectionError, isTooManyRequests, isUnreachable, RateLimitError, StatusError } from '../kube/errors.ts';
import { createMask, type Mask, masked } from './providers/kit/masks.ts';
import { type CallContext, ProviderError } from './providers/provider.ts';

/** What the next heartbeat of a running activity says. */
const progress = new WeakMap<Context, unknown>();

/** When the attempt that an activity makes began here, by `performance.now()`. */
const starts = new WeakMap<Context, number>();

/**
 * Activity interceptor (`interceptors.activity` of a worker). Any error leaves as ApplicationFailure whose `type` is a
 * code of api/failures.ts; cancellations and failures that an activity made by itself pass as they are. What the activity
 * has in hand and is secret is hidden in all of it, and in heartbeats: see masks.ts of the kit.
 */
export function boundary(context: Context) {
  return {
    inbound: {
      async execute(input, next) {
        const startMs = startOf(context);
        const stopBeating = keepAlive(context);
        try {
          return await next(input);
        } catch (error) {
          const { isLocal } = context.info;
          const attempt = { elapsedMs: performance.now() - startMs, isLocal };
          throw toFailure(error, context.cancellationSignal, attempt, createMask(context));
        } finally {
          stopBeating();
        }
      },
    },
  } satisfies ActivityInterceptors;
}

/**
 * The time on Temporal's clock, ms since the epoch: no decision is made by a worker's own, which may be wrong. It is
 * behind by the time that the attempt has waited for a worker. Local activities, which are given theirs by the
 * workflow, and code outside of an activity get that of this machine.
 */
export function temporalNowMs(): number {
  const context = asyncLocalStorage.getStore();
  if (context === undefined) return Date.now();
  const startMs = startOf(context);
  return context.info.currentAttemptScheduledTimestampMs + Math.floor(performance.now() - startMs);
}

function startOf(context: Context): number {
  const startMs = starts.get(context) ?? performance.now();
  starts.set(context, startMs);
  return startMs;
}

/** The call context of the activity that runs here. */
export function currentCall(): CallContext {
  const context = Context.current();
  return {
    attempt: context.info.attempt,
    signal: context.cancellationSignal,
    heartbeat: (details) => progress.set(context, details),
  };
}

/**
 * Beats while the activity runs. The first beat waits for half of the timeout: each is a write to Temporal's database,
 * and most calls end before. Without beats a cancellation would never arrive.
 */
function keepAlive(context: Context): () => void {
  const { heartbeatTimeoutMs } = context.info;
  if (!heartbeatTimeoutMs) return () => {};
  const beat = () => context.heartbeat(masked(progress.get(context), createMask(context)));
  const timer = setInterval(beat, heartbeatTimeoutMs / 2);
  return () => clearInterval(timer);
}

/**
 * The longest that a call to a cloud, with the pause after it, is tried again without anybody hearing of it, ms. After
 * that the workflow tries again, which shows the error, waits as long as the cloud asks for, and can be signalled to
 * retry now.
 */
const quietMs = 10_000;

/**
 * The longest pause that an API server may ask a local activity for, ms: it passes in a workflow task, in which the
 * workflow hears nothing.
 */
const localPauseMs = 1_000;

/** What is known of an attempt that has failed. */
export interface Attempt {
  /** How long it took. */
  readonly elapsedMs: number;
  /** Whether the activity is a local one. */
  readonly isLocal: boolean;
}

/** What an activity fails with. `signal` is the activity's own: what it aborts is a cancellation, not a failure. */
export function toFailure(
  error: unknown,
  signal: AbortSignal,
  { elapsedMs, isLocal }: Attempt,
  mask = createMask(),
): Error {
  if (error instanceof ApplicationFailure) return maskedFailure(error, mask);
  if (error instanceof CancelledFailure) return error;
  if (signal.aborted && isAbort(error)) {
    return signal.reason instanceof CancelledFailure ? signal.reason : new CancelledFailure('the call was cancelled');
  }
  const { code, message, retryAfterMs, ...details } = judge(error);
  const pauseMs = retryAfterMs ?? 0;
  const isOfCloud = error instanceof ProviderError;
  const isUpToWorkflow = isOfCloud ? elapsedMs + pauseMs >= quietMs : isLocal && pauseMs > localPauseMs;
  return ApplicationFailure.create({
    type: code,
    message: mask(message),
    nonRetryable: isUpToWorkflow || !failures[code].transient,
    details: [masked({ ...details, ...(retryAfterMs !== undefined && { retryAfterMs }) }, mask)],
    ...(retryAfterMs !== undefined && { nextRetryDelay: Math.min(retryAfterMs, quietMs) }),
  });
}

/** The same failure, or another one where there was something to hide. */
function maskedFailure(failure: ApplicationFailure, mask: Mask): ApplicationFailure {
  const { type, nonRetryable, nextRetryDelay } = failure;
  const message = mask(failure.message);
  const details = masked(failure.details ?? [], mask);
  if (message === failure.message && isDeepStrictEqual(details, failure.details ?? [])) return failure;
  return ApplicationFailure.create({
    message,
    details,
    nonRetryable: nonRetryable ?? false,
    ...(type && { type }),
    ...(nextRetryDelay && { nextRetryDelay }),
  });
}

interface Judgement {
  readonly code: FailureCode;
  /** Goes into histories: never the message of an error that we do not know, which may quote what it choked on. */
  readonly message: string;
  readonly cloudCode?: string;
  readonly requestId?: string;
  readonly retryAfterMs?: number | undefined;
  readonly nothingMade?: true;
  /** An API server, or our own rate limit, asks for a pause: it is no outage. */
  readonly isThrottled?: true;
}

function judge(error: unknown): Judgement {
  if (error instanceof ProviderError) {
    const { code, message, cloudCode, requestId, retryAfterMs, nothingMade } = error;
    return {
      ...{ code, message, retryAfterMs },
      ...(cloudCode && { cloudCode }),
      ...(requestId && { requestId }),
      ...(nothingMade && { nothingMade }),
    };
  }
  if (error instanceof StatusError) {
    const { message, reason, retryAfterMs } = error;
    const isThrottled = isTooManyRequests(error) && { isThrottled: true as const };
    return { code: codeOfStatus(error), message, retryAfterMs, ...(reason && { cloudCode: reason }), ...isThrottled };
  }
  if (error instanceof ConnectionError) return { code: 'Unavailable', message: error.message };
  if (error instanceof RateLimitError) {
    return { code: 'Unavailable', message: error.message, retryAfterMs: error.retryAfterMs, isThrottled: true };
  }
  if (error instanceof z.ZodError) {
    const issues = error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
    // Not InvalidArgument, which is what parseOrRefuse makes: this may be the answer to a create call.
    return { code: 'Internal', message: issues.join('; ') };
  }
  if (isAbort(error)) return { code: 'Canceled', message: 'the call was given up' };
  return { code: 'Unknown', message: `unexpected ${placeOf(error)}` };
}

const ownFolder = fileURLToPath(new URL('../', import.meta.url));

/** Name of the error, and the line of our own code in which it came up: no path of the worker, and of no package. */
function placeOf(error: unknown): string {
  if (!(error instanceof Error)) return `throw of ${typeof error}`;
  const lines = (error.stack ?? '').replaceAll('file://', '').split('\n');
  const places = lines
    .filter((line) => /^\s+at /.test(line) && line.includes(ownFolder))
    .map((line) => line.trim().replace(ownFolder, ''));
  const place = places.find((each) => !each.includes('node_modules/'));
  return `${error.name} ${place ?? 'at an unknown place'}`;
}

function isAbort(error: unknown): boolean {
  return typeof error === 'object' && error !== null && 'name' in error && error.name === 'AbortError';
}

/** HTTP status of an API server to code. 409 is `Aborted`: look again and retry. */
function codeOfStatus(error: StatusError): FailureCode {
  if (error.reason === 'AlreadyExists') return 'AlreadyExists';
  switch (error.code) {
    case 400:
    case 422:
      return 'InvalidArgument';
    case 401:
      return 'Unauthenticated';
    case 403:
      return 'PermissionDenied';
    case 404:
      return 'NotFound';
    case 409:
      return 'Aborted';
    case 504:
      return 'DeadlineExceeded';
    case 429:
      return 'Unavailable';
    default:
      return isUnreachable(error) ? 'Unavailable' : 'Unknown';
  }
}
