/** What a forced drain does: it deletes pods without grace, and detaches the node's volumes. */
import type { KubeClient } from '../../../kube/client.ts';
import { type Node, type Pod, pods, volumeAttachments } from '../../../kube/core.ts';
import { isConflict, isNotFound } from '../../../kube/errors.ts';
import { isEvictable } from './pods.ts';

/** From this time on a node that is not ready, or read-only, has no kubelet that would end a pod, ms. As in MCM. */
const longUnhealthyMs = 5 * 60_000;

/** Whether nothing is gained by waiting for the pods of a node. @param nowMs on Temporal's clock, ms since the epoch */
export function isLongUnhealthy({ status }: Node, nowMs: number): boolean {
  const isBad = ({ type, status: value }: { readonly type: string; readonly status: string }) =>
    type === 'Ready' ? value !== 'True' : type === 'ReadonlyFilesystem' && value === 'True';
  const bad = (status?.conditions ?? []).filter(isBad);
  return bad.some(({ lastTransitionTime = '' }) => nowMs > Date.parse(lastTransitionTime) + longUnhealthyMs);
}

/** The pods of a node that a drain empties it of. */
export async function listPods(target: KubeClient, nodeName: string, signal: AbortSignal): Promise<readonly Pod[]> {
  const { items } = await target.list(pods, { fieldSelector: `spec.nodeName=${nodeName}`, signal });
  return items.filter(isEvictable);
}

/** Deletes pods with a grace period of 0, and does not wait until they are gone. */
export async function deletePods(target: KubeClient, left: readonly Pod[], signal: AbortSignal): Promise<void> {
  const force = { gracePeriodSeconds: 0, signal };
  await untilAnswered(
    left.map(({ metadata }) =>
      unlessGone(() => target.delete(pods, metadata, { ...force, preconditions: { uid: metadata.uid } })),
    ),
  );
}

/**
 * Deletes the VolumeAttachments of a node, each once, also those that are made meanwhile. The attach/detach controller
 * waits for minutes before it takes a volume from a node that does not answer.
 */
export async function deleteAttachments(target: KubeClient, nodeName: string, signal: AbortSignal): Promise<void> {
  const asked = new Set<string>();
  for (;;) {
    const { items } = await target.list(volumeAttachments, { signal });
    const live = items.filter(
      ({ metadata, spec }) =>
        spec?.nodeName === nodeName && metadata.deletionTimestamp === undefined && !asked.has(metadata.uid),
    );
    if (live.length === 0) return;
    for (const { metadata } of live) asked.add(metadata.uid);
    await untilAnswered(
      live.map(({ metadata: { name, uid } }) =>
        unlessGone(() => target.delete(volumeAttachments, { name }, { preconditions: { uid }, signal })),
      ),
    );
  }
}

/** Waits until each deletion is answered: none is under way when the drain is tried again. Throws the first error. */
async function untilAnswered(deletions: readonly Promise<void>[]): Promise<void> {
  const outcomes = await Promise.allSettled(deletions);
  const refused = outcomes.find((outcome) => outcome.status === 'rejected');
  if (refused !== undefined) throw refused.reason;
}

async function unlessGone(deletion: () => Promise<void>): Promise<void> {
  try {
    await deletion();
  } catch (error) {
    if (!isNotFound(error) && !isConflict(error)) throw error;
  }
}
