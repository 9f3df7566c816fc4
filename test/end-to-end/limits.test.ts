/**
 * Limits on the machines of a namespace: seen at the API server at each single change, whatever is killed or removed.
 */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { gardener } from '../../api/gardener/index.ts';
import { labels } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { MachineDeployment } from '../../api/gardener/schema/machine-deployment.ts';
import { names } from '../../api/names.ts';
import { isProvisioning } from '../../api/owner/limit-reading.ts';
import { limitsWorkflowId } from '../../api/workflow-id.ts';
import { events as kubeEvents } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Reflector, startReflector } from '../../kube/reflector.ts';
import type { LimitsDescription } from '../../workflows/limits/messages.ts';
import { retryNowSignal } from '../../workflows/messages.ts';
import type { OwnerDescription } from '../../workflows/rollout/messages.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { recordingLogger } from '../support/kube.ts';
import { isLong } from '../support/long.ts';
import { until } from '../support/until.ts';
import { startWatchedInstallation, type WatchedInstallation } from '../support/watched-installation.ts';

const timeoutMs = 240_000;
/**
 * How many deployments share the limits, how many machines the largest has, where all others have one, and the limits.
 */
const { poolCount, largest, limits } = isLong()
  ? { poolCount: 20, largest: 10, limits: { surge: 5, provisioning: 4 } }
  : { poolCount: 7, largest: 7, limits: { surge: 3, provisioning: 2 } };
const annotations = (surge: number | string, provisioning: number | string) => ({
  [names.maxSurge]: String(surge),
  [names.maxProvisioning]: String(provisioning),
});

