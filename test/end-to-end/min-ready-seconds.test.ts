/** `minReadySeconds`: without effect as with MCM, unless the annotation asks for it. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { machineDeployments, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import { names } from '../../api/names.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Reflector, startReflector } from '../../kube/reflector.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { recordingLogger } from '../support/kube.ts';
import { until } from '../support/until.ts';

const replicas = 2;
const minReadySeconds = 4;

describe('minReadySeconds', () => {
  let millwright: Installation;
  let watch: Reflector<Machine>;
  /** By pool, for each machine whose deletion was seen: since how long each of the others had been ready, s. */
  const readyAtDeletion = new Map<string, number[][]>();

  beforeAll(async () => {
    millwright = await startInstallation();
    await millwright.createClass('medium');
  });
  afterAll(async () => {
    await watch?.stop();
    await millwright?.stop();
  });

  const keyOf = (name: string) => ({ namespace: millwright.namespace, name });
  const poolOf = ({ metadata }: Machine) => metadata.name.split('-')[0] ?? '';

  async function create(name: string, seconds: number, annotations: Readonly<Record<string, string>>) {
    await millwright.createDeployment(name, replicas, { minReadySeconds: seconds, progressDeadlineSeconds: 700 });
    await edit(name, { metadata: { annotations } });
  }

  async function edit(name: string, change: object) {
    const { control } = millwright;
    return control.patch(machineDeployments, keyOf(name), mergePatch(change));
  }

  const untilStatus = (name: string, what: string, isReached: (status: Status) => boolean) =>
    until(
      `${name}: ${what}`,
      async (see) => isReached(see(await millwright.control.get(machineDeployments, keyOf(name))).status ?? {}),
      { describe: () => millwright.story() },
    );
  const untilCounted = (name: string) =>
    untilStatus(name, 'all are available', ({ readyReplicas, availableReplicas }) =>
      [readyReplicas, availableReplicas].every((count) => count === replicas),
    );
  type Status = NonNullable<Awaited<ReturnType<typeof edit>>['status']>;

  const isComplete = ({ conditions, observedGeneration = 0 }: Status, generation = 0) =>
    observedGeneration >= generation &&
    conditions?.some(({ type, reason }) => type === 'Progressing' && reason === 'NewMachineSetAvailable') === true;

  function note(machine: Machine): void {
    const { deletionTimestamp, name } = machine.metadata;
    if (deletionTimestamp === undefined) return;
    const others = watch.store.list().filter((each) => poolOf(each) === poolOf(machine) && each.metadata.name !== name);
    const active = others.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    const ages = active.map((each) => {
      const ready = each.status?.conditions?.find(({ type, status }) => type === 'Ready' && status === 'True');
      return ready === undefined
        ? 0
        : (Date.parse(deletionTimestamp) - Date.parse(ready.lastTransitionTime ?? '')) / 1_000;
    });
    readyAtDeletion.set(poolOf(machine), [...(readyAtDeletion.get(poolOf(machine)) ?? []), ages]);
  }

  async function roll(name: string): Promise<void> {
    const template = { spec: { class: { kind: 'MachineClass', name: 'medium' } } };
    const { metadata } = await edit(name, { spec: { template } });
    await untilStatus(name, 'rolled out', (status) => isComplete(status, metadata.generation));
  }

  it('counts where the annotation asks for it: no old machine goes before the new one was ready for as long', async () => {
    await create('patient', minReadySeconds, { [names.enforceMinReadySeconds]: 'true' });
    await untilStatus('patient', 'complete', isComplete);
    const seen = new Set<string>();
    watch = startReflector({
      ...{ client: millwright.control, resource: machines, namespace: millwright.namespace, logger: recordingLogger() },
      onEvent(event) {
        if (!('object' in event)) return;
        const { name, deletionTimestamp } = event.object.metadata;
        if (deletionTimestamp === undefined || seen.has(name)) return;
        seen.add(name);
        note(event.object);
      },
    });
    await until('the watch has begun', () => Promise.resolve(watch.store.reachable));

    await roll('patient');

    const ages = readyAtDeletion.get('patient') ?? [];
    expect(ages).toHaveLength(replicas);
    for (const others of ages) {
      expect(others.filter((age) => age >= minReadySeconds).length).toBeGreaterThanOrEqual(replicas);
    }
    await untilCounted('patient');
  });

  it('has no effect otherwise: a rollout is complete long before its machines were ready for as long', async () => {
    await create('prompt', 600, {});
    await untilStatus('prompt', 'complete', isComplete);

    await roll('prompt');

    const [last] = (readyAtDeletion.get('prompt') ?? []).slice(-1);
    expect(last?.some((age) => age < 600)).toBe(true);
    await untilCounted('prompt');
  });

  it('is refused where no rollout could be in time, with the field and the fix', async () => {
    await edit('prompt', {
      metadata: { annotations: { [names.enforceMinReadySeconds]: 'true' } },
      spec: { minReadySeconds: 700 },
    });

    await untilStatus('prompt', 'refused', ({ conditions = [] }) =>
      conditions.some(
        ({ message }) =>
          message ===
          'spec.minReadySeconds is 700, and every rollout would be late: set it to less than spec.progressDeadlineSeconds, which is 700',
      ),
    );
  });
});
