import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { searchAttributes } from '../../api/names.ts';
import { type FaultProxy, startFaultProxy, statusBody } from '../faults/proxy.ts';
import { fromSetup, type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';

describe('an outage', () => {
  let millwright: Installation;
  let proxy: FaultProxy;
  let dir: string;

  beforeEach(async () => {
    proxy = await startFaultProxy(fromSetup('MILLWRIGHT_TEST_KUBECONFIG'));
    dir = await mkdtemp(join(tmpdir(), 'millwright-outage-'));
    await proxy.writeKubeconfig(join(dir, 'kubeconfig'));
  });
  afterEach(async () => {
    proxy.setRule();
    await millwright?.stop();
    await proxy.close();
    await rm(dir, { recursive: true });
  });

  async function start(flags: readonly string[]): Promise<void> {
    // A process that leads gives up when it cannot renew its Leases, which is not what is looked at here.
    const processKubeconfig = join(dir, 'kubeconfig');
    millwright = await startInstallation({ processKubeconfig, flags: ['--leader-elect', 'false', ...flags] });
  }

  async function failedWorkflows(): Promise<number> {
    const query = `${searchAttributes.installation} = '${millwright.namespace}' AND ExecutionStatus = 'Failed'`;
    return (await millwright.temporal.workflow.count(query)).count;
  }

  it('[invariant 6] of the API server fails no workflow and no machine, and all of them run afterwards', async () => {
    await start(['--machine-creation-timeout', '10s']);
    millwright.recordAs('api-server-away');
    const { cloud } = millwright;
    await cloud.setFaults({ kind: 'latency', operation: 'create', ms: 500, maxMs: 1_500 });
    await millwright.createDeployment('pool', 5);
    await until('some VMs are being created', async () => ((await cloud.stats()).creates > 0 ? true : undefined));
    await proxy.goDown();
    const downAt = Date.now();
    const [ref] = (await millwright.machines()).map(({ metadata }) => ({
      dialect: 'gardener' as const,
      namespace: millwright.namespace,
      name: metadata.name,
      uid: metadata.uid,
    }));
    if (ref === undefined) throw new Error('there is no machine');
    await until('the workflow says what it waits for', async () =>
      (await millwright.describe(ref).catch(() => undefined))?.blockedOn === 'KubernetesApi' ? true : undefined,
    );
    await until('the creation timeout is over', async () => (Date.now() > downAt + 12_000 ? true : undefined));
    await proxy.comeUp();

    await millwright.untilMachines(5, 'Running', 120_000);

    expect(await cloud.stats()).toMatchObject({ vmsEver: 5, vmsNow: 5 });
    expect(await failedWorkflows()).toBe(0);
  }, 240_000);

  it('of a permission is waited for and shown, and over when it is granted', async () => {
    await start([]);
    millwright.recordAs('permission-missing');
    const forbidden = statusBody(403, 'Forbidden', 'secrets is forbidden');
    proxy.setRule(({ url, isWatch }) =>
      url.pathname.includes(`/namespaces/${millwright.namespace}/secrets`) && !isWatch
        ? { kind: 'answer', status: 403, body: forbidden }
        : undefined,
    );
    const ref = await millwright.createMachine('forbidden');

    const shown = await until('it says so', async () => {
      const described = await millwright.describe(ref).catch(() => undefined);
      return described?.blockedOn === 'KubernetesApi' ? described : undefined;
    });

    expect(shown.lastError).toMatchObject({ code: 'PermissionDenied', message: expect.stringContaining('forbidden') });
    expect(await failedWorkflows()).toBe(0);
    proxy.setRule();
    await millwright.untilMachines(1, 'Running');
  }, 120_000);

  it('[invariant 6] of all workers for longer than the creation timeout replaces no machine that joins meanwhile', async () => {
    await start(['--machine-creation-timeout', '8s']);
    millwright.recordAs('workers-away');
    const { cloud, processes } = millwright;
    await cloud.setFaults({ kind: 'latency', operation: 'list', ms: 1 });
    const { createdAt } = await until('a machine is Pending', async () => {
      if ((await millwright.machines()).length === 0)
        await millwright.createDeployment('pool', 1).catch(() => undefined);
      const [machine] = await millwright.machines();
      return machine && phaseOf(machine) === 'Pending' ? { createdAt: machine.metadata.creationTimestamp } : undefined;
    });
    await processes[0]?.kill('SIGKILL');
    await until('the creation timeout is over', async () =>
      Date.now() > Date.parse(createdAt) + 10_000 ? true : undefined,
    );
    const [before] = await millwright.machines();
    await millwright.start();

    const [machine] = await millwright.untilMachines(1, 'Running');

    expect(machine?.metadata.uid).toBe(before?.metadata.uid);
    expect(await cloud.stats()).toMatchObject({ vmsEver: 1 });
  }, 120_000);
});
