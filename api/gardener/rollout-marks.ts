/**
 * What a rollout puts on Nodes, as MCM does: pods should go elsewhere, and the cluster autoscaler leaves the Nodes
 * alone.
 */
import type { RolloutMarks } from '../dialect.ts';
import type { NodePatch, TemplatedNode } from '../node-template.ts';
import { annotations, taints } from './names.ts';

/**
 * Old Nodes have the taint PreferNoSchedule, also when they are rolled back onto no more. Of the autoscaler's
 * annotation, what somebody else has written stays his; that of a preserved machine stays after the rollout. undefined:
 * it is so already.
 */
export function toRolloutPatch(
  { metadata, spec }: TemplatedNode,
  { isRolling, isComplete, isOld, isPreserved, isKeptFromAutoscaler }: RolloutMarks,
): NodePatch | undefined {
  const { [annotations.scaleDownDisabled]: disabled, [annotations.scaleDownDisabledByMcm]: byMcm } =
    metadata.annotations ?? {};
  const others = (spec?.taints ?? []).filter(({ key }) => key !== taints.preferNoSchedule.key);
  const isTainted = others.length < (spec?.taints?.length ?? 0);
  const mayBeRemoved = byMcm !== undefined && isComplete && !isPreserved;
  const value = isRolling && isKeptFromAutoscaler && disabled !== 'true' ? 'true' : mayBeRemoved ? null : undefined;
  if (value === undefined && isTainted === isOld) return undefined;
  const kept = { [annotations.scaleDownDisabled]: value ?? null, [annotations.scaleDownDisabledByMcm]: value ?? null };
  return {
    ...(value !== undefined && { metadata: { annotations: kept } }),
    ...(isTainted !== isOld && { spec: { taints: isOld ? [...others, taints.preferNoSchedule] : others } }),
  };
}
