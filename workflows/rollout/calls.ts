/** The activities of an owner's workflow. */
import { proxyActivities } from '@temporalio/workflow';
import type { OwnerActivities } from '../../activities/owner/index.ts';

export const { observeOwner, listBlockers } = proxyActivities<OwnerActivities>({
  startToCloseTimeout: '2 minutes',
  heartbeatTimeout: '10 seconds',
  retry: { initialInterval: '500 ms', maximumInterval: '10 seconds', maximumAttempts: 3 },
  cancellationType: 'WAIT_CANCELLATION_COMPLETED',
});

/**
 * Never retried: a machine that was available when the step was planned may not be any more, and no precondition of a
 * deletion says so. What a step leaves undone is planned again.
 */
export const { actOnOwner } = proxyActivities<OwnerActivities>({
  startToCloseTimeout: '2 minutes',
  scheduleToStartTimeout: '30 seconds',
  heartbeatTimeout: '10 seconds',
  retry: { maximumAttempts: 1 },
  cancellationType: 'WAIT_CANCELLATION_COMPLETED',
});
