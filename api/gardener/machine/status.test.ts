import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { MachineReport, MachineStage, MachineStep } from '../../model/machine.ts';
import { type MachinePhase, phases } from '../names.ts';
import type { Machine } from '../schema/machine.ts';
import { toIdentityPatch } from './identity.ts';
import { stages, toMachineSnapshot } from './snapshot.ts';
import { toEventNote, toStatusPatch } from './status.ts';

const now = new Date('2026-08-19T12:00:00.789Z');
const stageSince = '2026-08-19T11:02:05.123Z';
const limits = { creationSeconds: 1, drainSeconds: 1, maxEvictRetries: 1, nodeConditions: [] };

function newMachine(phase: MachinePhase = ''): Machine {
  const metadata = {
    name: 'm',
    namespace: 'n',
    uid: 'u',
    resourceVersion: '1',
    creationTimestamp: '2026-08-19T11:00:00Z',
  };
  return {
    apiVersion: 'machine.sapcloud.io/v1alpha1',
    kind: 'Machine',
    metadata,
    status: { currentStatus: { phase } },
  };
}

interface Patch {
  readonly status: { readonly currentStatus: object; readonly lastOperation?: object };
}

/** What its workflow knows of a Machine. */
const known = (machine: Machine) => ({ name: machine.metadata.name, ...toMachineSnapshot(machine, limits) });

const patchOf = (report: MachineReport, machine = newMachine()) => toStatusPatch(known(machine), report, now) as Patch;

const refusal = { message: 'no room', code: 'ResourceExhausted' } as const;
const fromCloud = { ...refusal, isFromCloud: true } as const;
const cloudText = 'machine codes error: code = [ResourceExhausted] message = [no room]';

