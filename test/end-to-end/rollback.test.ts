/** Deployments that go back to an earlier template: asked for in their spec, or because a rollout is late. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { annotations as keys } from '../../api/gardener/names.ts';
import { machineSets } from '../../api/gardener/resources.ts';
import type { MachineDeployment } from '../../api/gardener/schema/machine-deployment.ts';
import { names } from '../../api/names.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
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
  });
  afterAll(() => millwright?.stop());

  const toClass = (name: string, note?: string) => ({
    ...(note !== undefined && { metadata: { annotations: { note } } }),
    spec: { template: { spec: { class: { name } } } },
  });
  const classOf = ({ spec }: MachineDeployment) => spec?.template?.spec?.class?.name;

  it('[mcm 79] goes back to the last revision or to a given one, with template and annotations, and says so', async () => {
    await millwright.createDeployment('asked', 2);
    await millwright.changeDeployment('asked', { metadata: { annotations: { note: 'first' } } });
    await millwright.untilComplete('asked', 'small');
    await millwright.changeDeployment('asked', toClass('medium', 'second'));
    await millwright.untilComplete('asked', 'medium');
    await millwright.changeDeployment('asked', {
      ...toClass('large'),
      metadata: { annotations: { note: 'third', added: 'later' } },
    });
    await millwright.untilComplete('asked', 'large');

    await millwright.changeDeployment('asked', { spec: { rollbackTo: { revision: 0 } } });
    const last = await millwright.untilComplete('asked', 'medium');
    expect(last.spec).not.toHaveProperty('rollbackTo');
    expect(last.metadata.annotations).toMatchObject({ note: 'second', [keys.revision]: '4' });
    expect(last.metadata.annotations).not.toHaveProperty('added');
    await millwright.untilEvent('asked', 'DeploymentRollback');
    expect((await millwright.eventsOf('asked', 'DeploymentRollback')).map(({ note }) => note)).toEqual([
      `Rolled back deployment "asked" to revision 2`,
    ]);

    await millwright.changeDeployment('asked', { spec: { rollbackTo: { revision: 1 } } });
    const first = await millwright.untilComplete('asked', 'small');
    expect(first.spec).not.toHaveProperty('rollbackTo');
    expect(first.metadata.annotations).toMatchObject({ note: 'first', [keys.revision]: '5' });

    for (const [revision, reason] of [
      [99, 'DeploymentRollbackRevisionNotFound'],
      [5, 'DeploymentRollbackTemplateUnchanged'],
    ] as const) {
      await millwright.changeDeployment('asked', { spec: { rollbackTo: { revision } } });
      await until(
        'the field is cleared',
        async (see) => see(await millwright.deployment('asked')).spec?.rollbackTo === undefined,
      );
      await millwright.untilEvent('asked', reason);
      expect(await millwright.eventsOf('asked', reason)).toHaveLength(1);
    }
    await millwright.untilComplete('asked', 'small');
  });

  it('waits with a rollback while it is paused', async () => {
    await millwright.createDeployment('paused', 1);
    await millwright.untilComplete('paused', 'small');
    await millwright.changeDeployment('paused', toClass('medium'));
    await millwright.untilComplete('paused', 'medium');
    await millwright.changeDeployment('paused', { spec: { paused: true, rollbackTo: { revision: 1 }, replicas: 2 } });
    await millwright.untilRunning('paused', 2);
    expect((await millwright.deployment('paused')).spec?.rollbackTo).toEqual({ revision: 1 });
    await millwright.changeDeployment('paused', { spec: { paused: false } });
    await millwright.untilComplete('paused', 'small');
  });

  it('whose rollout is late goes back to the last complete revision where that is asked for, once', async () => {
    await millwright.createDeployment('late', 2, { progressDeadlineSeconds: 8 });
    await millwright.changeDeployment('late', { metadata: { annotations: { [names.rollbackWhenLate]: 'true' } } });
    await millwright.untilComplete('late', 'small');
    await until('the rollout is recorded as complete', async (see) => {
      const { items } = see(await millwright.control.list(machineSets, { namespace: millwright.namespace }));
      const set = items.find(({ metadata }) => metadata.name.startsWith('late-'));
      return set?.metadata.annotations?.[names.completed];
    });
    await millwright.cloud.setFaults({ kind: 'capacity', machineType: 'large' });
    await millwright.changeDeployment('late', toClass('sold-out'));
    const status = millwright.command('rollout', 'status', 'late');
    const { note } = await millwright.untilEvent('late', 'DeploymentRollback');
    const back = await millwright.untilComplete('late', 'small');
    expect(note).toBe('Rolled back deployment "late" to revision 1, the last that was complete: the rollout is late');
    expect(back.metadata.annotations?.[names.rolledBack]).toBeDefined();
    const { code, output } = await status;
    expect([code, output]).toEqual([
      1,
      expect.stringContaining('revision 2 was late and is rolled back; complete, 2 of 2 machines updated'),
    ]);

    await millwright.changeDeployment('late', toClass('sold-out'));
    await until(
      'it is late again',
      async () => {
        const { status } = await millwright.deployment('late');
        const progressing = status?.conditions?.find(({ type }) => type === 'Progressing');
        return progressing?.reason === 'ProgressDeadlineExceeded';
      },
      { describe: () => millwright.story() },
    );
    expect(classOf(await millwright.deployment('late'))).toBe('sold-out');
    expect(await millwright.eventsOf('late', 'DeploymentRollback')).toHaveLength(1);
  });
});
