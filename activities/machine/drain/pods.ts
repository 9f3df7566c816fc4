/** Which pods of a node a drain empties it of. */
import type { Pod } from '../../../kube/core.ts';

/**
 * Whether a drain evicts the pod. A DaemonSet would bring its pod back at once, and a mirror pod is the kubelet's own.
 */
export function isEvictable({ metadata }: Pod): boolean {
  const isMirror = metadata.annotations?.['kubernetes.io/config.mirror'] !== undefined;
  return (
    !isMirror && metadata.ownerReferences?.some(({ kind, controller }) => controller && kind === 'DaemonSet') !== true
  );
}

/** Whether somebody has deleted the pod, so that it only has to end. */
export function isEnding({ metadata }: Pod): boolean {
  return metadata.deletionTimestamp !== undefined;
}

export function uidOf({ metadata: { uid } }: Pod): string {
  return uid;
}

/** `<namespace>/<name>`, for people. */
export function nameOf({ metadata }: Pod): string {
  return `${metadata.namespace}/${metadata.name}`;
}
