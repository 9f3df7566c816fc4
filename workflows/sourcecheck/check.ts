/**
 * Has a source of machines judged by its provider, and writes the verdict on it before a Machine needs a VM from it.
 */
import { proxyActivities, proxyLocalActivities } from '@temporalio/workflow';
import type { MachineActivities } from '../../activities/machine/index.ts';
import type { SigningActivities } from '../../activities/sign-places.ts';
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

/** Writes to as many Machines as a class has. */
const { signPlaces } = proxyActivities<SigningActivities>({
  startToCloseTimeout: '10 minutes',
  heartbeatTimeout: '10 seconds',
  retry: { maximumAttempts: 3, initialInterval: '500 ms' },
});

/** What came of a check, for people: the problems of the verdict, or why there is none. */
export type CheckResult = { readonly problems: readonly string[] } | { readonly failure: Failure };

/**
 * Workflow type `sourceCheck`. Has the provider check a class. Without an answer it ends without a verdict, and is
 * repeated.
 * @param hasUnsigned Machines of it say places without a signature, which are what classes say: they are signed
 */
export async function sourceCheck(ref: ObjectRef, hasUnsigned = false): Promise<CheckResult> {
  const notSigned = hasUnsigned ? await trySigning(ref) : undefined;
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
    return notSigned ?? { problems };
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    return { failure: toFailure(error) };
  }
}

/** Why not all places are signed, which keeps the class from no check. The next check tries again. */
async function trySigning(ref: ObjectRef): Promise<CheckResult | undefined> {
  try {
    await signPlaces(ref);
    return undefined;
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    return { failure: toFailure(error) };
  }
}
