import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { desiredState, type MachineSnapshot } from './machine.ts';
import { isNewer } from './ref.ts';

const machine: MachineSnapshot = {
  uid: 'uid-1',
  resourceVersion: '7',
  createdAt: '2026-08-19T10:00:00Z',
  managed: true,
  finalizers: ['machine.sapcloud.io/machine-controller-manager'],
  hasPriority: true,
  phase: 'Running',
  stage: 'running',
  source: 'small',
  onNodeDeleted: 'deleteMachine',
  providerID: 'simulated://1',
  nodeName: 'node-1',
  forceDeletion: false,
  limits: { creationSeconds: 1200, drainSeconds: 7200, maxEvictRetries: 360, nodeConditions: ['DiskPressure'] },
  conditions: { Ready: 'True' },
};

describe('isNewer', () => {
  const versions = fc.bigInt({ min: 0n, max: 2n ** 90n });

  it('compares resourceVersions of any length as numbers', () => {
    fc.assert(
      fc.property(versions, versions, (a, b) => {
        expect(isNewer(String(a), String(b))).toBe(a > b);
      }),
    );
  });

  it('takes any version as newer than none, and none as newer than itself', () => {
    fc.assert(
      fc.property(versions, (version) => {
        expect(isNewer(String(version), '')).toBe(true);
        expect(isNewer('', String(version))).toBe(false);
        expect(isNewer(String(version), String(version))).toBe(false);
      }),
    );
  });
});

describe('desiredState', () => {
  it('is the same whatever the workflow of the machine writes', () => {
    const writes = fc.record(
      {
        resourceVersion: fc.string(),
        managed: fc.boolean(),
        finalizers: fc.array(fc.string()),
        phase: fc.constantFrom('', 'Pending', 'Running', 'Unknown', 'Failed', 'Terminating'),
        providerID: fc.string(),
        nodeName: fc.string(),
        conditions: fc.dictionary(fc.string(), fc.string()),
        lastKnownState: fc.string(),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(writes, (written) => {
        expect(desiredState({ ...machine, ...written })).toBe(desiredState(machine));
      }),
    );
  });

  it.each<[string, Partial<MachineSnapshot>]>([
    ['another object of the same name', { uid: 'uid-2' }],
    ['a deletion', { deletingSince: '2026-08-19T11:00:00Z' }],
    ['another source', { source: 'large' }],
    ['an object that is not valid', { problem: 'spec.class.kind is empty' }],
    ['the label force-deletion', { forceDeletion: true }],
    ['another creation timeout', { limits: { ...machine.limits, creationSeconds: 60 } }],
    ['another drain timeout', { limits: { ...machine.limits, drainSeconds: 60 } }],
    ['other conditions to watch', { limits: { ...machine.limits, nodeConditions: [] } }],
  ])('differs after %s', (_, change) => {
    expect(desiredState({ ...machine, ...change })).not.toBe(desiredState(machine));
  });
});
