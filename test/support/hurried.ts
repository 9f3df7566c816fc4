/**
 * A cloud for which the kit waits less by this factor: for its lists to settle, and between two looks at a deletion.
 */
export function hurried<C extends { readonly settleSeconds: number; readonly deletionPollMs: number }>(
  cloud: C,
  factor: number,
): C {
  return { ...cloud, settleSeconds: cloud.settleSeconds / factor, deletionPollMs: cloud.deletionPollMs / factor };
}
