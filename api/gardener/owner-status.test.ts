import { describe, expect, it } from '@jest/globals';
import type { MachineDeployment } from './machine-deployment.ts';
import type { MachineSet } from './machine-set.ts';
import { annotations } from './names.ts';
import { withProblem, withProgress, withRevision } from './owner-status.ts';

const deployment: MachineDeployment = {
  metadata: {
    name: 'pool-a',
    uid: 'md-1',
    resourceVersion: '5',
    generation: 4,
    creationTimestamp: '2026-08-19T10:00:00Z',
  },
};

describe('withProgress', () => {
  const now = new Date('2026-08-19T12:00:00.5Z');
  const available = { type: 'Available', status: 'True', reason: 'MinimumReplicasAvailable' };
  const before = '2026-08-19T11:00:00Z';
  const progressing = {
    type: 'Progressing',
    status: 'True',
    reason: 'FoundNewMachineSet',
    lastUpdateTime: before,
    lastTransitionTime: before,
    message: 'The rollout of MachineDeployment "pool-a": FoundNewMachineSet.',
  };

  it('has nothing to write when all is there', () => {
    const noted = { ...deployment, status: { observedGeneration: 4, conditions: [available, progressing] } };
    expect(withProgress(noted, { progress: 'FoundNewMachineSet' }, 4, now)).toBeUndefined();
    expect(withProgress(noted, {}, 4, now)).toBeUndefined();
  });

  it('notes a generation without touching the conditions', () => {
    const old = { ...deployment, status: { observedGeneration: 3, conditions: [available, progressing] } };
    expect(withProgress(old, { progress: 'FoundNewMachineSet' }, 4, now)).toEqual({
      status: { observedGeneration: 4 },
    });
    expect(withProgress(old, {}, 4, now)).toEqual({ status: { observedGeneration: 4 } });
  });

  it('writes its own condition and keeps all others', () => {
    const patch = withProgress(
      { ...deployment, status: { observedGeneration: 4, conditions: [progressing, available] } },
      { progress: 'NewMachineSetAvailable' },
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
    const patch = withProgress(
      { ...deployment, status: { conditions: [stalled] } },
      { progress: 'MachineSetUpdated' },
      4,
      now,
    );
    expect(patch).toMatchObject({
      status: { conditions: [{ status: 'True', lastTransitionTime: '2026-08-19T12:00:00Z' }] },
    });
  });

  it('notes the generation that was acted upon, also when there is another one by now', () => {
    const metadata = { ...deployment.metadata, generation: 9 };
    expect(withProgress({ ...deployment, metadata }, {}, 4, now)).toEqual({ status: { observedGeneration: 4 } });
  });

  it('tells a problem as Progressing False, once, and another one again', () => {
    const problem = 'spec.selector is missing';
    const patch = withProgress(deployment, { problem }, 4, now);
    const condition = { type: 'Progressing', status: 'False', reason: 'InvalidSpec', message: problem };
    expect(patch).toMatchObject({ status: { observedGeneration: 4, conditions: [condition] } });
    const told = { ...deployment, ...(patch as object) };
    expect(withProgress(told, { problem }, 4, now)).toBeUndefined();
    expect(withProgress(told, { problem: 'another' }, 4, now)).toMatchObject({
      status: { conditions: [{ message: 'another' }] },
    });
    expect(withProgress(told, { progress: 'FoundNewMachineSet' }, 4, now)).toMatchObject({
      status: { conditions: [{ status: 'True', reason: 'FoundNewMachineSet' }] },
    });
  });
});

describe('withProblem', () => {
  const now = new Date('2026-08-19T12:00:00Z');
  const set: MachineSet = { metadata: deployment.metadata };
  const frozen = { type: 'Frozen', status: 'True' };
  const failed = { type: 'ReplicaFailure', status: 'True', reason: 'FailedCreate' };

  it('tells a problem as ReplicaFailure, beside the conditions of others, and takes it back', () => {
    const before = { ...set, status: { observedGeneration: 4, machineSetCondition: [frozen, failed] } };
    const patch = withProblem(before, 'x', 4, now) as { status: MachineSet['status'] };
    const condition = { type: 'ReplicaFailure', status: 'True', reason: 'InvalidSpec', message: 'x' };
    expect(patch.status?.machineSetCondition).toEqual([
      frozen,
      { ...condition, lastTransitionTime: '2026-08-19T12:00:00Z' },
    ]);
    expect(withProblem({ ...set, ...patch }, 'x', 4, now)).toBeUndefined();
    expect(withProblem({ ...set, ...patch }, undefined, 4, now)).toMatchObject({
      status: { machineSetCondition: [frozen] },
    });
  });

  it('notes a generation and leaves the failures of others', () => {
    const before = { ...set, status: { observedGeneration: 3, machineSetCondition: [failed] } };
    expect(withProblem(before, undefined, 4, now)).toEqual({ status: { observedGeneration: 4 } });
  });
});

describe('withRevision', () => {
  it('gives the deployment the revision of its set, once', () => {
    const current: MachineSet = {
      metadata: { ...deployment.metadata, annotations: { [annotations.revision]: '7' } },
    };
    expect(withRevision(deployment, current)).toEqual({ metadata: { annotations: { [annotations.revision]: '7' } } });
    expect(withRevision({ metadata: current.metadata }, current)).toBeUndefined();
    expect(withRevision(deployment, undefined)).toBeUndefined();
    expect(withRevision(deployment, { metadata: deployment.metadata })).toBeUndefined();
  });
});
