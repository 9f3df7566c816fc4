import { describe, expect, it } from '@jest/globals';
import { gardener } from '../gardener/index.ts';
import { deletionSteps, descriptions, labels } from '../gardener/names.ts';
import { operationText } from '../gardener/owner.ts';
import type { Machine } from '../gardener/schema/machine.ts';
import type { MachineDeployment } from '../gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../gardener/schema/machine-set.ts';
import { findBlockers } from './blockers.ts';

const api = { ...gardener, nowMs: Date.now() };

const template = { spec: { class: { kind: 'MachineClass', name: 'small' } } };
const meta = (name: string, uid: string) => ({
  name,
  namespace: 'n',
  uid,
  resourceVersion: '1',
  creationTimestamp: '1',
});
const deployment: MachineDeployment = {
  metadata: meta('pool', 'd'),
  spec: { replicas: 3, selector: {}, template },
};
const set: MachineSet = {
  metadata: { ...meta('pool-a', 's'), ownerReferences: [reference('MachineDeployment', 'pool', 'd')] },
  spec: { replicas: 3, selector: {}, template },
};

function reference(kind: string, name: string, uid: string) {
  return { apiVersion: 'machine.sapcloud.io/v1alpha1', kind, name, uid, controller: true };
}

function machine(name: string, phase: string, lastOperation: object = {}, change: Partial<Machine> = {}): Machine {
  return {
    metadata: { ...meta(name, name), ownerReferences: [reference('MachineSet', 'pool-a', 's')] },
    status: { currentStatus: { phase }, lastOperation },
    ...change,
  };
}

const refused = { type: 'Create', state: 'Failed', errorCode: 'ResourceExhausted', description: 'no\n  capacity' };

describe('what a rollout waits for', () => {
  it('[mcm 80 partly] is every machine that does not run or is on its way out, with its reason', () => {
    const leaving = machine('d', 'Running', { type: 'Drain', state: 'Processing', description: 'draining' });
    leaving.metadata.deletionTimestamp = '2026-08-19T10:00:00Z';
    const stranger = machine('e', 'Pending', {}, { metadata: meta('e', 'e') });
    const own = [machine('a', 'CrashLoopBackOff', refused), machine('b', 'Running'), machine('c', ''), leaving];
    expect(findBlockers(api, deployment, [set], [...own, stranger])).toEqual({
      count: 3,
      machines: [
        { name: 'a', reason: 'CrashLoopBackOff, ResourceExhausted: no capacity' },
        { name: 'c', reason: 'new' },
        { name: 'd', reason: 'Terminating: draining' },
      ],
      blockedOn: 'CloudCapacity',
    });
  });

  it('is blocked on what a deletion was refused for, and else on the drain', () => {
    const description = 'Cloud provider message - machine codes error: code = [Unauthenticated] message = [no]';
    const leaving = machine('a', 'Terminating', { type: 'Delete', state: 'Failed', description });
    const draining = machine('b', 'Terminating', { type: 'Delete', state: 'Processing', description: 'draining' });
    for (const each of [leaving, draining]) each.metadata.deletionTimestamp = '2026-08-19T10:00:00Z';

    const found = [leaving, draining].map((each) => findBlockers(api, deployment, [set], [each]));
    expect(found.map(({ blockedOn }) => blockedOn)).toEqual(['Credentials', 'Drain']);
    expect(found[0]?.machines).toEqual([{ name: 'a', reason: 'Terminating, Unauthenticated: no' }]);
  });

  it.each([
    ['Pending', { type: 'Create', description: descriptions.creating }, 'Pending: waits for its Node to join'],
    [
      'Terminating',
      { type: 'Delete', description: deletionSteps.drain },
      'Terminating: waits for its pods to leave the Node',
    ],
    ['Unknown', { type: 'HealthCheck', description: 'disk is full' }, 'Unknown: disk is full'],
    ['Pending', { type: 'Create', description: 'what MCM has written' }, 'Pending: what MCM has written'],
  ])('says of a machine in phase %s what it waits for, where its operation %j has a word for that', (...row) => {
    const [phase, operation, reason] = row;
    const change = { spec: { ...template.spec, providerID: 'simulated:///1' } };
    const waiting = machine('a', phase, { state: 'Processing', ...operation }, change);
    if (phase === 'Terminating') waiting.metadata.deletionTimestamp = '2026-08-19T10:00:00Z';

    expect(findBlockers(api, deployment, [set], [waiting]).machines).toEqual([{ name: 'a', reason }]);
  });

  it('names the code of a refusal once', () => {
    const description = 'Cloud provider message - machine codes error: code = [ResourceExhausted] message = [no\nroom]';
    const refusedTwice = { ...refused, description };
    const { machines } = findBlockers(api, deployment, [set], [machine('a', 'CrashLoopBackOff', refusedTwice)]);
    expect(machines).toEqual([{ name: 'a', reason: 'CrashLoopBackOff, ResourceExhausted: no room' }]);
    expect(operationText({ state: 'Failed', errorCode: 'Internal', description: 'broken' })).toBe('Internal: broken');
    expect(operationText({ state: 'Processing', errorCode: 'Internal', description: 'again' })).toBe('again');
  });

  it('names 20 machines at most, says little of each, and is blocked on what most of them wait for', () => {
    const long = { ...refused, description: 'x'.repeat(1_000) };
    const joining = (name: string) => machine(name, 'Pending', {}, { spec: { providerID: 'simulated://1' } });
    const found = [
      machine('m10', 'CrashLoopBackOff', long),
      ...Array.from({ length: 24 }, (_, i) => joining(`m${i + 11}`)),
    ];
    const { count, machines, blockedOn } = findBlockers(api, deployment, [set], found);
    expect([count, machines.length, blockedOn]).toEqual([25, 20, 'NodeJoin']);
    expect(machines[0]?.name).toBe('m10');
    expect(machines[0]?.reason).toHaveLength(200);
  });

  it('is what the API server refuses or a freeze, where it is no machine', () => {
    const failure = { type: 'ReplicaFailure', status: 'True', reason: 'FailedCreate', message: 'quota exceeded' };
    const failed: MachineSet = { ...set, status: { machineSetCondition: [failure] } };
    const frozen: MachineSet = { ...set, metadata: { ...set.metadata, labels: { [labels.freeze]: 'True' } } };
    expect(findBlockers(api, deployment, [failed], [])).toMatchObject({
      ...{ count: 0, problem: 'FailedCreate: quota exceeded', blockedOn: 'KubernetesApi' },
    });
    expect(findBlockers(api, deployment, [frozen], [])).toMatchObject({
      problem: 'no machine may be created in MachineSet pool-a, as it or its deployment is frozen',
      blockedOn: 'Freeze',
    });
    expect(findBlockers(api, deployment, [set], [])).toEqual({ count: 0, machines: [], blockedOn: 'Rollout' });
  });
});
