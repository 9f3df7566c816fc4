import { z } from 'zod';
import type { FailureCode } from '../../../api/failures.ts';
import { ProviderError } from '../provider.ts';

/** Error codes of the simulated cloud; any other is judged by its HTTP status. */
const codes: Readonly<Record<string, FailureCode>> = {
  Unauthorized: 'Unauthenticated',
  Forbidden: 'PermissionDenied',
  InvalidParameter: 'InvalidArgument',
  InsufficientCapacity: 'ResourceExhausted',
  QuotaExceeded: 'ResourceExhausted',
  Throttled: 'Unavailable',
  ServiceUnavailable: 'Unavailable',
  NotFound: 'NotFound',
};

const ErrorBody = z.object({ error: z.object({ code: z.string(), message: z.string() }) });

/** What an error answer of the cloud says. `retryAfter` is the header of that name, in seconds. */
export interface ErrorAnswer {
  readonly status: number;
  readonly requestId?: string | undefined;
  readonly retryAfter?: string | undefined;
  readonly body: unknown;
}

/** Translates an error answer. One without a body that we know is `Unavailable` above 500 and `Unknown` otherwise. */
export function toProviderError(answer: ErrorAnswer): ProviderError {
  const body = ErrorBody.safeParse(answer.body).data?.error;
  const code = codes[body?.code ?? ''] ?? (answer.status > 500 ? 'Unavailable' : 'Unknown');
  const retryAfterSeconds = Number(answer.retryAfter);
  const words = body === undefined ? 'no message' : `${body.code}: ${body.message}`;
  return new ProviderError(code, `the cloud answered ${answer.status}: ${words}`, {
    cloudCode: body?.code,
    requestId: answer.requestId,
    retryAfterMs: retryAfterSeconds > 0 ? retryAfterSeconds * 1000 : undefined,
  });
}

/**
 * Translates a request to `origin` (scheme, host and port) that got no answer; what the caller's signal aborted is
 * thrown as it is, not here.
 */
export function toConnectionError(origin: string, error: unknown): ProviderError {
  if (typeof error === 'object' && error !== null && 'name' in error && error.name === 'TimeoutError') {
    return new ProviderError('DeadlineExceeded', `the cloud at ${origin} did not answer in time`, { cause: error });
  }
  const cloudCode = error instanceof Error && 'code' in error ? String(error.code) : undefined;
  return new ProviderError('Unavailable', `the cloud at ${origin} cannot be reached (${cloudCode ?? 'no answer'})`, {
    cloudCode,
    cause: error,
  });
}
