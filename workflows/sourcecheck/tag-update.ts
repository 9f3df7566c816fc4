/** Gives the VMs of a source the tags that it has now, without replacing any. */
import { continueAsNew, proxyLocalActivities } from '@temporalio/workflow';
import type { TagUpdate, VmTagsActivities } from '../../activities/vm-tags.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { isActivityFailure, toFailure } from '../calls/failure.ts';
import { inParallel } from '../calls/parallel.ts';
import { updateVm } from '../calls/provider.ts';

const { readTagUpdate, writeVmTags, reportTagFailures } = proxyLocalActivities<VmTagsActivities>({
  startToCloseTimeout: '15 seconds',
  scheduleToCloseTimeout: '30 seconds',
  retry: { maximumAttempts: 2, initialInterval: '200 ms' },
});

/** After so many failures the others would most likely fail as well: they are left to the next update. */
const mostFailures = 20;

/** How far an update is, for its next run. */
interface TagUpdateProgress {
  readonly tags: TagUpdate['tags'];
  /** Name of the last Machine that was updated. */
  readonly after: string;
  readonly failed: number;
  readonly message?: string;
}

/** What came of it, for people. */
export type TagUpdateResult = { readonly failed: number; readonly message?: string };

/**
 * Workflow type `tagUpdate`. One at a time for a source, which it reads again and again: an edit in between starts over.
 * VMs that it could not change are left to the next one.
 */
export async function tagUpdate(ref: ObjectRef, progress?: TagUpdateProgress): Promise<TagUpdateResult> {
  let { failed = 0, message } = progress ?? {};
  try {
    const due = await readTagUpdate(ref, progress?.after ?? '');
    if (due === null) return { failed: 0 };
    const { place, tags, removedTags, machines, hasMore } = due;
    if (progress !== undefined && JSON.stringify(tags) !== JSON.stringify(progress.tags)) {
      return await continueAsNew<typeof tagUpdate>(ref);
    }
    await inParallel(machines, async ({ uid, name, providerID }) => {
      if (failed >= mostFailures) return;
      const machine = { uid, namespace: ref.namespace, name };
      const failure = await updateVm(place, {
        machine,
        tags,
        removedTags,
        ...(providerID !== undefined && { providerID }),
      });
      if (failure === undefined) return;
      failed += 1;
      message ??= `${name}: ${failure.message}`;
    });
    const last = machines.at(-1);
    if (hasMore && last !== undefined && failed < mostFailures) {
      return await continueAsNew<typeof tagUpdate>(ref, {
        tags,
        after: last.name,
        failed,
        ...(message && { message }),
      });
    }
    if (message !== undefined) await reportTagFailures(ref, failed, message);
    else if (!(await writeVmTags(ref, tags))) return await continueAsNew<typeof tagUpdate>(ref);
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    return { failed, message: toFailure(error).message };
  }
  return { failed, ...(message !== undefined && { message }) };
}