describe(`${poolCount} MachineDeployments whose namespace limits their machines`, () => {
  let millwright: WatchedInstallation;
  let watch: Reflector<Machine>;
  const pools = new Map(Array.from({ length: poolCount }, (_, i) => [`pool-${i}`, i === 0 ? largest : 1]));
  const most = { surge: 0, provisioning: 0 };
  let changes = 0;

  beforeAll(async () => {
    millwright = await startWatchedInstallation({ cloud: { joinMs: 300 } });
    for (const name of ['medium', 'large', 'huge']) await millwright.createClass(name);
    watch = startReflector({
      client: millwright.control,
      resource: machines,
      namespace: millwright.namespace,
      onEvent: sample,
      logger: recordingLogger(),
    });
    await watch.waitForSync();
  });
  afterAll(async () => {
    await watch?.stop();
    await millwright?.stop();
  });

  /** What the API server has after a single change. */
  function sample(): void {
    if (watch === undefined) return;
    const present = watch.store.list();
    const surge = [...pools].map(([name, replicas]) => Math.max(0, of(name, present).length - replicas));
    const provisioning = present.filter((machine) => isProvisioning(gardener, machine)).length;
    most.surge = Math.max(
      most.surge,
      surge.reduce((sum, each) => sum + each, 0),
    );
    most.provisioning = Math.max(most.provisioning, provisioning);
    changes += 1;
  }
  const of = (name: string, all: readonly Machine[]) =>
    all.filter(({ metadata }) => metadata.labels?.[labels.name] === name);

  async function create(name: string, replicas: number): Promise<void> {
    await millwright.control.create(machineDeployments, {
      metadata: { namespace: millwright.namespace, name, annotations: annotations(limits.surge, limits.provisioning) },
      spec: {
        replicas,
        selector: { matchLabels: { [labels.name]: name } },
        strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: '50%', maxUnavailable: 0 } },
        template: {
          metadata: { labels: { [labels.name]: name } },
          spec: { class: { kind: 'MachineClass', name: 'small' } },
        },
      },
    });
  }

  async function useClass(machineClass: string): Promise<void> {
    const patch = mergePatch({ spec: { template: { spec: { class: { name: machineClass } } } } });
    await Promise.all(
      [...pools.keys()].map((name) =>
        millwright.control.patch(machineDeployments, { namespace: millwright.namespace, name }, patch),
      ),
    );
  }

  const isComplete = ({ metadata, spec, status }: MachineDeployment) =>
    status?.observedGeneration === metadata.generation &&
    [status?.replicas, status?.updatedReplicas, status?.availableReplicas].every((count) => count === spec?.replicas) &&
    status?.conditions?.find(({ type }) => type === 'Progressing')?.reason === 'NewMachineSetAvailable';

  /** In the order in which they were seen to be complete. */
  async function untilAllAreComplete(machineClass: string): Promise<string[]> {
    const complete = new Set<string>();
    await until(
      `all machines are of ${machineClass}`,
      async () => {
        const { items } = await millwright.control.list(machineDeployments, { namespace: millwright.namespace });
        const done = items.filter(
          (each) => isComplete(each) && each.spec?.template?.spec?.class?.name === machineClass,
        );
        // Of those that one look sees together pool-0 counts as the last.
        for (const { metadata } of done.toReversed()) if (pools.has(metadata.name)) complete.add(metadata.name);
        return complete.size === pools.size;
      },
      { timeoutMs, describe: describeAll },
    );
    return [...complete];
  }

  const handle = () =>
    millwright.temporal.workflow.getHandle(limitsWorkflowId(millwright.namespace, millwright.namespace));

  async function describeAll(): Promise<string> {
    const said = await handle()
      .query('describe')
      .catch((error: Error) => error.message);
    return `${JSON.stringify(said, null, 1)}\n${await millwright.story()}`;
  }

  async function terminateRollouts(): Promise<void> {
    const query = `MillwrightInstallation = '${millwright.namespace}' AND WorkflowType = 'rollout' AND ExecutionStatus = 'Running'`;
    for await (const { workflowId } of millwright.temporal.workflow.list({ query })) {
      const rollout = millwright.temporal.workflow.getHandle(workflowId);
      await rollout.terminate('a test').catch(() => undefined); // it may have ended
    }
  }

  const untilUpdated = (count: number, machineClass: string) =>
    until(
      `${count} machines are of ${machineClass}`,
      () => watch.store.list().filter(({ spec }) => spec?.class?.name === machineClass).length >= count,
      { timeoutMs, describe: describeAll },
    );

  it('are created within the limit of machines that do not run yet', async () => {
    for (const [name, replicas] of pools) await create(name, replicas);

    await untilAllAreComplete('small');
    expect(most.surge).toBe(0);
    expect(most.provisioning).toBeLessThanOrEqual(limits.provisioning);
  });

  it('[invariant 5] roll out together within both limits at every change, and the largest one does not keep the others waiting', async () => {
    const before = changes;
    await useClass('medium');
    const order = await untilAllAreComplete('medium');

    expect(most.surge).toBeLessThanOrEqual(limits.surge);
    expect(most.provisioning).toBeLessThanOrEqual(limits.provisioning);
    expect(changes - before).toBeGreaterThan(4 * (poolCount - 1 + largest));
    expect(order.at(-1)).toBe('pool-0');
  });

  // Minutes each.
  if (isLong()) {
    it(
      '[invariant 5] do so while workers are killed, and the workflow that grants and those of the rollouts are terminated',
      async () => {
        await useClass('large');
        await untilUpdated(4, 'large');
        await handle().terminate('a test');
        await untilUpdated(8, 'large');
        await Promise.all(millwright.processes.splice(0).map((each) => each.kill('SIGKILL')));
        await millwright.startWorkers();
        await untilUpdated(13, 'large');
        const killed = Promise.all(millwright.processes.splice(0).map((each) => each.kill('SIGKILL')));
        await handle().terminate('a test');
        await killed;
        await millwright.startWorkers();
        await untilUpdated(18, 'large');
        await terminateRollouts();
        await untilUpdated(22, 'large');
        await Promise.all([handle().terminate('a test'), terminateRollouts()]);
        await untilAllAreComplete('large');

        expect(most.surge).toBeLessThanOrEqual(limits.surge);
        expect(most.provisioning).toBeLessThanOrEqual(limits.provisioning);
      },
      3 * timeoutMs,
    );

    it(
      '[invariant 5] keep to the lowest value of all when one is lowered in the middle, and go on when one of them is deleted',
      async () => {
        const keyOf = (name: string) => ({ namespace: millwright.namespace, name });
        await useClass('small');
        await untilUpdated(4, 'small');
        const lower = mergePatch({ metadata: { annotations: annotations(2, 2) } });
        await millwright.control.patch(machineDeployments, keyOf('pool-1'), lower);
        await until('no more is used than the lower limit', async (see) => {
          const { limits: now, used }: LimitsDescription = see(await handle().query('describe'));
          return now.provisioning === 2 && now.surge === 2 && used.provisioning <= 2 && used.surge <= 2;
        });
        Object.assign(most, { surge: 0, provisioning: 0 });
        pools.delete('pool-19');
        await millwright.control.delete(machineDeployments, keyOf('pool-19'));
        await untilAllAreComplete('small');

        expect(most.surge).toBeLessThanOrEqual(2);
        expect(most.provisioning).toBeLessThanOrEqual(2);
      },
      3 * timeoutMs,
    );

    it(
      'wait for nobody any more when their annotations are removed in the middle',
      async () => {
        await useClass('huge');
        await until('somebody waits', async (see) => {
          const said: LimitsDescription = see(await handle().query('describe'));
          return said.waiting.length >= 3;
        });
        const removed = mergePatch({
          metadata: { annotations: { [names.maxSurge]: null, [names.maxProvisioning]: null } },
        });
        for (const name of pools.keys())
          await millwright.control.patch(machineDeployments, { namespace: millwright.namespace, name }, removed);
        await untilAllAreComplete('huge');

        expect(most.provisioning).toBeGreaterThan(limits.provisioning);
        await until(
          'the workflow that grants is closed',
          async (see) => see(await handle().describe()).status.name === 'COMPLETED',
        );
      },
      3 * timeoutMs,
    );
  }
});

