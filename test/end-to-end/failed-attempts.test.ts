import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { machineSets } from '../../api/gardener/resources.ts';
import { names } from '../../api/names.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';

describe('a deployment whose VMs fail at once', () => {
  let millwright: Installation;

  beforeAll(async () => {
    millwright = await startInstallation();
    const tags = { class: 'broken' };
    const providerSpec = { endpoint: millwright.cloud.url, machineType: 'small', region: 'here', tags };
    await millwright.createClass('broken', { providerSpec });
    const fault = { operation: 'create', tags } as const;
    await millwright.cloud.setFaults({ kind: 'vanish', afterMs: 0, ...fault }, { kind: 'neverJoin', ...fault });
  });
  afterAll(async () => {
    await millwright?.stop();
  });

  /** VMs of the class that were ever made. */
  const made = async () =>
    (await millwright.cloud.vms({ all: true })).filter(({ tags }) => tags['class'] === 'broken').length;
  const untilNone = () =>
    until('no machine is left', async (see) => see(await millwright.machinesOf('pool')).length === 0);
  const attempts = async () => {
    const [set] = await millwright.setsOf('pool');
    return JSON.parse(set?.metadata.annotations?.[names.failedAttempts] ?? '{}') as { count?: number; until?: string };
  };

  it('makes as many as it has replicas, and then none for a while, which it shows', async () => {
    const template = {
      metadata: { labels: { name: 'pool' } },
      spec: { class: { kind: 'MachineClass', name: 'broken' } },
    };
    await millwright.createDeployment('pool', 5, { template });
    const { note } = await millwright.untilEvent('pool', 'CreationPaused', 'in the last attempt');
    await untilNone();

    expect(await made()).toBe(5);
    const { count, until: end } = await attempts();
    expect(count).toBe(1);
    expect(note).toContain(`gets no machine before ${end}, as no Node has joined in the last attempt: `);
    expect(note).toContain('failed');
    const { output } = await millwright.command('describe', 'deployment', 'pool');
    expect(output).toContain(`gets no machine before ${end}`);
  });

  it('makes them at once when somebody scales it up, and then none for a while', async () => {
    await millwright.scale('pool', 6);
    await until('they are made', async (see) => see(await made()) > 5);
    await millwright.untilEvent('pool', 'CreationPaused', 'in the last attempt');
    await untilNone();
    expect(await made()).toBe(11);
  });

  it('makes them at once when somebody asks for it, and its attempts are counted', async () => {
    expect(await millwright.command('rollout', 'retry', 'pool')).toMatchObject({ code: 0 });
    await until('the second attempt has failed', async (see) => see(await attempts()).count === 2);
    await untilNone();
    expect(await made()).toBe(17);
  });

  it('makes those of another template at once', async () => {
    await millwright.changeDeployment('pool', { spec: { template: { spec: { class: { name: 'small' } } } } });
    await millwright.untilRunning('pool', 6, { className: 'small' });
    await until('the old set forgets them', async (see) => {
      const sets = see((await millwright.control.list(machineSets, { namespace: millwright.namespace })).items);
      return sets.every(({ metadata }) => metadata.annotations?.[names.failedAttempts] === undefined);
    });
  });
});
