import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { gardener as api } from '../../../api/gardener/index.ts';
import { annotations } from '../../../api/gardener/names.ts';
import type { Machine } from '../../../api/gardener/schema/machine.ts';
import type { MachineDeployment } from '../../../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../../../api/gardener/schema/machine-set.ts';
import { names } from '../../../api/names.ts';
import { templateHash } from '../../../api/owner/template.ts';
import { progressReporter } from './status.ts';
import type { RolloutTarget } from './target.ts';

const metadata = { namespace: 'n', resourceVersion: '5', creationTimestamp: '2026-08-19T10:00:00Z' };
const target = { key: { namespace: 'n', name: 'pool' }, options: {}, rawFlags: {} } as unknown as RolloutTarget;

const templateOf = (name: string) => ({
  metadata: { labels: { name: 'pool' } },
  spec: { class: { kind: 'MachineClass', name } },
});
const controlledBy = (kind: string, name: string) => [
  { apiVersion: 'machine.sapcloud.io/v1alpha1', kind, name, uid: name, controller: true },
];

function deploymentOf(name: string, own: Record<string, string> = {}): MachineDeployment {
  return {
    metadata: { ...metadata, name: 'pool', uid: 'pool', generation: 2, annotations: own },
    spec: {
      ...{ replicas: 1, selector: { matchLabels: { name: 'pool' } }, template: templateOf(name) },
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
    },
    status: {
      observedGeneration: 2,
      conditions: [
        {
          ...{ type: 'Progressing', status: 'True', reason: 'NewMachineSetAvailable', message: '' },
          ...{ lastUpdateTime: metadata.creationTimestamp, lastTransitionTime: metadata.creationTimestamp },
        },
      ],
    },
  };
}

function setOf(name: string, revision: number, replicas: number): MachineSet {
  const history = revision === 3 && { [annotations.revisionHistory]: '1' };
  return {
    metadata: {
      ...{ ...metadata, name, uid: name, annotations: { [annotations.revision]: String(revision), ...history } },
      ownerReferences: controlledBy('MachineDeployment', 'pool'),
    },
    spec: { replicas, selector: { matchLabels: { name: 'pool' } }, template: templateOf(name) },
  };
}

function machineOf(set: string, phase: string): Machine {
  return {
    metadata: { ...metadata, name: `${set}-1`, uid: `${set}-1`, ownerReferences: controlledBy('MachineSet', set) },
    spec: templateOf(set).spec,
    status: { currentStatus: { phase } },
  } as Machine;
}

describe('rollout status', () => {
  let printed: string[];
  beforeEach(() => {
    printed = [];
    jest.spyOn(console, 'log').mockImplementation((text) => {
      printed.push(text);
    });
  });
  afterEach(() => {
    jest.restoreAllMocks();
  });

  const machines = [machineOf('a', 'Running')];
  const failing = [...machines, machineOf('b', 'Pending')];
  const back = deploymentOf('a', { [names.rolledBack]: templateHash(api, templateOf('b')) });
  const wentBack =
    /^MachineDeployment n\/pool: revision 2 was late and is rolled back; complete, 1 of 1 machines updated/;

  it('fails when the rollout that it watches goes back by itself, once that is complete', async () => {
    const report = progressReporter(target);
    await report(deploymentOf('b'), { sets: [setOf('a', 1, 1), setOf('b', 2, 1)], machines: failing });
    await report(back, { sets: [setOf('a', 1, 1), setOf('b', 2, 1)], machines: failing });

    const end = report(back, { sets: [setOf('a', 3, 1), setOf('b', 2, 0)], machines });

    await expect(end).rejects.toThrow(wentBack);
    await expect(end).rejects.toThrow(/; why: millwright rollout runs pool -n n$/);
    expect(printed[1]).toMatch(/^MachineDeployment n\/pool: revision 2 was late and is rolled back; 1 of 1 machines/);
  });

  it('fails, too, where the machines of the late template are still there when it starts', async () => {
    const report = progressReporter(target);
    await report(back, { sets: [setOf('a', 1, 1), setOf('b', 2, 1)], machines: failing });

    await expect(report(back, { sets: [setOf('a', 3, 1)], machines })).rejects.toThrow(wentBack);
  });

  it('fails where the late template never had machines', async () => {
    const report = progressReporter(target);
    await report(deploymentOf('b'), { sets: [setOf('a', 1, 1), setOf('b', 2, 1)], machines });

    await expect(report(back, { sets: [setOf('a', 1, 1), setOf('b', 2, 0)], machines })).rejects.toThrow(wentBack);
  });

  it('says of a deployment that went back before that it is complete, and what it went back from', async () => {
    const sets = [setOf('a', 3, 1), setOf('b', 2, 0)];

    expect(await progressReporter(target)(back, { sets, machines })).toMatch(wentBack);
  });

  it('says nothing of a rollback where there was none', async () => {
    const sets = [setOf('a', 3, 1), setOf('b', 2, 0)];

    expect(await progressReporter(target)(deploymentOf('a'), { sets, machines })).toBe(
      'MachineDeployment n/pool: complete, 1 of 1 machines updated, 0 old, 1 available',
    );
  });
});
