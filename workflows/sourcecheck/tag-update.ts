/** Gives the VMs of a source the tags that it has now, without replacing any. */
import { continueAsNew, proxyLocalActivities } from '@temporalio/workflow';
import type { MachineToTag, TagUpdate, VmTagsActivities } from '../../activities/vm-tags.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { type Failure, isActivityFailure, toFailure } from '../calls/failure.ts';
import { inParallel } from '../calls/parallel.ts';
import { updateVm } from '../calls/provider.ts';

const { readTagUpdate, noteVmTags, reportTagFailures } = proxyLocalActivities<VmTagsActivities>({
  startToCloseTimeout: '15 seconds',
  scheduleToCloseTimeout: '30 seconds',
  retry: { maximumAttempts: 2, initialInterval: '200 ms' },
});

/**
 * After so many failures in one place the others of it would most likely fail as well: they are left to the next
 * update.
 */
const mostFailures = 20;

/** What came of it, for people. */
export type TagUpdateResult = { readonly failed: number; readonly message?: string };

/** How far an update is, for its next run. */
interface TagUpdateProgress extends TagUpdateResult {
  /** Name of the last Machine that was looked at. */
  readonly after: string;
  /** With which it began. */
  readonly tags: TagUpdate['tags'];
}

/**
 * Workflow type `tagUpdate`. Gives the VMs of a class its edited tags. One at a time for a source. Each of its runs
 * updates some of the Machines, with the tags that the source has by then. What it could not change is left to the next
 * update.
 */
export async function tagUpdate(ref: ObjectRef, progress?: TagUpdateProgress): Promise<TagUpdateResult> {
  const { failed = 0, message, after = '' } = progress ?? {};
  let result: TagUpdateResult = { failed, ...(message !== undefined && { message }) };
  try {
    const due = await readTagUpdate(ref, after);
    if (due !== null) {
      result = await updateAll(ref, due, result);
      const { last, tags } = due;
      return await continueAsNew<typeof tagUpdate>(ref, { ...result, after: last, tags: progress?.tags ?? tags });
    }
    if (result.message !== undefined) await reportTagFailures(ref, result.failed, result.message);
    // Edited meanwhile: the Machines at the beginning may have got the tags before that.
    const left = progress === undefined ? null : await readTagUpdate(ref, '');
    const isEdited = left !== null && JSON.stringify(left.tags) !== JSON.stringify(progress?.tags);
    if (isEdited) return await continueAsNew<typeof tagUpdate>(ref);
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    return { ...result, message: toFailure(error).message };
  }
  return result;
}

/** Updates Machines, some at a time. Answers `before` with what went wrong. */
async function updateAll(ref: ObjectRef, due: TagUpdate, before: TagUpdateResult): Promise<TagUpdateResult> {
  let result = before;
  const failures = new Map<number, number>();
  await inParallel(due.machines, async (machine) => {
    const { name, place } = machine;
    if ((failures.get(place) ?? 0) >= mostFailures) return;
    const problem = await updateOne(ref, due, machine);
    if (problem === undefined) return;
    const isHopeless = 'blockedOn' in problem && problem.blockedOn === 'ProviderWorker';
    failures.set(place, isHopeless ? mostFailures : (failures.get(place) ?? 0) + 1);
    result = { failed: result.failed + 1, message: result.message ?? `${name}: ${problem.message}` };
  });
  return result;
}

/** Updates the VM of a Machine, which says before and afterwards what is known of the tags. Answers what went wrong. */
async function updateOne(
  ref: ObjectRef,
  { tags, places }: TagUpdate,
  machine: MachineToTag,
): Promise<Pick<Failure, 'message'> | Failure | undefined> {
  const { uid, name, providerID, removedTags, problem } = machine;
  const { dialect, namespace } = ref;
  const place = places[machine.place];
  if (place === undefined) return { message: problem ?? 'nothing says where its VM was made' };
  let noted = machine.noted ?? null;
  const note = async (isCertain: boolean) => {
    const seen = { providerID, ...(noted !== null && { noted }) };
    noted = await noteVmTags({ dialect, namespace, name, uid }, seen, tags, isCertain);
    return noted !== null;
  };
  try {
    if (removedTags !== undefined) {
      if (!(await note(false))) return undefined; // it has changed, and is read again
      const failure = await updateVm(place, { machine: { uid, namespace, name }, providerID, tags, removedTags });
      if (failure !== undefined) return failure;
    }
    await note(true);
    return undefined;
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    return toFailure(error);
  }
}
