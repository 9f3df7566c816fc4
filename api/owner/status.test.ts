import { describe, expect, it } from '@jest/globals';
import { gardener as api } from '../gardener/index.ts';
import type { MachineDeployment } from '../gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../gardener/schema/machine-set.ts';
import type { RolloutProgress } from '../model/owner.ts';
import { withFailure, withReport } from './status.ts';

const deployment: MachineDeployment = {
  metadata: {
    name: 'pool-a',
    uid: 'md-1',
    resourceVersion: '5',
    generation: 4,
    creationTimestamp: '2026-08-19T10:00:00Z',
  },
};

const setName = 'pool-a-1';

describe('withReport', () => {
  const now = new Date('2026-08-19T12:00:00.5Z');
  const available = { type: 'Available', status: 'True', reason: 'MinimumReplicasAvailable' };
  const before = '2026-08-19T11:00:00Z';
  const progressing = {
    type: 'Progressing',
    status: 'True',
    reason: 'FoundNewMachineSet',
    lastUpdateTime: before,
    lastTransitionTime: before,
    message: 'Found new machine set "pool-a-1"',
  };

  it('has nothing to write when all is there', () => {
    const noted = { ...deployment, status: { observedGeneration: 4, conditions: [available, progressing] } };
    expect(withReport(api, noted, { progress: 'found', setName }, 4, now)).toBeUndefined();
    expect(withReport(api, noted, {}, undefined, now)).toBeUndefined();
    expect(withReport(api, noted, {}, 4, now)).toBeUndefined();
  });

  it('notes a generation without touching the conditions', () => {
    const old = { ...deployment, status: { observedGeneration: 3, conditions: [available, progressing] } };
    expect(withReport(api, old, { progress: 'found', setName }, 4, now)).toEqual({
      status: { observedGeneration: 4 },
    });
    expect(withReport(api, old, {}, 4, now)).toEqual({ status: { observedGeneration: 4 } });
  });

  it('writes its own condition and keeps all others', () => {
    const patch = withReport(
      api,
      { ...deployment, status: { observedGeneration: 4, conditions: [progressing, available] } },
      { progress: 'complete' },
      4,
      now,
    );
    expect(patch).toMatchObject({
      status: {
        observedGeneration: 4,
        conditions: [
          available,
          {
            type: 'Progressing',
            status: 'True',
            reason: 'NewMachineSetAvailable',
            lastUpdateTime: '2026-08-19T12:00:00Z',
            lastTransitionTime: before, // the status stays True
          },
        ],
      },
    });
  });

  it('notes the time when the status becomes True', () => {
    const stalled = { ...progressing, status: 'False', reason: 'ProgressDeadlineExceeded' };
    const patch = withReport(
      api,
      { ...deployment, status: { conditions: [stalled] } },
      { progress: 'updated' },
      4,
      now,
    );
    expect(patch).toMatchObject({
      status: { conditions: [{ status: 'True', lastTransitionTime: '2026-08-19T12:00:00Z' }] },
    });
  });

  it('notes the generation that was acted upon, also when there is another one by now', () => {
    const metadata = { ...deployment.metadata, generation: 9 };
    expect(withReport(api, { ...deployment, metadata }, {}, 4, now)).toEqual({ status: { observedGeneration: 4 } });
  });

  it('reports a problem as Progressing False, once, and another problem again', () => {
    const problem = 'spec.selector is missing';
    const patch = withReport(api, deployment, { problem }, 4, now);
    const condition = { type: 'Progressing', status: 'False', reason: 'InvalidSpec', message: problem };
    expect(patch).toMatchObject({ status: { observedGeneration: 4, conditions: [condition] } });
    const reported = { ...deployment, ...(patch as object) };
    expect(withReport(api, reported, { problem }, 4, now)).toBeUndefined();
    expect(withReport(api, reported, { problem: 'another' }, 4, now)).toMatchObject({
      status: { conditions: [{ message: 'another' }] },
    });
    expect(withReport(api, reported, { progress: 'found' }, 4, now)).toMatchObject({
      status: { conditions: [{ status: 'True', reason: 'FoundNewMachineSet' }] },
    });
  });

  it.each<[RolloutProgress, string, string, string]>([
    ['created', 'NewMachineSetCreated', 'True', 'Created new machine set "pool-a-1"'],
    ['found', 'FoundNewMachineSet', 'True', 'Found new machine set "pool-a-1"'],
    ['updated', 'MachineSetUpdated', 'True', 'MachineSet "pool-a-1" is progressing.'],
    ['complete', 'NewMachineSetAvailable', 'True', 'MachineSet "pool-a-1" has successfully progressed.'],
    ['late', 'ProgressDeadlineExceeded', 'False', 'MachineSet "pool-a-1" has timed out progressing.'],
    ['paused', 'DeploymentPaused', 'Unknown', 'Deployment is paused'],
    ['resumed', 'DeploymentResumed', 'Unknown', 'Deployment is resumed'],
  ])('says %s as machine-controller-manager does', (progress, reason, status, message) => {
    expect(withReport(api, deployment, { progress, setName }, 4, now)).toMatchObject({
      status: { conditions: [{ type: 'Progressing', reason, status, message }] },
    });
  });

  it('says why a set was refused, once, and not of a rollout that is late', () => {
    const refused = 'Failed to create new machine set "pool-a-1": quota';
    const patch = withReport(api, deployment, { refused }, undefined, now) as { status: MachineDeployment['status'] };
    const condition = { type: 'Progressing', status: 'False', reason: 'MachineSetCreateError', message: refused };
    expect(patch).toMatchObject({ status: { conditions: [condition] } });
    const told = { ...deployment, status: { ...deployment.status, ...patch.status } };
    expect(withReport(api, told, { refused }, undefined, now)).toBeUndefined();
    const late = { ...progressing, status: 'False', reason: 'ProgressDeadlineExceeded' };
    const lateOne = { ...deployment, status: { conditions: [late] } };
    expect(withReport(api, lateOne, { refused }, undefined, now)).toBeUndefined();
  });

  it('[mcm 68 partly] reports a failure besides all other conditions, and removes it', () => {
    const before = { ...deployment, status: { observedGeneration: 3, conditions: [available, progressing] } };
    const failure = { reason: 'FailedCreate', message: 'quota' };
    const patch = withReport(api, before, { failure }, undefined, now) as { status: MachineDeployment['status'] };
    expect(patch).toMatchObject({
      status: { conditions: [available, progressing, { type: 'ReplicaFailure', status: 'True', ...failure }] },
    });
    expect(patch.status).not.toHaveProperty('observedGeneration');
    const reported = { ...before, status: { ...before.status, ...patch.status } };
    expect(withReport(api, reported, { failure }, undefined, now)).toBeUndefined();
    expect(withReport(api, reported, {}, 4, now)).toEqual({
      status: { observedGeneration: 4, conditions: [available, progressing] },
    });
  });
});

