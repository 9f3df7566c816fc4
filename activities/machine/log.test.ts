import { describe, expect, it } from '@jest/globals';
import type { MachineSnapshot } from '../../api/model/machine.ts';
import { goneLine, lineOf } from './log.ts';

const ref = { dialect: 'gardener', namespace: 'default', name: 'a', uid: 'uid-a' };
const nowMs = Date.parse('2030-01-01T00:00:41.24Z');
const pending = {
  ...{ stage: 'creating', phase: 'Pending', createdAt: '2030-01-01T00:00:00Z', resourceVersion: '1' },
  nodeName: 'node-a',
} as unknown as MachineSnapshot;
const running = { ...pending, stage: 'running', phase: 'Running', providerID: 'aws:///i-1' } as MachineSnapshot;

describe('the line for a report', () => {
  it('is there for a new phase, with how long the last one took', () => {
    const line = lineOf(ref, pending, { stage: 'running', provider: 'aws', deployment: 'pool' }, running, nowMs);

    expect(line).toEqual({
      message: 'the machine has another phase',
      fields: {
        ...{ namespace: 'default', machine: 'a', deployment: 'pool', node: 'node-a', providerID: 'aws:///i-1' },
        ...{ provider: 'aws', before: 'Pending', phase: 'Running', seconds: 41.2 },
      },
    });
  });

  it('is there for a refusal, with code and remedy', () => {
    const step = { kind: 'create', state: 'failed', code: 'ResourceExhausted', message: 'no room' } as const;
    const event = { reason: 'FailedCreate', note: 'ResourceExhausted: no room. Raise the quota.' } as const;

    expect(lineOf(ref, pending, { stage: 'creating', step, event }, pending, nowMs)).toMatchObject({
      message: 'a step of the machine was refused',
      fields: { machine: 'a', phase: 'Pending', reason: 'FailedCreate', code: 'ResourceExhausted', note: event.note },
    });
  });

  it('is not there for anything else', () => {
    const event = { reason: 'VmCreated' } as const;

    expect(lineOf(ref, pending, { stage: 'creating', event }, pending, nowMs)).toBeUndefined();
  });
});

it('a machine that is gone has a line with how long its deletion took', () => {
  const deleted = { ...running, deletingSince: '2030-01-01T00:00:40Z' } as MachineSnapshot;

  expect(goneLine(ref, deleted, nowMs, 'pool').fields).toMatchObject({
    machine: 'a',
    deployment: 'pool',
    seconds: 1.2,
  });
});
