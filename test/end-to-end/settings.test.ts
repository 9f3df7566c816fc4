/** What machines get from their deployment while they exist, without being replaced. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { annotations } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import { nodes } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';

describe('the settings of a deployment', () => {
  let millwright: Installation;

  beforeAll(async () => {
    millwright = await startInstallation();
    millwright.recordAs('settings');
    await millwright.createDeployment('pool', 2);
    await millwright.untilMachines(2, 'Running');
  });
  afterAll(async () => {
    await millwright?.stop();
  });

  async function edit(change: object): Promise<void> {
    const { namespace, control } = millwright;
    await control.patch(machineDeployments, { namespace, name: 'pool' }, mergePatch(change));
  }

  async function untilEach(what: string, check: (machine: Machine) => boolean): Promise<Machine[]> {
    return until(
      `each machine ${what}`,
      async () => {
        const found = await millwright.machines();
        return found.every(check) ? found : undefined;
      },
      { describe: () => millwright.story() },
    );
  }

  const isAsBefore = (before: readonly Machine[]) => (machine: Machine) =>
    before.some(({ metadata, spec }) => {
      return metadata.uid === machine.metadata.uid && spec?.providerID === machine.spec?.providerID;
    });

  it('[mcm 42] reach its machines and their Nodes: no VM is replaced', async () => {
    const before = await millwright.machines();
    const spec = {
      nodeTemplate: { metadata: { labels: { zone: 'a' } }, spec: { taints: [{ key: 'gpu', effect: 'NoSchedule' }] } },
      drainTimeout: '1h0m0s',
      healthTimeout: '3m0s',
      creationTimeout: '7m0s',
      maxEvictRetries: 0,
      nodeConditions: 'DiskPressure',
      disableHealthTimeout: true,
    };
    await edit({ spec: { minReadySeconds: 1, template: { spec } } });
    const edited = await untilEach('has all settings', (machine) => machine.spec?.drainTimeout === '1h0m0s');
    for (const { spec: own } of edited) expect(own).toMatchObject(spec);
    for (const { metadata } of edited) {
      await until(`the Node of ${metadata.name} has the label and the taint`, async (see) => {
        const node = see(await millwright.target.get(nodes, { name: metadata.name }));
        return node.metadata.labels?.['zone'] === 'a' && node.spec?.taints?.some(({ key }) => key === 'gpu');
      });
    }
    const [set, ...others] = (await millwright.control.list(machineSets, { namespace: millwright.namespace })).items;
    expect(others).toEqual([]);
    expect(set?.spec).toMatchObject({ minReadySeconds: 1, template: { spec } });

    await edit({ spec: { template: { spec: { nodeTemplate: null, drainTimeout: null } } } });
    const reset = await untilEach('has lost them', ({ spec: own }) => own?.drainTimeout === undefined);
    for (const { spec: own } of reset) expect(own).not.toHaveProperty('nodeTemplate');
    for (const { metadata } of reset) {
      await until(`the Node of ${metadata.name} has lost the label`, async (see) => {
        const node = see(await millwright.target.get(nodes, { name: metadata.name }));
        return node.metadata.labels?.['zone'] === undefined && node.spec?.taints === undefined;
      });
    }
    expect(reset.every(isAsBefore(before))).toBe(true);
    expect(await millwright.cloud.stats()).toMatchObject({ vmsEver: 2 });
  });

  it('[mcm 24] have a creation timeout by annotation for the machines that are made from then on, and no others', async () => {
    const before = await millwright.machines();
    await edit({
      metadata: { annotations: { [annotations.effectiveCreationTimeout]: '5m0s' } },
      spec: { replicas: 3, template: { spec: { creationTimeout: '8m0s' } } },
    });
    const after = await millwright.untilMachines(3, 'Running');
    await untilEach('has its timeout', (machine) => {
      const own = isAsBefore(before)(machine) ? '8m0s' : '5m0s';
      return machine.spec?.creationTimeout === own;
    });
    expect(after.filter(isAsBefore(before))).toHaveLength(2);
  });

  it('wait while it is paused', async () => {
    await edit({ spec: { paused: true } });
    await edit({ spec: { replicas: 2, template: { spec: { drainTimeout: '9m0s' } } } });
    await millwright.untilMachines(2, 'Running');
    expect((await millwright.machines()).map(({ spec }) => spec?.drainTimeout)).toEqual([undefined, undefined]);

    await edit({ spec: { paused: false } });
    await untilEach('has it', ({ spec }) => spec?.drainTimeout === '9m0s');
  });
});
