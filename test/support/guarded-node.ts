import type { KubeClient } from '../../kube/client.ts';
import { podDisruptionBudgets, pods } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';

/**
 * Runs a pod on a node that a PodDisruptionBudget protects, both of one name. Answers what takes the budget away. With
 * one expected pod the budget never allows an eviction, with more it waits for the others.
 * @param namespace of the pod
 */
export async function guardNode(
  target: KubeClient,
  namespace: string,
  nodeName: string,
  { name = 'guarded', expectedPods = 1 } = {},
): Promise<() => Promise<unknown>> {
  const key = { namespace, name };
  await target.create(pods, {
    metadata: { ...key, labels: { app: name } },
    spec: { nodeName, containers: [{ name: 'app', image: 'app' }] },
  });
  const { metadata } = await target.create(podDisruptionBudgets, {
    metadata: key,
    spec: { selector: { matchLabels: { app: name } }, minAvailable: 1 },
  });
  const counts = { currentHealthy: 1, desiredHealthy: 1, expectedPods, disruptionsAllowed: 0 };
  const status = { observedGeneration: metadata.generation, ...counts };
  await target.patch(podDisruptionBudgets, key, mergePatch({ status }), { subresource: 'status' });
  return () => target.delete(podDisruptionBudgets, key);
}
