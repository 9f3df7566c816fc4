/** Gives the VMs of a source the tags that it has now, without replacing any. */
import { continueAsNew, proxyLocalActivities } from '@temporalio/workflow';
import type { MachineToTag, TagUpdate, VmTagsActivities } from '../../activities/vm-tags.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { isActivityFailure, toFailure } from '../calls/failure.ts';
import { inParallel } from '../calls/parallel.ts';
import { updateVm } from '../calls/provider.ts';

const { readTagUpdate, noteVmTags, reportTagFailures } = proxyLocalActivities<VmTagsActivities>({
  startToCloseTimeout: '15 seconds',
  scheduleToCloseTimeout: '30 seconds',
  retry: { maximumAttempts: 2, initialInterval: '200 ms' },
});

/** After so many failures the others would most likely fail as well: they are left to the next update. */
const mostFailures = 20;

/** What came of it, for people. */
export type TagUpdateResult = { readonly failed: number; readonly message?: string };

/** How far an update is, for its next run. */
interface TagUpdateProgress extends TagUpdateResult {
  /** Name of the last Machine that was updated. */
  readonly after: string;
}

/**
 * Workflow type `tagUpdate`. One at a time for a source. Each of its runs reads what there is to do, so tags that are edited
 * meanwhile are given as well. VMs that it could not change are left to the next update.
 */
export async function tagUpdate(ref: ObjectRef, progress?: TagUpdateProgress): Promise<TagUpdateResult> {
  const { after = '', ...before } = progress ?? { failed: 0 };
  let result: TagUpdateResult = before;
  try {
    const due = await readTagUpdate(ref, after);
    if (due !== null) {
      await inParallel(due.machines, async (machine) => {
        if (result.failed >= mostFailures) return;
        const problem = await updateOne(ref, due, machine);
        if (problem !== undefined) result = { failed: result.failed + 1, message: result.message ?? problem };
      });
      const last = due.machines.at(-1)?.name;
      if (last !== undefined && result.failed < mostFailures) {
        return await continueAsNew<typeof tagUpdate>(ref, { ...result, after: last });
      }
    } else if (result.failed === 0 && after !== '') {
      return await continueAsNew<typeof tagUpdate>(ref); // what was edited meanwhile
    }
    if (result.message !== undefined) await reportTagFailures(ref, result.failed, result.message);
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    return { ...result, message: toFailure(error).message };
  }
  return result;
}

/** Updates the VM of a Machine, and notes that on it. Answers what went wrong, for people. */
async function updateOne(
  ref: ObjectRef,
  { tags, places }: TagUpdate,
  machine: MachineToTag,
): Promise<string | undefined> {
  const { uid, name, providerID, removedTags } = machine;
  const { dialect, namespace } = ref;
  const note = (isCertain: boolean) => noteVmTags({ dialect, namespace, name, uid }, tags, isCertain);
  const place = places[machine.place];
  if (removedTags !== undefined && place !== undefined) {
    const identity = { uid, namespace, name };
    const failure = await updateVm(place, { machine: identity, providerID, tags, removedTags });
    if (failure !== undefined) {
      await note(false);
      return `${name}: ${failure.message}`;
    }
  }
  await note(true);
  return undefined;
}
