import { z } from 'zod';
import type { Cloud, Refusal } from '../kit/cloud.ts';
import { unreadable } from '../kit/errors.ts';
import { AnswerError } from './client.ts';

/** Error codes of the simulated cloud. */
export const errors = {
  Unauthorized: 'Unauthenticated',
  Forbidden: 'PermissionDenied',
  InvalidParameter: 'InvalidArgument',
  InsufficientCapacity: 'ResourceExhausted',
  QuotaExceeded: 'ResourceExhausted',
  Throttled: 'Throttled',
  ServiceUnavailable: 'Unavailable',
  NotFound: 'NotFound',
} as const satisfies Cloud<never, never, never, never>['errors'];

const ErrorBody = z.object({ error: z.object({ code: z.string(), message: z.string() }) });

/** What the cloud has answered; undefined for an error that is no answer. */
export function refusalOf(thrown: unknown): Refusal | undefined {
  if (!(thrown instanceof AnswerError)) return undefined;
  const { status, requestId, retryAfter, body, bytes, contentType } = thrown.answer;
  const { code, message = unreadable(bytes, contentType) } = ErrorBody.safeParse(body).data?.error ?? {};
  const retryAfterSeconds = Number(retryAfter);
  return {
    code,
    message,
    status,
    requestId,
    retryAfterMs: retryAfterSeconds > 0 ? retryAfterSeconds * 1_000 : undefined,
  };
}
