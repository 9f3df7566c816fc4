/** Kubernetes as the workflow of a machine calls it. */
import { proxyLocalActivities } from '@temporalio/workflow';
import type { MachineActivities } from '../../activities/machine/index.ts';

/** Local activities: a few requests each. A longer wait is a timer of the workflow, where signals reach it. */
export const kubernetes = proxyLocalActivities<MachineActivities>({
  startToCloseTimeout: '3 seconds',
  scheduleToCloseTimeout: '5 seconds',
  retry: { maximumAttempts: 2, initialInterval: '200 ms' },
  cancellationType: 'WAIT_CANCELLATION_COMPLETED',
});
