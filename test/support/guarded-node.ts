import type { KubeClient } from '../../kube/client.ts';
import { podDisruptionBudgets, pods } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';

/**
 * Runs a pod on a node that a PodDisruptionBudget protects, both named `guarded`. Answers what takes the budget away.
 * @param namespace of the pod
 */
export async function guardNode(
  target: KubeClient,
  namespace: string,
  nodeName: string,
): Promise<() => Promise<unknown>> {
  const key = { namespace, name: 'guarded' };
  await target.create(pods, {
    metadata: { ...key, labels: { app: 'guarded' } },
    spec: { nodeName, containers: [{ name: 'app', image: 'app' }] },
  });
  const { metadata } = await target.create(podDisruptionBudgets, {
    metadata: key,
    spec: { selector: { matchLabels: { app: 'guarded' } }, minAvailable: 1 },
  });
  const counts = { currentHealthy: 1, desiredHealthy: 1, expectedPods: 1, disruptionsAllowed: 0 };
  const status = { observedGeneration: metadata.generation, ...counts };
  await target.patch(podDisruptionBudgets, key, mergePatch({ status }), { subresource: 'status' });
  return () => target.delete(podDisruptionBudgets, key);
}
