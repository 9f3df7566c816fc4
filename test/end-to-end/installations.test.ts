import { afterEach, describe, expect, it } from '@jest/globals';
import { machineDeployments } from '../../api/gardener/resources.ts';
import { searchAttributes } from '../../api/names.ts';
import { nodes } from '../../kube/core.ts';
import { fromSetup, type Installation, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';

describe('installations', () => {
  const running: Installation[] = [];

  afterEach(async () => {
    await Promise.all(running.splice(0).map((installation) => installation.stop()));
  });

  async function start(options?: Parameters<typeof startInstallation>[0]): Promise<Installation> {
    const installation = await startInstallation(options);
    running.push(installation);
    return installation;
  }

  it('side by side on one Temporal namespace and one API server touch nothing of each other', async () => {
    const [one, two] = await Promise.all([start(), start()]);
    await Promise.all([one.createDeployment('left', 3), two.createDeployment('right', 3)]);
    await Promise.all([one.untilMachines(3, 'Running'), two.untilMachines(3, 'Running')]);
    const before = JSON.stringify([await two.machines(), (await two.nodes()).map(({ metadata }) => metadata.uid)]);

    await one.control.delete(machineDeployments, { namespace: one.namespace, name: 'left' });
    await until('the first is empty', async (see) => see(await one.machines()).length === 0);

    expect(await one.nodes()).toEqual([]);
    expect(await one.cloud.stats()).toMatchObject({ vmsNow: 0 });
    expect(JSON.stringify([await two.machines(), (await two.nodes()).map(({ metadata }) => metadata.uid)])).toBe(
      before,
    );
    expect(await two.cloud.stats()).toMatchObject({ vmsEver: 3, vmsNow: 3, deletes: 0 });
    for await (const { workflowId, taskQueue } of two.temporal.workflow.list({
      query: `${searchAttributes.installation} = '${two.namespace}'`,
    })) {
      expect(workflowId.startsWith(`${two.namespace}/`)).toBe(true);
      expect(taskQueue).toBe(two.namespace);
    }
  });

  it('keep machines in one cluster and their nodes in another', async () => {
    const millwright = await start({ targetKubeconfig: fromSetup('MILLWRIGHT_TEST_KUBECONFIG_2') });
    await millwright.createDeployment('remote', 2);

    const machines = await millwright.untilMachines(2, 'Running');

    const names = new Set(machines.map(({ metadata }) => metadata.name));
    expect((await millwright.nodes()).map(({ metadata }) => metadata.name).toSorted()).toEqual([...names].toSorted());
    for (const name of names) expect(await millwright.control.find(nodes, { name })).toBeUndefined();
    const { namespace } = millwright;
    await millwright.control.delete(machineDeployments, { namespace, name: 'remote' });
    await until('all are gone', async (see) => see(await millwright.machines()).length === 0);
    expect(await millwright.nodes()).toEqual([]);
  });
});