describe('withFailure', () => {
  const now = new Date('2026-08-19T12:00:00Z');
  const set: MachineSet = { metadata: deployment.metadata };
  const frozen = { type: 'Frozen', status: 'True' };
  const failure = { reason: 'FailedCreate', message: 'quota' };
  const condition = { type: 'ReplicaFailure', status: 'True', ...failure };

  it('[mcm 68 partly] reports a failure besides the conditions of others, once, and removes it', () => {
    const before = { ...set, status: { observedGeneration: 4, machineSetCondition: [frozen] } };
    const patch = withFailure(api, before, failure, 4, now) as { status: MachineSet['status'] };
    expect(patch.status?.machineSetCondition).toEqual([
      frozen,
      { ...condition, lastTransitionTime: '2026-08-19T12:00:00Z' },
    ]);
    expect(withFailure(api, { ...set, ...patch }, failure, 4, now)).toBeUndefined();
    expect(withFailure(api, { ...set, ...patch }, { ...failure, message: 'x' }, 4, now)).toMatchObject({
      status: { machineSetCondition: [frozen, { message: 'x' }] },
    });
    expect(withFailure(api, { ...set, ...patch }, undefined, 4, now)).toMatchObject({
      status: { machineSetCondition: [frozen] },
    });
  });

  it('notes a generation when one is given, and nothing else', () => {
    const before = { ...set, status: { observedGeneration: 3, machineSetCondition: [condition] } };
    expect(withFailure(api, before, failure, 4, now)).toEqual({ status: { observedGeneration: 4 } });
    expect(withFailure(api, before, failure, undefined, now)).toBeUndefined();
  });
});
