import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { machineDeployments, machineSets } from '../../api/gardener/resources.ts';
import { workflowId } from '../../api/workflow-id.ts';
import { events } from '../../kube/core.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { refOf } from '../support/refs.ts';
import { until } from '../support/until.ts';

describe('owners of machines', () => {
  let millwright: Installation;

  beforeAll(async () => {
    millwright = await startInstallation({ flags: ['--machine-creation-timeout', '20s'] });
    millwright.recordAs('creation-timeout');
  });
  afterEach(async () => {
    await millwright.cloud.setFaults();
  });
  afterAll(async () => {
    await millwright?.stop();
  });

  const setOf = async (name: string) => (await millwright.setsOf(name))[0];
  const untilTrue = (what: string, check: () => Promise<boolean>) =>
    until(what, check, { describe: () => millwright.story() });

  it('[mcm 67] count machines that are being deleted as replicas and not as ready, and name those that failed, with the reason', async () => {
    await millwright.createDeployment('leaving', 2);
    await untilTrue('2 run', async () => (await setOf('leaving'))?.status?.readyReplicas === 2);
    await millwright.cloud.setFaults({ kind: 'outage', how: 'unavailable', operation: 'delete' });
    await millwright.scale('leaving', 1);

    await untilTrue('one is ready', async () => (await setOf('leaving'))?.status?.readyReplicas === 1);

    expect((await setOf('leaving'))?.status).toMatchObject({ replicas: 2, availableReplicas: 1 });
    await millwright.cloud.setFaults();
    await untilTrue('one is left', async () => (await setOf('leaving'))?.status?.replicas === 1);
    const deployment = await until('the deployment says so', async (see) => {
      const { status } = see(await millwright.deployment('leaving'));
      const isComplete = status?.conditions?.some(({ reason }) => reason === 'NewMachineSetAvailable');
      return status?.replicas === 1 && status.availableReplicas === 1 && isComplete ? status : undefined;
    });
    expect(deployment).toMatchObject({ updatedReplicas: 1, readyReplicas: 1 });
    const reasons = deployment.conditions?.map(({ type, status, reason }) => [type, status, reason]).toSorted();
    expect(reasons).toEqual([
      ['Available', 'True', 'MinimumReplicasAvailable'],
      ['Progressing', 'True', 'NewMachineSetAvailable'],
    ]);

    await millwright.cloud.setFaults({ kind: 'capacity' });
    const template = {
      metadata: { labels: { name: 'refused' } },
      spec: { class: { kind: 'MachineClass', name: 'small' }, creationTimeout: '20m' }, // it stays refused
    };
    await millwright.createDeployment('refused', 1, { template });

    const failed = await until(
      'the set names it',
      async (see) => see(await setOf('refused'))?.status?.failedMachines?.[0],
    );

    const [machine] = await millwright.machinesOf('refused');
    const filter = `MillwrightDeployment = 'refused' AND MillwrightInstallation = '${millwright.namespace}' AND WorkflowType = 'machine'`;
    await untilTrue('its workflow is found by the deployment', async () => {
      return (await millwright.temporal.workflow.count(filter)).count === 1;
    });
    expect(failed.name).toBe(machine?.metadata.name);
    expect(failed.ownerRef).toBe((await setOf('refused'))?.metadata.name);
    expect(failed.lastOperation).toMatchObject({ type: 'Create', state: 'Failed', errorCode: 'ResourceExhausted' });
    const { namespace } = millwright;
    await millwright.control.delete(machineDeployments, { namespace, name: 'refused' });
    await untilTrue('all are gone', async () => (await millwright.machinesOf('refused')).length === 0);
  });

  it('[mcm 23] [mcm 63] replace a machine that has not joined in time and has failed, and keep the number', async () => {
    await millwright.cloud.setFaults({ kind: 'neverJoin', times: 1 });
    await millwright.createDeployment('late', 2);
    const both = await until('2 machines exist', async (see) => {
      const found = see(await millwright.machinesOf('late'));
      return found.length === 2 ? found : undefined;
    });
    const first = both.map(({ metadata }) => metadata.name);

    await untilTrue('2 run', async () => {
      const found = await millwright.machinesOf('late');
      return found.length === 2 && found.every((machine) => phaseOf(machine) === 'Running');
    });

    const second = (await millwright.machinesOf('late')).map(({ metadata }) => metadata.name);
    expect(second.filter((name) => first.includes(name))).toHaveLength(1);
    const vms = (await millwright.cloud.vms()).map(({ name }) => name).filter((name) => name.startsWith('late'));
    expect(vms.toSorted()).toEqual(second.toSorted());

    const [replaced] = both.filter(({ metadata }) => !second.includes(metadata.name));
    if (replaced === undefined) throw new Error('no machine was replaced');
    const { namespace, temporal, control } = millwright;
    const failure = await until('it has failed', async (see) => {
      const { items } = see(await control.list(events, { namespace }));
      return items.find(
        ({ regarding, reason }) => regarding.uid === replaced.metadata.uid && reason === 'CreationTimeout',
      );
    });
    // From the start of its workflow. Its creation time is earlier, by less than a second or by much.
    const query = `WorkflowId = '${workflowId(namespace, 'Machine', refOf(replaced))}'`;
    const startsMs: number[] = [];
    for await (const { startTime } of temporal.workflow.list({ query })) startsMs.push(startTime.getTime());
    expect(Date.parse(failure.eventTime ?? '')).toBeGreaterThanOrEqual(Math.min(...startsMs) + 20_000);
  });

  it('name machines so that their Nodes can have the names as labels, however long their own names are, and know them without the label name', async () => {
    const name = 'x'.repeat(100);
    const labels = { pool: 'long' };
    await millwright.createDeployment(name, 1, {
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { class: { kind: 'MachineClass', name: 'small' } } },
    });

    const machine = await until('it runs', async (see) => {
      const found = see(await millwright.machines()).find(({ metadata }) => metadata.name.startsWith('xxx'));
      return found !== undefined && phaseOf(found) === 'Running' ? found : undefined;
    });

    expect(machine.metadata.name).toMatch(/^x{58}[a-z0-9]{5}$/);
    expect((await millwright.command('get', 'machines', machine.metadata.name)).output).toContain(name);
    const query = `MillwrightDeployment = '${name}' AND MillwrightInstallation = '${millwright.namespace}' AND WorkflowType = 'machine'`;
    await untilTrue('its workflow is found by the deployment', async () => {
      return (await millwright.temporal.workflow.count(query)).count === 1;
    });
  });

  describe('whose template no API server accepts', () => {
    const small = { class: { kind: 'MachineClass', name: 'small' } };
    const ofNode = (name: string, team: string) => ({
      metadata: { labels: { name } },
      spec: { ...small, nodeTemplate: { metadata: { labels: { team } } } },
    });
    const wrong = 'spec.template.spec.nodeTemplate.metadata.labels has team="two words"';

    it('say so, everywhere people look, until it is corrected', async () => {
      const template = { metadata: { labels: { name: 'canary', version: '2.0 rc' } }, spec: small };
      await millwright.createDeployment('canary', 1, { template });
      await millwright.createDeployment('accel', 1, { template: ofNode('accel', 'two words') });

      const label = 'spec.template.metadata.labels has version="2.0 rc"';
      await millwright.untilEvent('canary', 'InvalidSpec', label);
      await millwright.untilEvent('accel', 'InvalidSpec', wrong);
      const stuck = await until('both are stuck', async () => {
        const { output } = await millwright.command('stuck');
        return /^OwnerSpec: 2 rollouts\./m.test(output) && !output.includes('it does not answer') ? output : undefined;
      });
      // It shows the one that waits longest.
      expect(stuck).toMatch(
        / {2}(canary|accel): for .* \(since \S+\), waits for a correction of its spec: spec\.template.*="(2\.0 rc|two words)"/,
      );
      expect((await millwright.command('get', 'deployments')).output).toContain(label);
      const status = await millwright.command('rollout', 'status', 'canary');
      expect(status).toMatchObject({ code: 1, output: expect.stringContaining(`is invalid: ${label}`) });
      expect([...(await millwright.machinesOf('canary')), ...(await millwright.machinesOf('accel'))]).toEqual([]);

      await millwright.changeDeployment('canary', { spec: { template: { metadata: { labels: { version: null } } } } });
      await millwright.changeDeployment('accel', { spec: { template: ofNode('accel', 'two-words') } });
      for (const name of ['canary', 'accel']) {
        await untilTrue(`${name} runs`, async () => (await setOf(name))?.status?.readyReplicas === 1);
      }
      const { namespace, temporal } = millwright;
      const query = `MillwrightInstallation = '${namespace}' AND MillwrightBlockedOn = 'OwnerSpec' AND ExecutionStatus = 'Running'`;
      await untilTrue('nothing is stuck', async () => (await temporal.workflow.count(query)).count === 0);
    });

    it('go on to scale where their machines have what is accepted of it already', async () => {
      const { namespace, control } = millwright;
      const template = ofNode('old', 'two words');
      const selector = { matchLabels: { name: 'old' } };
      const metadata = { namespace, name: 'old-set', labels: { name: 'old' } };
      await control.create(machineSets, { metadata, spec: { replicas: 1, selector, template } });
      await untilTrue('its machine runs', async () => (await setOf('old'))?.status?.readyReplicas === 1);

      await millwright.createDeployment('old', 2, { template });
      await untilTrue(
        'it has adopted the set, and scaled it',
        async () => (await setOf('old'))?.status?.readyReplicas === 2,
      );

      await millwright.changeDeployment('old', { spec: { template: ofNode('old', 'three more words') } });
      await millwright.untilEvent('old', 'InvalidSpec', 'team="three more words"');
    });
  });
});
