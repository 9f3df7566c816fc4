/**
 * Has a source of machines judged by its provider, and writes the verdict on it before a Machine needs a VM from it.
 */
import { proxyLocalActivities } from '@temporalio/workflow';
import type { MachineActivities } from '../../activities/machine/index.ts';
import type { VerdictActivities } from '../../activities/verdict.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import type { ClassVerdict } from '../../api/provider.ts';
import { type Failure, isActivityFailure, toFailure } from '../calls/failure.ts';
import { validateClass } from '../calls/provider.ts';

const { readSource, writeVerdict } = proxyLocalActivities<Pick<MachineActivities, 'readSource'> & VerdictActivities>({
  startToCloseTimeout: '7 seconds',
  scheduleToCloseTimeout: '15 seconds',
  retry: { maximumAttempts: 2, initialInterval: '200 ms' },
});

/** What came of a check, for people: the problems of the verdict, or why there is none. */
export type CheckResult = { readonly problems: readonly string[] } | { readonly failure: Failure };

/**
 * Workflow type `sourceCheck`. Has the provider check a class. Without an answer it ends without a verdict, and is
 * repeated.
 */
export async function sourceCheck(ref: ObjectRef): Promise<CheckResult> {
  try {
    const { version, cloud, problem } = await readSource(ref, ref.name);
    const found: ClassVerdict | Failure = cloud === undefined ? { problems: [] } : await validateClass(cloud);
    if ('code' in found) return { failure: found };
    const { tags, interruptible, listScope = ref.uid } = found;
    const problems = problem === undefined ? found.problems : [problem, ...found.problems];
    const interruptionScope = interruptible ? listScope : undefined;
    await writeVerdict(ref, {
      ...{ version, problems },
      ...(tags && { tags }),
      ...(interruptionScope !== undefined && { interruptionScope }),
    });
    return { problems };
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    return { failure: toFailure(error) };
  }
}
