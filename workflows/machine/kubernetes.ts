/** Kubernetes as the workflow of a machine calls it. */
import { proxyLocalActivities } from '@temporalio/workflow';
import type { MachineActivities } from '../../activities/machine/index.ts';

const everyCall = {
  retry: { maximumAttempts: 2, initialInterval: '200 ms' },
  cancellationType: 'WAIT_CANCELLATION_COMPLETED',
} as const;

/** Local activities: a request or two each. A longer wait is a timer of the workflow, where signals reach it. */
export const kubernetes = proxyLocalActivities<MachineActivities>({
  ...everyCall,
  startToCloseTimeout: '3 seconds',
  scheduleToCloseTimeout: '5 seconds',
});

/** The same for those of several requests in a row: each request ends within 2.5 s, and a slow server gets to the last. */
export const kubernetesSteps = proxyLocalActivities<
  Pick<MachineActivities, 'begin' | 'storeIdentity' | 'announceDeletion' | 'tearDown'>
>({ ...everyCall, startToCloseTimeout: '10 seconds', scheduleToCloseTimeout: '20 seconds' });
