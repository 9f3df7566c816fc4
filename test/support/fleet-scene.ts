/**
 * A fleet as somebody may have it, for the picture of the fleet page: pools in three zones, a rollout, and what is
 * stuck.
 */
import { labels } from '../../api/gardener/names.ts';
import { machineDeployments } from '../../api/gardener/resources.ts';
import { mergePatch } from '../../kube/patch.ts';
import type { Installation } from './installation.ts';
import { until } from './until.ts';

const zone = 'topology.kubernetes.io/zone';

const pools: readonly { readonly name: string; readonly zone: string; readonly replicas: number }[] = [
  { name: 'web-a', zone: 'zone-a', replicas: 28 },
  { name: 'web-b', zone: 'zone-b', replicas: 28 },
  { name: 'batch-c', zone: 'zone-c', replicas: 16 },
  { name: 'gpu-a', zone: 'zone-a', replicas: 5 },
];

/** Makes the pools, begins a rollout of one of them, and lets another ask for more than the cloud has. */
export async function createFleetScene({ control, cloud, namespace, ...installation }: Installation): Promise<void> {
  const { createClass, createDeployment, machines, scale } = installation;
  const spec = (name: string) => ({
    endpoint: cloud.url,
    machineType: 'small',
    tags: { cluster: namespace, pool: name },
  });
  for (const { name, zone: of, replicas } of pools) {
    await createClass(name, { providerSpec: spec(name) });
    await createDeployment(name, replicas, {
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 6, maxUnavailable: 0 } },
      template: {
        metadata: { labels: { [labels.name]: name } },
        spec: { class: { kind: 'MachineClass', name }, nodeTemplate: { metadata: { labels: { [zone]: of } } } },
      },
    });
  }
  const total = pools.reduce((sum, { replicas }) => sum + replicas, 0);
  const running = async () =>
    (await machines()).filter(({ status }) => status?.currentStatus?.phase === 'Running').length;
  await until('all run', async (see) => see(await running()) === total);

  await cloud.setFaults(
    { kind: 'capacity', tags: { pool: 'gpu-a' } },
    { kind: 'neverJoin', tags: { pool: 'web-b-2' } },
  );
  await scale('gpu-a', 8);
  await createClass('web-b-2', { providerSpec: spec('web-b-2') });
  const newClass = { template: { spec: { class: { name: 'web-b-2' } } } };
  await control.patch(machineDeployments, { namespace, name: 'web-b' }, mergePatch({ spec: newClass }));
  await until('the rollout has begun', async (see) => see(await machines()).length === total + 3 + 6);
}