describe('toStatusPatch', () => {
  it.each<[MachineStep, MachineStage, { type: string; state: string; description: string; errorCode?: string }]>([
    [
      { kind: 'create', state: 'processing' },
      'joining',
      { type: 'Create', state: 'Processing', description: 'Creating machine on cloud provider' },
    ],
    [
      { kind: 'create', state: 'failed', ...refusal },
      'creating',
      { type: 'Create', state: 'Failed', description: 'no room', errorCode: 'ResourceExhausted' },
    ],
    [
      { kind: 'create', state: 'failed', ...fromCloud },
      'creating',
      {
        type: 'Create',
        state: 'Failed',
        description: `Cloud provider message - ${cloudText}`,
        errorCode: 'ResourceExhausted',
      },
    ],
    [
      { kind: 'initialize', state: 'failed', message: 'no route', code: 'Uninitialized' },
      'creating',
      { type: 'Create', state: 'Failed', description: 'Initialize VM Instance: no route', errorCode: 'Uninitialized' },
    ],
    [
      { kind: 'claimNode', state: 'failed', message: 'the node a exists', code: 'Internal' },
      'failed',
      {
        type: 'Create',
        state: 'Failed',
        description: 'VM using old node obj: the node a exists',
        errorCode: 'Internal',
      },
    ],
    [
      { kind: 'join', state: 'failed', message: 'too late', code: 'DeadlineExceeded' },
      'failed',
      { type: 'Create', state: 'Failed', description: 'too late', errorCode: 'DeadlineExceeded' },
    ],
    [
      { kind: 'join', state: 'successful' },
      'running',
      { type: 'Create', state: 'Successful', description: 'Machine m successfully joined the cluster after 125 s' },
    ],
    [
      { kind: 'health', state: 'processing' },
      'unhealthy',
      {
        type: 'HealthCheck',
        state: 'Processing',
        description: 'Machine m is unhealthy - changing MachinePhase to Unknown',
      },
    ],
    [
      { kind: 'health', state: 'successful' },
      'running',
      { type: 'HealthCheck', state: 'Successful', description: 'Machine m successfully re-joined the cluster' },
    ],
    [
      { kind: 'drain', state: 'processing' },
      'deleting',
      { type: 'Delete', state: 'Processing', description: 'Initiate node drain' },
    ],
    [
      { kind: 'drain', state: 'processing', waitsFor: 'the PodDisruptionBudget n/b' },
      'deleting',
      {
        type: 'Delete',
        state: 'Processing',
        description: 'Initiate node drain: waits for the PodDisruptionBudget n/b',
      },
    ],
    [
      { kind: 'drain', state: 'failed', message: 'no answer', code: 'Unknown' },
      'deleting',
      { type: 'Delete', state: 'Failed', description: 'Initiate node drain: no answer' },
    ],
    [
      { kind: 'deleteVm', state: 'processing' },
      'deleting',
      { type: 'Delete', state: 'Processing', description: 'Initiate VM deletion' },
    ],
    [
      { kind: 'deleteVm', state: 'failed', ...refusal },
      'deleting',
      { type: 'Delete', state: 'Failed', description: 'Initiate VM deletion: no room' },
    ],
    [
      { kind: 'deleteVm', state: 'failed', ...fromCloud },
      'deleting',
      { type: 'Delete', state: 'Failed', description: `Initiate VM deletion: ${cloudText}` },
    ],
  ])('writes %j of a machine that is %s', (step, stage, operation) => {
    const report = { stage, stageSince, step };
    const lastUpdateTime = '2026-08-19T12:00:00Z';

    expect(patchOf(report).status.lastOperation).toEqual({ errorCode: null, ...operation, lastUpdateTime });
    expect(toEventNote(known(newMachine()), report)).toBe(operation.description);
  });

  it('changes the phase alone when the report says no more', () => {
    expect(patchOf({ stage: 'running' })).toEqual({ status: { currentStatus: { phase: 'Running' } } });
    expect(toEventNote(known(newMachine()), { stage: 'running' })).toBe('Running');
  });

  it('writes the time of a change, the timeout, the state of the provider and the conditions of the Node', () => {
    const report = { stage: 'joining', stageSince, isTimed: true, lastKnownState: '' } as const;
    expect(toStatusPatch(known(newMachine()), report, now, [{ type: 'Ready', status: 'True' }])).toEqual({
      status: {
        currentStatus: { phase: 'Pending', timeoutActive: true, lastUpdateTime: '2026-08-19T11:02:05Z' },
        lastKnownState: '',
        conditions: [{ type: 'Ready', status: 'True' }],
      },
    });
  });

  it('makes a Machine of any phase one of the stage, and leaves the phase of one that is in it', () => {
    const anyPhase = fc.constantFrom(...(Object.keys(phases) as MachinePhase[]));
    const anyStage = fc.constantFrom(...new Set(Object.values(stages)));
    fc.assert(
      fc.property(anyPhase, anyStage, (phase, stage) => {
        const machine = newMachine(phase);
        const { currentStatus } = patchOf({ stage }, machine).status;
        const after = toMachineSnapshot({ ...machine, status: { currentStatus } }, limits);

        expect(after.stage).toBe(stage);
        if (stages[phase] === stage) expect(after.phase).toBe(phase);
      }),
    );
  });

  it('never says when preservation ends: that is not its to change', () => {
    expect(JSON.stringify(patchOf({ stage: 'failed', isTimed: false }))).not.toContain('preserve');
  });
});

describe('toIdentityPatch', () => {
  const priority = 'machinepriority.machine.sapcloud.io';

  it('[mcm 14 partly] stores the provider ID, the label of the node and the default priority', () => {
    expect(toIdentityPatch({ hasPriority: false }, { providerID: 'p', nodeName: 'node-1' })).toEqual({
      metadata: { labels: { node: 'node-1' }, annotations: { [priority]: '3' } },
      spec: { providerID: 'p' },
    });
  });

  it('keeps a priority and a node name that are there', () => {
    expect(toIdentityPatch({ hasPriority: true }, { providerID: 'p' })).toEqual({
      metadata: {},
      spec: { providerID: 'p' },
    });
  });
});
