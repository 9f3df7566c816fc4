/** What an activity's failure means: one translation, pure, for every phase. */
import { type ActivityFailure, ApplicationFailure, TimeoutFailure } from '@temporalio/workflow';
import { type FailureCode, failures, isFailureCode } from '../../api/failures.ts';
import type { Blocker } from '../../api/names.ts';

/** A failed call to a provider. */
export interface Failure {
  readonly code: FailureCode;
  readonly message: string;
  readonly outcomeUnknown: boolean;
  readonly blockedOn: Blocker;
}

/**
 * The meaning of a failed activity. Anything but an ActivityFailure is a bug of ours and not for this function; a
 * provider that fails with a type it should not use is taken as `Unknown`.
 */
export function toFailure(error: ActivityFailure): Failure {
  const { cause } = error;
  if (cause instanceof TimeoutFailure) return fromTimeout(cause, error.activityType);

  const type = cause instanceof ApplicationFailure ? cause.type : undefined;
  const code: FailureCode = isFailureCode(type) ? type : 'Unknown';
  const { outcomeUnknown, blockedOn } = failures[code];
  return { code, message: cause?.message ?? error.message, outcomeUnknown, blockedOn };
}

function fromTimeout(timeout: TimeoutFailure, activity: string): Failure {
  if (timeout.timeoutType === 'SCHEDULE_TO_START') {
    return {
      code: 'Unavailable',
      message: `no worker has taken ${activity} from the provider's task queue`,
      outcomeUnknown: true, // an attempt before this one may have run
      blockedOn: 'ProviderWorker',
    };
  }
  const message = `${activity} did not come back in time`;
  return { code: 'DeadlineExceeded', message, outcomeUnknown: true, blockedOn: 'CloudApi' };
}
