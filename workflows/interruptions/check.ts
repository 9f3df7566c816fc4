/** Asks the clouds which VMs they are about to take away, and tells the workflows of their Machines. */
import { getExternalWorkflowHandle, isCancellation, proxyLocalActivities, workflowInfo } from '@temporalio/workflow';
import type { InterruptedMachine, InterruptionActivities, PlacePage } from '../../activities/interruptions.ts';
import type { Place } from '../../api/model/source.ts';
import type { SweepNamespace } from '../../api/model/sweep.ts';
import { inPortions } from '../../api/payloads.ts';
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

/** Most VMs whose Machines are looked for in one call: the answer is a payload, too. */
const maxAsked = 1_000;
/** Most names, and most failures, of a report. */
const maxReported = 500;

/** What came of a check, for people. */
export interface InterruptionReport {
  /** Names of Machines whose workflows were told, the first 500. */
  readonly told: readonly string[];
  /** What could not be asked, the first 500. The next check asks again. */
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
    await inParallel(await listPlaces(of), async (place) => {
      const failure = await listAll(place, found);
      if (failure !== undefined) failures.push(failure);
    });
    for (const portion of inPortions(found, maxAsked)) {
      await inParallel(await kubernetes.findInterrupted(of, portion), async (machine) => {
        if (await tell(of, machine)) told.push(machine.name);
      });
    }
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    failures.push(toFailure(error));
  }
  const [firstTold = []] = inPortions(told, maxReported);
  const [firstFailures = []] = inPortions(failures, maxReported);
  return { told: firstTold, failures: firstFailures };
}

async function listPlaces(of: SweepNamespace): Promise<readonly Place[]> {
  const places: Place[] = [];
  let next: string | undefined;
  do {
    const answer = await (next === undefined
      ? kubernetes.listInterruptible(of)
      : kubernetes.listInterruptible(of, next));
    const page: PlacePage = Array.isArray(answer) ? { places: answer } : answer; // a list, in histories of 0.1.0
    places.push(...page.places);
    next = page.next;
  } while (next !== undefined);
  return places;
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
