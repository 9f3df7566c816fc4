/** What a run knows of the failed run from which it takes over: the retry policy of the workflow has started it. */
import { ApplicationFailure, proxyLocalActivities, workflowInfo } from '@temporalio/workflow';
import type { FailedRunActivities } from '../activities/failed-runs.ts';
import type { FailedRun } from '../api/model/ref.ts';
import { isActivityFailure } from './calls/failure.ts';

const { reportFailedRun } = proxyLocalActivities<FailedRunActivities>({
  startToCloseTimeout: '3 seconds',
  scheduleToCloseTimeout: '5 seconds',
  retry: { maximumAttempts: 2, initialInterval: '200 ms' },
});

/** How the SDK marks a run whose code does something else than its history says. */
const nonDeterminismMark = '[TMPRL1100]';

/**
 * The failed run from which this one takes over, if any. Its arguments are older than what it did: after an answer here
 * a run starts from what the objects say.
 */
export function findFailedRun(): FailedRun | undefined {
  const { attempt, lastFailure, startTime } = workflowInfo();
  if (attempt === 1) return undefined;
  const type = lastFailure instanceof ApplicationFailure ? lastFailure.type : undefined;
  const message = lastFailure?.message ?? '';
  const reason = message.startsWith(nonDeterminismMark) ? 'NonDeterminism' : type || 'Unknown';
  return { at: startTime.toISOString(), reason, message: message.slice(0, 300) };
}

/**
 * Records a failed run in an Event of the object, where there is one, and in a metric. A failure to do so is ignored.
 */
export async function reportRun(failed: FailedRun, about?: Parameters<typeof reportFailedRun>[1]): Promise<void> {
  try {
    await reportFailedRun(failed, about);
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
  }
}

/** The run as a line for people. */
export function failedRunText({ at, reason, message }: FailedRun): string {
  return `at ${at} (${reason}: ${message}); a new run took over`;
}
