/** Limits on the machines of a namespace: seen at the API server at each single change, whatever is killed or removed. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { gardener } from '../../api/gardener/index.ts';
import { labels } from '../../api/gardener/names.ts';
import { machineDeployments, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { MachineDeployment } from '../../api/gardener/schema/machine-deployment.ts';
import { names } from '../../api/names.ts';
import { isStarting } from '../../api/owner/machines.ts';
import { limitsWorkflowId } from '../../api/workflow-id.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Reflector, startReflector } from '../../kube/reflector.ts';
import type { LimitsDescription } from '../../workflows/limits/messages.ts';
import { recordingLogger } from '../support/kube.ts';
import { isActive } from '../support/machine-facts.ts';
import { until } from '../support/until.ts';
import { startWatchedInstallation, type WatchedInstallation } from '../support/watched-installation.ts';

const timeoutMs = 240_000;
const limits = { surge: 5, provisioning: 4 } as const;
const annotations = (surge: number | string, provisioning: number | string) => ({
  [names.maxSurge]: String(surge),
  [names.maxProvisioning]: String(provisioning),
});

describe('20 MachineDeployments whose namespace limits their machines', () => {
  let millwright: WatchedInstallation;
  let watch: Reflector<Machine>;
  /** One that is ten times as large as the others. */
  const pools = new Map(Array.from({ length: 20 }, (_, i) => [`pool-${i}`, i === 0 ? 20 : 2]));
  const most = { surge: 0, provisioning: 0 };
  let changes = 0;

  beforeAll(async () => {
    millwright = await startWatchedInstallation({ cloud: { joinMs: 300 } });
    millwright.recordAs('limits');
    for (const name of ['medium', 'large', 'huge']) await millwright.createClass(name);
    watch = startReflector({
      client: millwright.control,
      resource: machines,
      namespace: millwright.namespace,
      onEvent: sample,
      logger: recordingLogger(),
    });
    await watch.waitForSync();
  }, 200_000);
  afterAll(async () => {
    await watch?.stop();
    await millwright?.stop();
  });

  /** What the API server has after a single change. */
  function sample(): void {
    if (watch === undefined) return;
    const present = watch.store.list();
    const surge = [...pools].map(([name, replicas]) => Math.max(0, of(name, present).length - replicas));
    const provisioning = present.filter((machine) => isActive(machine) && isStarting(gardener, machine)).length;
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
        for (const { metadata } of done) complete.add(metadata.name);
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

  const untilUpdated = (count: number, machineClass: string) =>
    until(
      `${count} machines are of ${machineClass}`,
      () => watch.store.list().filter(({ spec }) => spec?.class?.name === machineClass).length >= count,
      { timeoutMs, describe: describeAll },
    );

  it(
    'are created within the limit of machines that do not run yet',
    async () => {
      for (const [name, replicas] of pools) await create(name, replicas);

      await untilAllAreComplete('small');
      expect(most).toEqual({ surge: 0, provisioning: limits.provisioning });
    },
    timeoutMs,
  );

  it(
    'roll out together within both limits at every change, and the largest one does not keep the others waiting',
    async () => {
      const before = changes;
      await useClass('medium');
      const order = await untilAllAreComplete('medium');

      expect(most).toEqual(limits);
      expect(changes - before).toBeGreaterThan(4 * 58);
      expect(order.at(-1)).toBe('pool-0');
    },
    timeoutMs,
  );

  it(
    'do so while workers are killed, and the workflow that grants is terminated',
    async () => {
      await useClass('large');
      await untilUpdated(6, 'large');
      await handle().terminate('a test');
      await untilUpdated(14, 'large');
      await Promise.all(millwright.processes.splice(0).map((each) => each.kill('SIGKILL')));
      await millwright.startWorkers();
      await untilUpdated(24, 'large');
      const killed = Promise.all(millwright.processes.splice(0).map((each) => each.kill('SIGKILL')));
      await handle().terminate('a test');
      await killed;
      await millwright.startWorkers();
      await untilUpdated(34, 'large');
      await handle().terminate('a test');
      await untilAllAreComplete('large');

      expect(most).toEqual(limits);
    },
    timeoutMs,
  );

  it(
    'wait for nobody any more when their annotations are removed in the middle',
    async () => {
      await useClass('huge');
      await until('somebody waits', async () => {
        const said: LimitsDescription = await handle().query('describe');
        return said.waiting.length > 5;
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
        async () => (await handle().describe()).status.name === 'COMPLETED',
      );
    },
    timeoutMs,
  );
});
