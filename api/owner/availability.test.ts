import { describe, expect, it } from '@jest/globals';
import { gardener } from '../gardener/index.ts';
import type { Machine } from '../gardener/schema/machine.ts';
import type { MachineDeployment } from '../gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../gardener/schema/machine-set.ts';
import { names } from '../names.ts';
import { isAvailable, minReadySecondsOf, msUntilAvailable, problemOfMinReadySeconds } from './availability.ts';
import { findBlockers } from './blockers.ts';
import { toDeploymentCounts, toSetCounts } from './counts.ts';

const api = { ...gardener, nowMs: Date.now() };

const ago = (seconds: number) => new Date(api.nowMs - seconds * 1_000).toISOString();
const reference = (kind: string, uid: string) => [{ apiVersion: 'x', kind, name: uid, uid, controller: true }];
const meta = (name: string) => ({ name, uid: name, resourceVersion: '1', creationTimestamp: ago(7_200) });
const asked = { annotations: { [names.enforceMinReadySeconds]: 'true' } };
const template = { metadata: { labels: { name: 'pool' } }, spec: { class: { kind: 'MachineClass', name: 'small' } } };
const spec = { replicas: 2, minReadySeconds: 60, selector: { matchLabels: { name: 'pool' } }, template };

const set: MachineSet = {
  metadata: { ...meta('s'), ...asked, ownerReferences: reference('MachineDeployment', 'd') },
  spec,
};
const deployment: MachineDeployment = {
  metadata: { ...meta('d'), ...asked },
  spec: { ...spec, strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } } },
};

/** A machine whose Node is ready since so many seconds; without a Node, it is so long in its phase. */
function machine(name: string, phase: string, readyFor: number | undefined, inPhaseFor = 7_200): Machine {
  const ready = { type: 'Ready', status: 'True', lastTransitionTime: ago(readyFor ?? 0) };
  return {
    metadata: { ...meta(name), ownerReferences: reference('MachineSet', 's') },
    status: {
      currentStatus: { phase, lastUpdateTime: ago(inPhaseFor) },
      ...(readyFor !== undefined && { conditions: [ready] }),
    },
  };
}

describe('minReadySeconds', () => {
  it.each<[string, MachineSet['metadata'], number]>([
    ['counts where the annotation is true', { ...meta('s'), ...asked }, 60],
    ['does not count without the annotation', meta('s'), 0],
    ['does not count where it is false', { ...meta('s'), annotations: { [names.enforceMinReadySeconds]: 'false' } }, 0],
  ])('%s', (_title, metadata, expected) => {
    expect(minReadySecondsOf({ metadata, spec })).toBe(expected);
  });

  it.each<[string, Machine, boolean]>([
    ['a machine that is ready for longer', machine('m', 'Running', 61), true],
    ['no machine that is ready for less', machine('m', 'Running', 59), false],
    ['a machine without a Node that is Available for longer', machine('m', 'Available', undefined, 61), true],
    ['no machine without a Node that is Available for less', machine('m', 'Available', undefined, 59), false],
    ['no machine that does not run', machine('m', 'Pending', 61), false],
  ])('lets %s be available', (_title, one, expected) => {
    expect(isAvailable(api, one, 60)).toBe(expected);
  });

  it('is over for the first machine when the rest of its time has passed', () => {
    const own = [machine('new', 'Running', 10), machine('newer', 'Running', 5), machine('old', 'Running', 600)];
    expect(msUntilAvailable(api, [set], own)).toBe(50_000);
    expect(msUntilAvailable(api, [set], [machine('old', 'Running', 600)])).toBeUndefined();
    expect(msUntilAvailable(api, [{ ...set, metadata: { ...set.metadata, annotations: {} } }], own)).toBeUndefined();
  });

  it('is in the counts of a set and its deployment, and the rollout says what it waits for', () => {
    const own = [machine('old', 'Running', 600), machine('new', 'Running', 10)];
    expect(toSetCounts(api, set, own)).toMatchObject({ readyReplicas: 2, availableReplicas: 1 });
    expect(toDeploymentCounts(api, deployment, [set], own)).toMatchObject({
      ...{ readyReplicas: 2, availableReplicas: 1, unavailableReplicas: 1 },
    });
    expect(findBlockers(api, deployment, [set], own).machines).toEqual([
      { name: 'new', reason: 'Running, for less than the 60 s of minReadySeconds' },
    ]);
  });

  it.each<[string, string, object, string | undefined]>([
    [
      'a value nobody knows',
      'yes',
      {},
      `metadata.annotations['${names.enforceMinReadySeconds}'] is 'yes': set it to true, or remove it`,
    ],
    ['a negative number', 'true', { minReadySeconds: -1 }, 'spec.minReadySeconds is -1: set it to 0 or more'],
    [
      'a time after the deadline',
      'true',
      { progressDeadlineSeconds: 60 },
      'spec.minReadySeconds is 60, and every rollout would be late: set it to less than spec.progressDeadlineSeconds, which is 60',
    ],
    ['nothing where it does not count', 'false', { minReadySeconds: -1 }, undefined],
    ['nothing where the deadline is later', 'true', { progressDeadlineSeconds: 61 }, undefined],
  ])('refuses %s', (_title, value, changes, problem) => {
    const metadata = { ...meta('d'), annotations: { [names.enforceMinReadySeconds]: value } };
    expect(problemOfMinReadySeconds({ metadata, spec: { ...spec, ...changes } })).toBe(problem);
  });
});
