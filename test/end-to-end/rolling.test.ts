import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Machine } from '../../api/gardener/machine.ts';
import type { MachineDeployment } from '../../api/gardener/machine-deployment.ts';
import { annotations } from '../../api/gardener/names.ts';
import { isActive, isAvailable } from '../../api/gardener/owner.ts';
import { machineDeployments, machineSets, machines } from '../../kube/gardener.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Reflector, startReflector } from '../../kube/reflector.ts';
import { recordingLogger } from '../kube/setup.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { type Supervised, supervise } from '../support/supervised.ts';
import { until } from '../support/until.ts';

const replicas = 10;
const maxSurge = 2;

describe('a MachineDeployment whose template changes', () => {
  let millwright: Installation;
  /** On a machine that is too busy to keep the Leases it ends, and is started again as a Deployment would. */
  let process: Supervised;
  let watch: Reflector<Machine>;
  /** What the API server said after every single change, from the moment on that all machines ran. */
  const samples: { readonly total: number; readonly available: number }[] = [];
  let isSampling = false;

  beforeAll(async () => {
    millwright = await startInstallation({ isStopped: true });
    millwright.recordAs('rolling');
    process = await supervise(() => millwright.start());
    for (const name of ['medium', 'large', 'huge']) await millwright.createClass(name);
    watch = startReflector({
      client: millwright.control,
      resource: machines,
      namespace: millwright.namespace,
      onEvent: sample,
      logger: recordingLogger(),
    });
    await millwright.createDeployment('pool', replicas, {
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge, maxUnavailable: 0 } },
    });
    await millwright.untilMachines(replicas, 'Running', 240_000);
    await untilComplete();
    isSampling = true;
  }, 400_000);
  afterAll(async () => {
    await watch?.stop();
    await process?.stop();
    await millwright?.stop();
  });

  function sample(): void {
    if (!isSampling) return;
    const present = watch.store.list();
    const available = present.filter((machine) => isActive(machine) && isAvailable(machine)).length;
    samples.push({ total: present.length, available });
  }

  const deployment = () =>
    millwright.control.get(machineDeployments, { namespace: millwright.namespace, name: 'pool' });

  async function useClass(name: string): Promise<void> {
    const template = { spec: { class: { name } } };
    const key = { namespace: millwright.namespace, name: 'pool' };
    await millwright.control.patch(machineDeployments, key, mergePatch({ spec: { template } }));
  }

  const classesOf = (found: readonly Machine[]) => new Set(found.map(({ spec }) => spec?.class?.name));

  async function untilComplete(): Promise<MachineDeployment> {
    return until(
      'the rollout is complete',
      async () => {
        const now = await deployment();
        const { status, metadata } = now;
        const reason = status?.conditions?.find(({ type }) => type === 'Progressing')?.reason;
        const counts = [status?.replicas, status?.updatedReplicas, status?.readyReplicas, status?.availableReplicas];
        const isCounted = counts.every((count) => count === replicas);
        const isObserved = status?.observedGeneration === metadata.generation;
        return isCounted && isObserved && reason === 'NewMachineSetAvailable' ? now : undefined;
      },
      { timeoutMs: 300_000, describe: () => millwright.story() },
    );
  }

  async function untilNoneIsOpen(): Promise<void> {
    const query = `MillwrightInstallation = '${millwright.namespace}' AND WorkflowType = 'rollout' AND ExecutionStatus = 'Running'`;
    await until(
      'the rollout is closed',
      async () => {
        const { count } = await millwright.temporal.workflow.count(query);
        return count === 0 ? true : undefined;
      },
      { timeoutMs: 180_000 },
    );
  }

  it('[mcm 71] [mcm 72] [mcm 83] [mcm 84] [invariant 5] rolls over within its bounds, and closes', async () => {
    await useClass('medium');
    const { metadata, status } = await untilComplete();

    const found = await millwright.machines();
    expect([found.length, classesOf(found)]).toEqual([replicas, new Set(['medium'])]);
    expect(found.map(phaseOf)).toEqual(found.map(() => 'Running'));
    expect(metadata.annotations?.[annotations.revision]).toBe('2');
    expect(status?.unavailableReplicas ?? 0).toBe(0);
    expect(status?.conditions?.toSorted((a, b) => (a.type < b.type ? -1 : 1))).toMatchObject([
      { type: 'Available', status: 'True', reason: 'MinimumReplicasAvailable' },
      { type: 'Progressing', status: 'True', message: expect.stringMatching(/^MachineSet "pool-.*" has successfully/) },
    ]);
    expect(status?.conditions).toHaveLength(2);
    await untilNoneIsOpen();
  }, 400_000);

  it('[mcm 72] [invariant 5] turns to another template in the middle of a rollout', async () => {
    await useClass('large');
    await until(
      'some machines are of the second template',
      async () => {
        const updated = (await millwright.machines()).filter(({ spec }) => spec?.class?.name === 'large');
        return updated.filter(isAvailable).length >= 3 ? true : undefined;
      },
      { timeoutMs: 300_000 },
    );

    await useClass('huge');
    const { metadata } = await untilComplete();

    const found = await millwright.machines();
    expect([found.length, classesOf(found)]).toEqual([replicas, new Set(['huge'])]);
    expect(metadata.annotations?.[annotations.revision]).toBe('4');
    const { items } = await millwright.control.list(machineSets, { namespace: millwright.namespace });
    expect(items.map(({ spec }) => spec?.replicas ?? 0).toSorted((a, b) => a - b)).toEqual([0, 0, 0, replicas]);
    expect(await millwright.cloud.stats()).toMatchObject({ vmsNow: replicas });
    await untilNoneIsOpen();
  }, 400_000);

  it('[mcm 72] [invariant 5] had at no moment more machines or fewer available ones than its bounds allow', () => {
    expect(samples.length).toBeGreaterThan(100);
    expect(samples.filter(({ total }) => total > replicas + maxSurge)).toEqual([]);
    expect(samples.filter(({ available }) => available < replicas)).toEqual([]);
    expect(samples.some(({ total }) => total === replicas + maxSurge)).toBe(true);
  });
});
