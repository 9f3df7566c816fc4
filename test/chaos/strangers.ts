/** What belongs to somebody else in a run: a Node, and a VM with its disk, NIC and address. */
import { createVm } from '../../activities/providers/simulated/client.ts';
import { annotations } from '../../api/gardener/names.ts';
import type { CloudAdmin } from '../../deploy/local/simulated-cloud/admin.ts';
import type { KubeClient } from '../../kube/client.ts';
import { nodes } from '../../kube/core.ts';
import { reportCondition } from '../support/node-conditions.ts';

const node = 'stranger';

/** Makes them, and reads them as they are then. @param token of the cloud */
export async function createStrangers(target: KubeClient, cloud: CloudAdmin, token: string) {
  await target.create(nodes, { metadata: { name: node, labels: { pool: 'others' } }, spec: {} });
  await reportCondition(target, node, 'Ready', 'True');
  const place = { region: 'here', machineType: 'small' as const };
  const { id: vm } = await createVm(
    { endpoint: cloud.url, token },
    { ...place, token: node, name: node, userData: 'none', tags: { cluster: 'others' }, node: null },
    AbortSignal.timeout(10_000),
  );
  const ownResources = async () => (await cloud.resources()).filter((each) => each.id === vm || each.vm === vm);
  const ids = (await ownResources()).map(({ id }) => id);

  /** In JSON, by what it is. Left out is the annotation that every Node without a Machine gets. */
  async function read(): Promise<Readonly<Record<string, string>>> {
    const found = await target.find(nodes, { name: node });
    const { uid, labels, annotations: given = {}, finalizers, deletionTimestamp } = found?.metadata ?? {};
    const { [annotations.notManaged]: _, ...others } = given;
    const conditions = found?.status?.conditions?.map(({ type, status }) => [type, status]);
    const { spec } = found ?? {};
    return {
      Node: JSON.stringify({ uid, labels, annotations: others, finalizers, deletionTimestamp, spec, conditions }),
      VM: JSON.stringify(await ownResources()),
    };
  }
  return { node, ids, read, before: await read() };
}
