/** Deployments that go back to an earlier template: asked for in their spec, or because a rollout is late. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { annotations as keys, labels } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets } from '../../api/gardener/resources.ts';
import type { MachineDeployment } from '../../api/gardener/schema/machine-deployment.ts';
import { names } from '../../api/names.ts';
import { events } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';

describe('a deployment', () => {
  let millwright: Installation;
  beforeAll(async () => {
    millwright = await startInstallation();
    millwright.recordAs('rollback');
    for (const name of ['medium', 'large']) await millwright.createClass(name);
    await millwright.createClass('sold-out', {
      providerSpec: {
        ...{ endpoint: millwright.cloud.url, machineType: 'large', region: 'here' },
        tags: { cluster: millwright.namespace },
      },
    });
  }, 120_000);
  afterAll(() => millwright?.stop());

  const keyOf = (name: string) => ({ namespace: millwright.namespace, name });
  const read = (name: string) => millwright.control.get(machineDeployments, keyOf(name));
  const change = (name: string, patch: object) =>
    millwright.control.patch<MachineDeployment>(machineDeployments, keyOf(name), mergePatch(patch));
  const toClass = (name: string, note?: string) => ({
    ...(note !== undefined && { metadata: { annotations: { note } } }),
    spec: { template: { spec: { class: { name } } } },
  });
  const classOf = ({ spec }: MachineDeployment) => spec?.template?.spec?.class?.name;

  async function untilComplete(name: string, className: string, count: number): Promise<MachineDeployment> {
    return until(
      `${name} has ${count} machines of ${className}`,
      async () => {
        const now = await read(name);
        const all = (await millwright.machines()).filter(({ metadata }) => metadata.labels?.[labels.name] === name);
        const isDone = all.length === count && all.every((each) => phaseOf(each) === 'Running');
        const isSeen = now.status?.observedGeneration === now.metadata.generation;
        const reason = now.status?.conditions?.find(({ type }) => type === 'Progressing')?.reason;
        const isComplete = isDone && isSeen && reason === 'NewMachineSetAvailable' && classOf(now) === className;
        return isComplete && all.every(({ spec }) => spec?.class?.name === className) && now;
      },
      { timeoutMs: 120_000, describe: () => millwright.story() },
    );
  }

  async function eventsOf(name: string, reason: string): Promise<string[]> {
    const { items } = await millwright.control.list(events, { namespace: millwright.namespace });
    return items.filter((each) => each.regarding.name === name && each.reason === reason).map(({ note }) => note);
  }

  it('[mcm 79] goes back to the last revision or to a given one, with template and annotations, and says so', async () => {
    await millwright.createDeployment('asked', 2);
    await change('asked', { metadata: { annotations: { note: 'first' } } });
    await untilComplete('asked', 'small', 2);
    await change('asked', toClass('medium', 'second'));
    await untilComplete('asked', 'medium', 2);
    await change('asked', { ...toClass('large'), metadata: { annotations: { note: 'third', added: 'later' } } });
    await untilComplete('asked', 'large', 2);

    await change('asked', { spec: { rollbackTo: { revision: 0 } } });
    const last = await untilComplete('asked', 'medium', 2);
    expect(last.spec).not.toHaveProperty('rollbackTo');
    expect(last.metadata.annotations).toMatchObject({ note: 'second', [keys.revision]: '4' });
    expect(last.metadata.annotations).not.toHaveProperty('added');
    expect(await eventsOf('asked', 'DeploymentRollback')).toEqual([`Rolled back deployment "asked" to revision 2`]);

    await change('asked', { spec: { rollbackTo: { revision: 1 } } });
    const first = await untilComplete('asked', 'small', 2);
    expect(first.spec).not.toHaveProperty('rollbackTo');
    expect(first.metadata.annotations).toMatchObject({ note: 'first', [keys.revision]: '5' });

    for (const [revision, reason] of [
      [99, 'DeploymentRollbackRevisionNotFound'],
      [5, 'DeploymentRollbackTemplateUnchanged'],
    ] as const) {
      await change('asked', { spec: { rollbackTo: { revision } } });
      await until('the field is cleared', async (see) => see(await read('asked')).spec?.rollbackTo === undefined);
      await until('it is said', async (see) => see(await eventsOf('asked', reason)).length === 1);
    }
    await untilComplete('asked', 'small', 2);
  }, 240_000);

  it('waits with a rollback while it is paused', async () => {
    await millwright.createDeployment('paused', 1);
    await untilComplete('paused', 'small', 1);
    await change('paused', toClass('medium'));
    await untilComplete('paused', 'medium', 1);
    await change('paused', { spec: { paused: true, rollbackTo: { revision: 1 }, replicas: 2 } });
    await until('it has scaled', async () => {
      const all = (await millwright.machines()).filter(({ metadata }) => metadata.labels?.[labels.name] === 'paused');
      return all.length === 2 && all.every((each) => phaseOf(each) === 'Running');
    });
    expect((await read('paused')).spec?.rollbackTo).toEqual({ revision: 1 });
    await change('paused', { spec: { paused: false } });
    await untilComplete('paused', 'small', 2);
  }, 180_000);

  it('whose rollout is late goes back to the last complete revision where that is asked for, once', async () => {
    await millwright.createDeployment('late', 2, { progressDeadlineSeconds: 8 });
    await change('late', { metadata: { annotations: { [names.rollbackWhenLate]: 'true' } } });
    await untilComplete('late', 'small', 2);
    await until('the rollout is recorded as complete', async (see) => {
      const { items } = see(await millwright.control.list(machineSets, { namespace: millwright.namespace }));
      const set = items.find(({ metadata }) => metadata.name.startsWith('late-'));
      return set?.metadata.annotations?.[names.completed];
    });
    await millwright.cloud.setFaults({ kind: 'capacity', machineType: 'large' });
    await change('late', toClass('sold-out'));
    await until(
      'the deployment says that it was rolled back',
      async () => {
        return (await eventsOf('late', 'DeploymentRollback')).length > 0;
      },
      { timeoutMs: 60_000, describe: () => millwright.story() },
    );
    const back = await untilComplete('late', 'small', 2);
    const [note] = await eventsOf('late', 'DeploymentRollback');
    expect(note).toBe('Rolled back deployment "late" to revision 1, the last that was complete: the rollout is late');
    expect(back.metadata.annotations?.[names.rolledBack]).toBeDefined();

    await change('late', toClass('sold-out'));
    await until(
      'it is late again',
      async () => {
        const { status } = await read('late');
        const progressing = status?.conditions?.find(({ type }) => type === 'Progressing');
        return progressing?.reason === 'ProgressDeadlineExceeded';
      },
      { timeoutMs: 60_000, describe: () => millwright.story() },
    );
    expect(classOf(await read('late'))).toBe('sold-out');
    expect(await eventsOf('late', 'DeploymentRollback')).toHaveLength(1);
  }, 240_000);
});
