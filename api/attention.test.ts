import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type Attention, attention, isHealthy, phaseByNode, sameConditions } from './attention.ts';
import type { MachinePhase, MachineSnapshot } from './model/machine.ts';
import type { NodeSnapshot, NodeView } from './model/node.ts';

const watched = ['KernelDeadlock', 'DiskPressure'];
const machine: MachineSnapshot = {
  uid: 'uid-1',
  resourceVersion: '7',
  createdAt: '2026-08-19T10:00:00Z',
  managed: true,
  finalizers: ['machine.sapcloud.io/machine-controller-manager'],
  prioritized: true,
  phase: 'Running',
  stage: 'running',
  source: 'small',
  onNodeDeleted: 'deleteMachine',
  class: { kind: 'MachineClass', name: 'small' },
  providerID: 'simulated://1',
  nodeName: 'node-1',
  forceDeletion: false,
  limits: { creationSeconds: 1200, drainSeconds: 7200, maxEvictRetries: 360, nodeConditions: watched },
  conditions: { Ready: 'True', DiskPressure: 'False' },
};
const node: NodeSnapshot & { state: 'present' } = {
  state: 'present',
  uid: 'node-uid-1',
  resourceVersion: '9',
  name: 'node-1',
  deleting: false,
  managed: true,
  conditions: { Ready: 'True', DiskPressure: 'False' },
  startingUp: false,
};
const absent: NodeView = { state: 'absent' };
const unknown: NodeView = { state: 'unknown' };

const phases: MachinePhase[] = [
  '',
  'Pending',
  'Available',
  'Running',
  'Unknown',
  'Failed',
  'Terminating',
  'CrashLoopBackOff',
  'InPlaceUpdating',
  'InPlaceUpdateSuccessful',
  'InPlaceUpdateFailed',
];
const inPlace: MachinePhase[] = ['InPlaceUpdating', 'InPlaceUpdateSuccessful', 'InPlaceUpdateFailed'];
const resting: MachinePhase[] = ['Running', 'Available', 'Failed', ...inPlace];

const anyPhase = fc.constantFrom(...phases);
const anyConditions = fc.dictionary(
  fc.constantFrom('Ready', 'DiskPressure', 'KernelDeadlock', 'Other'),
  fc.constantFrom('True', 'False', 'Unknown'),
);
const anyMachine: fc.Arbitrary<MachineSnapshot> = fc
  .record({
    phase: anyPhase,
    managed: fc.boolean(),
    deleting: fc.boolean(),
    named: fc.boolean(),
    conditions: anyConditions,
    nodeConditions: fc.subarray(watched),
  })
  .map(({ deleting, named, nodeConditions, ...rest }) => {
    const { nodeName, ...unnamed } = machine;
    return {
      ...unnamed,
      ...rest,
      limits: { ...machine.limits, nodeConditions },
      ...(deleting && { deletingSince: '2026-08-19T11:00:00Z' }),
      ...(named && nodeName !== undefined && { nodeName }),
    };
  });
const anyPresent = fc
  .record({ deleting: fc.boolean(), managed: fc.boolean(), startingUp: fc.boolean(), conditions: anyConditions })
  .map((part) => ({ ...node, ...part }));
const anyNode: fc.Arbitrary<NodeView> = fc.oneof(fc.constant(absent), fc.constant(unknown), anyPresent);

/**
 * What the workflow of a machine past its creation writes when it is woken: the finalizer, then what its Node says. Null
 * when it has nothing to write: then it waits, for ever if nothing happens.
 */
function written(seen: MachineSnapshot, view: NodeView): { machine: MachineSnapshot; node: NodeView } | null {
  if (!seen.managed) return { machine: { ...seen, managed: true }, node: view };
  const phase = phaseByNode(seen, view);
  const inStep = view.state !== 'present' || (view.managed && sameConditions(view.conditions, seen.conditions));
  if (phase === seen.phase && inStep) return null;
  if (view.state !== 'present') return { machine: { ...seen, phase }, node: view };
  return { machine: { ...seen, phase, conditions: view.conditions }, node: { ...view, managed: true } };
}

