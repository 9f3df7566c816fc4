/** Asks the clouds which VMs they are about to take away, and tells the workflows of their Machines. */
import { getExternalWorkflowHandle, isCancellation, proxyLocalActivities, workflowInfo } from '@temporalio/workflow';
import type { InterruptedMachine, InterruptionActivities } from '../../activities/interruptions.ts';
import type { Place } from '../../api/model/source.ts';
import type { SweepNamespace } from '../../api/model/sweep.ts';
import type { Interruption } from '../../api/provider.ts';
import { workflowId } from '../../api/workflow-id.ts';
import { type Failure, isActivityFailure, toFailure } from '../calls/failure.ts';
import { inParallel } from '../calls/parallel.ts';
import { listInterruptions } from '../calls/provider.ts';
import { interruptedSignal } from '../machine/messages.ts';

const kubernetes = proxyLocalActivities<InterruptionActivities>({
  startToCloseTimeout: '7 seconds',
  scheduleToCloseTimeout: '15 seconds',
  retry: { maximumAttempts: 2, initialInterval: '200 ms' },
});

/** What came of a check, for people. */
export interface InterruptionReport {
  /** Names of the Machines whose workflows were told. */
  readonly told: readonly string[];
  /** What could not be asked. The next check asks again. */
  readonly failures: readonly Failure[];
}

/**
 * Workflow type `interruptionCheck`. Asks the clouds which VMs they are about to take away. The next check starts soon.
 */
export async function interruptionCheck(of: SweepNamespace): Promise<InterruptionReport> {
  const told: string[] = [];
  const failures: Failure[] = [];
  try {
    const found: Interruption[] = [];
    await inParallel(await kubernetes.listInterruptible(of), async (place) => {
      const failure = await listAll(place, found);
      if (failure !== undefined) failures.push(failure);
    });
    const interrupted = found.length === 0 ? [] : await kubernetes.findInterrupted(of, found);
    await inParallel(interrupted, async (machine) => {
      if (await tell(of, machine)) told.push(machine.name);
    });
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    failures.push(toFailure(error));
  }
  return { told, failures };
}

/** Adds the interruptions in a place to those found. Answers with the failure, if there is one. */
async function listAll(place: Place, found: Interruption[]): Promise<Failure | undefined> {
  let page: string | undefined;
  do {
    const answer = await listInterruptions(place, page);
    if ('code' in answer) return answer;
    found.push(...answer.items);
    page = answer.nextPage;
  } while (page !== undefined);
  return undefined;
}

/** Answers false where the Machine has no open workflow: the next check finds one, if the Machine is still there. */
async function tell(
  { dialect, namespace }: SweepNamespace,
  { name, uid, ...interruption }: InterruptedMachine,
): Promise<boolean> {
  const id = workflowId(workflowInfo().taskQueue, 'Machine', { dialect, namespace, name, uid });
  try {
    await getExternalWorkflowHandle(id).signal(interruptedSignal, interruption);
    return true;
  } catch (error) {
    if (isCancellation(error)) throw error;
    return false;
  }
}