describe('an owner that takes part in a limit of its namespace', () => {
  let millwright: Installation;

  beforeAll(async () => {
    millwright = await startInstallation();
    millwright.recordAs('limits');
    const { cloud } = millwright;
    await cloud.setFaults({ kind: 'capacity', tags: { fault: 'full' } });
    await millwright.createClass('full', {
      providerSpec: { endpoint: cloud.url, machineType: 'small', region: 'here', tags: { fault: 'full' } },
    });
  });
  afterAll(() => millwright?.stop());

  const keyOf = (name: string) => ({ namespace: millwright.namespace, name });
  const specOf = (name: string, replicas: number, machineClass: string) => ({
    replicas,
    selector: { matchLabels: { [labels.name]: name } },
    template: {
      metadata: { labels: { [labels.name]: name } },
      spec: { class: { kind: 'MachineClass', name: machineClass } },
    },
  });
  const create = (
    name: string,
    limit: string,
    spec: ReturnType<typeof specOf> & { progressDeadlineSeconds?: number },
  ) =>
    millwright.control.create(machineDeployments, {
      metadata: { ...keyOf(name), annotations: { [names.maxProvisioning]: limit } },
      spec: { strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } }, ...spec },
    });
  const setLimit = (name: string, limit: string) =>
    millwright.control.patch(
      machineDeployments,
      keyOf(name),
      mergePatch({ metadata: { annotations: { [names.maxProvisioning]: limit } } }),
    );
  const untilRunning = (name: string, count: number) =>
    until(
      `${count} machines of ${name} are Running`,
      async (see) =>
        see(await millwright.machinesOf(name)).filter((machine) => phaseOf(machine) === 'Running').length === count,
      { timeoutMs, describe: () => millwright.story() },
    );

  it('may be a MachineSet without a deployment', async () => {
    let most = 0;
    const watch = startReflector({
      client: millwright.control,
      resource: machines,
      namespace: millwright.namespace,
      onEvent: () => {
        const starting = watch?.store.list().filter((each) => isProvisioning(gardener, each)) ?? [];
        most = Math.max(most, starting.length);
      },
      logger: recordingLogger(),
    });
    await watch.waitForSync();
    await millwright.control.create(machineSets, {
      metadata: { ...keyOf('lone'), annotations: { [names.maxProvisioning]: '1' } },
      spec: specOf('lone', 3, 'small'),
    });

    await untilRunning('lone', 3);
    await watch.stop();
    expect(most).toBe(1);
    await millwright.control.delete(machineSets, keyOf('lone'));
    await until(
      'the set is gone',
      async (see) => see(await millwright.control.find(machineSets, keyOf('lone'))) === undefined,
    );
  });

  it('gets nothing with a value that is no limit, which its condition and an Event name with the fix', async () => {
    await create('bad', 'five', specOf('bad', 1, 'small'));
    const conditionOf = async () => {
      const { status } = await millwright.control.get(machineDeployments, keyOf('bad'));
      return status?.conditions?.find(({ type }) => type === 'Progressing');
    };
    const problem = `metadata.annotations['${names.maxProvisioning}'] is 'five': set it to a whole number from 1 to 99999, or remove it`;
    await until('it is reported', async (see) => see(await conditionOf())?.message === problem);
    await until('with an Event', async (see) => {
      const { items } = see(await millwright.control.list(kubeEvents, { namespace: millwright.namespace }));
      return items.some(
        ({ regarding, note, reason }) => regarding?.name === 'bad' && note === problem && reason === 'InvalidSpec',
      );
    });
    expect(await millwright.machinesOf('bad')).toEqual([]);

    await setLimit('bad', '5');
    await untilRunning('bad', 1);
    await setLimit('bad', '2');
  });

  it('waits behind machines that cannot be created, says so, is not late meanwhile, and continues when the limit is raised', async () => {
    await create('stuck', '2', specOf('stuck', 2, 'full'));
    await until('the machines exist', async (see) => see(await millwright.machinesOf('stuck')).length === 2);
    const { metadata } = await create('pool', '2', { ...specOf('pool', 1, 'small'), progressDeadlineSeconds: 30 });
    const ref = { dialect: 'gardener', ...keyOf('pool'), uid: metadata.uid };
    const deadlineOf = async () => {
      const said: OwnerDescription = await millwright.handleOf(ref, 'MachineDeployment').query('describe');
      return said.limit === undefined ? undefined : Date.parse(said.deadline ?? '');
    };
    const first = await until('it waits', deadlineOf, { describe: () => millwright.story() });
    await until('its deadline has passed', () => Date.now() > first);
    await millwright.handleOf(ref, 'MachineDeployment').signal(retryNowSignal);
    await until('its deadline has moved on', async (see) => (see(await deadlineOf()) ?? 0) > first);

    const text = "the namespace's limit of machines that do not run yet, 2 of 2 used: stuck 2";
    expect((await millwright.command('describe', 'machinedeployment', 'pool')).output).toContain(text);
    expect((await millwright.command('rollout', 'status', 'pool', '--watch', 'false')).output).toContain(text);
    const failed = `WorkflowId STARTS_WITH '${millwright.namespace}/rollout/${millwright.namespace}/pool/' AND ExecutionStatus = 'Failed'`;
    expect([(await millwright.temporal.workflow.count(failed)).count, await millwright.machinesOf('pool')]).toEqual([
      0,
      [],
    ]);

    for (const name of ['bad', 'stuck', 'pool']) await setLimit(name, '3');
    await untilRunning('pool', 1);
  });
});
