/** Conditions of Nodes, written as kubelets and problem detectors write them. */
import type { KubeClient } from '../../kube/client.ts';
import { nodes } from '../../kube/core.ts';
import { strategicMergePatch } from '../../kube/patch.ts';

/** Writes one condition of a Node. @param at its heartbeat */
export async function reportCondition(
  target: KubeClient,
  name: string,
  type: string,
  status: string,
  at = new Date(),
): Promise<void> {
  const time = at.toISOString().replace(/\.\d+/, '');
  const condition = { type, status, reason: 'Test', message: 'test', lastHeartbeatTime: time };
  const patch = strategicMergePatch({ status: { conditions: [condition] } });
  await target.patch(nodes, { name }, patch, { subresource: 'status' });
}