describe('attention', () => {
  it('is nothing for a machine at rest, [invariant 11] so a restart costs it nothing', () => {
    expect(attention(machine, node)).toEqual([]);
  });

  it.each<[string, Partial<MachineSnapshot>, NodeView, Attention[]]>([
    ['a machine without our finalizer', { managed: false }, node, ['finalizer']],
    ['a deletion', { deletingSince: '2026-08-19T11:00:00Z' }, node, ['deletion']],
    ['a new machine', { phase: '' }, absent, ['phase']],
    ['a machine whose creation was refused', { phase: 'CrashLoopBackOff' }, absent, ['phase']],
    ['a machine whose node has not joined', { phase: 'Pending' }, absent, ['phase']],
    ['a vanished node', {}, absent, ['nodeMissing']],
    ['a deleted node', {}, { ...node, deleting: true }, ['nodeDeleting']],
    ['a node that lost our finalizer or back reference', {}, { ...node, managed: false }, ['nodeUnmanaged']],
    ['a new condition', {}, { ...node, conditions: { ...node.conditions, Other: 'True' } }, ['nodeConditions']],
    ['a condition that is gone', {}, { ...node, conditions: { Ready: 'True' } }, ['nodeConditions']],
    [
      'a node that is not ready',
      { conditions: { Ready: 'False' } },
      { ...node, conditions: { Ready: 'False' } },
      ['nodeHealth'],
    ],
    [
      'a condition that the machine watches',
      { conditions: { Ready: 'True', DiskPressure: 'True' } },
      { ...node, conditions: { Ready: 'True', DiskPressure: 'True' } },
      ['nodeHealth'],
    ],
    ['a failed machine whose node is healthy again', { phase: 'Failed' }, node, ['nodeHealth']],
    ['an unhealthy node that has recovered', { phase: 'Unknown' }, node, ['phase', 'nodeHealth']],
  ])('notices %s', (_, change, view, found) => {
    expect(attention({ ...machine, ...change }, view)).toEqual(found);
  });

  it('notices a Running machine that names no node', () => {
    const { nodeName: _, ...nameless } = machine;
    expect(attention(nameless, absent)).toEqual(['nodeMissing']);
  });

  it('[invariant 6] sees nothing in an unknown node that it would not see in a good one', () => {
    fc.assert(
      fc.property(anyMachine, (seen) => {
        const good = { ...node, conditions: seen.conditions };
        const found = attention(seen, unknown);
        expect(attention(seen, good)).toEqual(expect.arrayContaining(found));
        expect(found.filter((reason) => reason.startsWith('node'))).toEqual([]);
      }),
    );
  });

  it('finds the same for a machine that leaves, whatever its node does', () => {
    fc.assert(
      fc.property(anyMachine, anyNode, (seen, view) => {
        const found = attention({ ...seen, deletingSince: '2026-08-19T11:00:00Z' }, view);
        expect(found).toEqual(seen.managed ? ['deletion'] : []);
      }),
    );
  });

  it('finds something exactly when the workflow has something to write or to wait for', () => {
    fc.assert(
      fc.property(anyMachine, anyNode, (seen, view) => {
        fc.pre(seen.deletingSince === undefined);
        const waits = !resting.includes(seen.phase) || (view.state === 'present' && view.deleting);
        fc.pre(seen.nodeName !== undefined || view.state !== 'present');
        expect(attention(seen, view).length > 0).toBe(waits || written(seen, view) !== null);
      }),
      { numRuns: 2_000 },
    );
  });

  it('comes to rest, or to a phase that waits, after what the workflow writes; twice is enough', () => {
    fc.assert(
      fc.property(anyMachine, anyNode, (start, view) => {
        fc.pre(start.deletingSince === undefined && (start.nodeName !== undefined || view.state !== 'present'));
        let state = { machine: start, node: view };
        for (let writes = 0; writes < 2; writes++) state = written(state.machine, state.node) ?? state;
        expect(written(state.machine, state.node)).toBeNull();
        const left = attention(state.machine, state.node);
        expect(left.filter((reason) => reason !== 'phase' && reason !== 'nodeDeleting')).toEqual([]);
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('phaseByNode', () => {
  it('[invariant 6] changes nothing that nobody can see', () => {
    fc.assert(fc.property(anyMachine, (seen) => expect(phaseByNode(seen, unknown)).toBe(seen.phase)));
  });

  it('[mcm 31] [mcm 33] makes only Running Unknown, and Running what has a healthy node', () => {
    fc.assert(
      fc.property(anyMachine, fc.oneof(fc.constant(absent), anyPresent), (seen, view) => {
        fc.pre(!inPlace.includes(seen.phase));
        const healthy = view.state === 'present' && isHealthy(view, seen.limits.nodeConditions);
        const isNewcomer = seen.phase !== 'Running' && seen.phase !== 'Unknown';
        const mayRun = healthy && !(isNewcomer && view.startingUp);
        const unhealthy = seen.phase === 'Running' && !healthy ? 'Unknown' : seen.phase;
        expect(phaseByNode(seen, view)).toBe(mayRun ? 'Running' : unhealthy);
      }),
    );
  });

  it('leaves a machine alone that is being updated in place', () => {
    fc.assert(
      fc.property(anyMachine, fc.constantFrom(...inPlace), anyNode, (seen, phase, view) => {
        expect(phaseByNode({ ...seen, phase }, view)).toBe(phase);
      }),
    );
  });

  it('says the same when asked again', () => {
    fc.assert(
      fc.property(anyMachine, anyNode, (seen, view) => {
        const phase = phaseByNode(seen, view);
        expect(phaseByNode({ ...seen, phase }, view)).toBe(phase);
      }),
    );
  });
});

describe('isHealthy', () => {
  it.each([
    [{}, false],
    [{ DiskPressure: 'False' }, false],
    [{ Ready: 'False' }, false],
    [{ Ready: 'Unknown' }, false],
    [{ Ready: 'True' }, true],
    [{ Ready: 'True', DiskPressure: 'False' }, true],
    [{ Ready: 'True', DiskPressure: 'True' }, false],
    [{ Ready: 'True', DiskPressure: 'Unknown' }, false],
    [{ Ready: 'True', Other: 'True' }, true],
  ])('[mcm 31] judges %p as %p', (conditions, healthy) => {
    expect(isHealthy({ conditions }, watched)).toBe(healthy);
  });

  it('[mcm 32] looks only at the conditions that it is given', () => {
    expect(isHealthy({ conditions: { Ready: 'True', DiskPressure: 'True' } }, [])).toBe(true);
    expect(isHealthy({ conditions: { Ready: 'True', Other: 'True' } }, ['Other'])).toBe(false);
  });
});

describe('sameConditions', () => {
  it('holds for the same types with the same statuses, in any order', () => {
    fc.assert(
      fc.property(anyConditions, anyConditions, (a, b) => {
        const inOrder = (conditions: object) => JSON.stringify(Object.entries(conditions).toSorted());
        expect(sameConditions(a, b)).toBe(inOrder(a) === inOrder(b));
        expect(sameConditions(a, b)).toBe(sameConditions(b, a));
      }),
    );
  });
});
