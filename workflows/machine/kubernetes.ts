/** Kubernetes as the workflow of a machine calls it. */
import { proxyActivities, proxyLocalActivities } from '@temporalio/workflow';
import type { MachineActivities } from '../../activities/machine/index.ts';

const everyCall = {
  retry: { maximumAttempts: 2, initialInterval: '200 ms' },
  cancellationType: 'WAIT_CANCELLATION_COMPLETED',
} as const;

/** Local activities of few requests. A longer wait is a timer of the workflow, where signals reach it. */
export const kubernetes = proxyLocalActivities<MachineActivities>({
  ...everyCall,
  startToCloseTimeout: '3 seconds',
  scheduleToCloseTimeout: '5 seconds',
});

/** The same with several requests in a row: a slow API server can answer all of them within 7 s. */
export const kubernetesSteps = proxyLocalActivities<
  Pick<MachineActivities, 'begin' | 'storeIdentity' | 'syncNode' | 'maintain' | 'announceDeletion' | 'tearDown'>
>({ ...everyCall, startToCloseTimeout: '7 seconds', scheduleToCloseTimeout: '15 seconds' });

/** A list of all Machines: only asked for where something is unusual. */
export const kubernetesLists = proxyActivities<Pick<MachineActivities, 'findVmOwner'>>({
  ...everyCall,
  startToCloseTimeout: '30 seconds',
});
