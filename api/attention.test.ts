import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type Attention, attention, isHealthy, sameConditions, stageByNode } from './attention.ts';
import type { MachineSnapshot, MachineStage } from './model/machine.ts';
import type { NodeSnapshot, NodeView } from './model/node.ts';

const watched = ['KernelDeadlock', 'DiskPressure'];
const machine: MachineSnapshot = {
  uid: 'uid-1',
  resourceVersion: '7',
  createdAt: '2026-08-19T10:00:00Z',
  managed: true,
  finalizers: ['machine.sapcloud.io/machine-controller-manager'],
  hasPriority: true,
  stage: 'running',
  phase: 'Running',
  source: 'small',
  onNodeDeleted: 'deleteMachine',
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

const stages: MachineStage[] = [
  'new',
  'creating',
  'joining',
  'available',
  'running',
  'unhealthy',
  'failed',
  'deleting',
  'updating',
];
const resting: MachineStage[] = ['running', 'available', 'failed', 'updating'];

const anyStage = fc.constantFrom(...stages);
const anyConditions = fc.dictionary(
  fc.constantFrom('Ready', 'DiskPressure', 'KernelDeadlock', 'Other'),
  fc.constantFrom('True', 'False', 'Unknown'),
);
const anyMachine: fc.Arbitrary<MachineSnapshot> = fc
  .record({
    stage: anyStage,
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
  .record({
    deleting: fc.boolean(),
    managed: fc.boolean(),
    startingUp: fc.boolean(),
    interrupted: fc.boolean(),
    outdated: fc.boolean(),
    conditions: anyConditions,
  })
  .map(({ interrupted, outdated, ...part }) => ({
    ...node,
    ...part,
    ...(interrupted && { interruption: 'the taint a' }),
    ...(outdated && { outdated: true as const }),
  }));
const anyNode: fc.Arbitrary<NodeView> = fc.oneof(fc.constant(absent), fc.constant(unknown), anyPresent);

function isInterrupted(view: NodeView): boolean {
  return view.state === 'present' && view.interruption !== undefined;
}

/**
 * What the workflow of a machine past its creation writes when it is woken: the finalizer, then what its Node says.
 * Null when it has nothing to write: then it waits, forever if nothing happens.
 */
function written(seen: MachineSnapshot, view: NodeView): { machine: MachineSnapshot; node: NodeView } | null {
  if (!seen.managed) return { machine: { ...seen, managed: true }, node: view };
  const stage = stageByNode(seen, view);
  const inStep =
    view.state !== 'present' || (view.managed && !view.outdated && sameConditions(view.conditions, seen.conditions));
  if (stage === seen.stage && inStep) return null;
  if (view.state !== 'present') return { machine: { ...seen, stage }, node: view };
  const { outdated: _, ...node } = view;
  return { machine: { ...seen, stage, conditions: view.conditions }, node: { ...node, managed: true } };
}

describe('attention', () => {
  it('is nothing for a machine at rest, [invariant 11 partly] so a restart costs it nothing', () => {
    expect(attention(machine, node)).toEqual([]);
  });

  it.each<[string, Partial<MachineSnapshot>, NodeView, Attention[]]>([
    ['a machine without our finalizer', { managed: false }, node, ['finalizer']],
    ['a deletion', { deletingSince: '2026-08-19T11:00:00Z' }, node, ['deletion']],
    ['a new machine', { stage: 'new' }, absent, ['stage']],
    ['a machine whose creation was refused', { stage: 'creating' }, absent, ['stage']],
    ['a machine whose node has not joined', { stage: 'joining' }, absent, ['stage']],
    ['a vanished node', {}, absent, ['nodeMissing']],
    ['a vanished node of a machine that is updated in place', { stage: 'updating' }, absent, ['nodeMissing']],
    ['a deleted node', {}, { ...node, deleting: true }, ['nodeDeleting']],
    ['a node that lost our finalizer or back reference', {}, { ...node, managed: false }, ['nodeUnmanaged']],
    ['a node that lacks something of the template', {}, { ...node, outdated: true }, ['nodeOutdated']],
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
    ['a node whose VM is about to be taken away', {}, { ...node, interruption: 'a taint' }, ['nodeHealth']],
    ['a failed machine whose node is healthy again', { stage: 'failed' }, node, ['nodeHealth']],
    ['an unhealthy node that has recovered', { stage: 'unhealthy' }, node, ['stage', 'nodeHealth']],
  ])('notices %s', (_, change, view, found) => {
    expect(attention({ ...machine, ...change }, view)).toEqual(found);
  });

  it('notices a machine whose VM is being replaced, and not one that merely has no provider ID', () => {
    const { providerID: replacedVm, ...nameless } = { ...machine, onNodeDeleted: 'replaceVm' as const };
    const between = { ...nameless, replacedVm: replacedVm ?? '' };

    expect(attention(between, absent)).toEqual(['vmMissing', 'nodeMissing']);
    expect(attention({ ...between, stage: 'available' }, absent)).toEqual(['vmMissing']);
    expect(attention(nameless, node)).toEqual([]);
  });

  it('notices a Running machine that names no node', () => {
    const { nodeName: _, ...nameless } = machine;
    expect(attention(nameless, absent)).toEqual(['nodeMissing']);
  });

  it('[invariant 6 partly] sees nothing in an unknown node that it would not see in a good one', () => {
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
        const waits = !resting.includes(seen.stage) || (view.state === 'present' && view.deleting);
        fc.pre(seen.nodeName !== undefined || view.state !== 'present');
        expect(attention(seen, view).length > 0).toBe(waits || written(seen, view) !== null);
      }),
      { numRuns: 2_000 },
    );
  });

  it('comes to rest, or to a stage that waits, after what the workflow writes; twice is enough', () => {
    fc.assert(
      fc.property(anyMachine, anyNode, (start, view) => {
        fc.pre(start.deletingSince === undefined && (start.nodeName !== undefined || view.state !== 'present'));
        let state = { machine: start, node: view };
        for (let writes = 0; writes < 2; writes++) state = written(state.machine, state.node) ?? state;
        expect(written(state.machine, state.node)).toBeNull();
        const left = attention(state.machine, state.node);
        expect(left.filter((reason) => reason !== 'stage' && reason !== 'nodeDeleting')).toEqual([]);
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('stageByNode', () => {
  it('[invariant 6 partly] changes nothing while the Node is unknown', () => {
    fc.assert(fc.property(anyMachine, (seen) => expect(stageByNode(seen, unknown)).toBe(seen.stage)));
  });

  it('[mcm 31 partly] [mcm 33 partly] makes only a running machine unhealthy, and any with a healthy node running', () => {
    fc.assert(
      fc.property(anyMachine, fc.oneof(fc.constant(absent), anyPresent), (seen, view) => {
        const isKept = seen.stage === 'deleting' && seen.deletingSince === undefined;
        fc.pre(seen.stage !== 'updating' && !isKept && !isInterrupted(view));
        const healthy = view.state === 'present' && isHealthy(view, seen.limits.nodeConditions);
        const isNewcomer = seen.stage !== 'running' && seen.stage !== 'unhealthy';
        const mayRun = healthy && !(isNewcomer && view.startingUp);
        const unhealthy = seen.stage === 'running' && !healthy ? 'unhealthy' : seen.stage;
        expect(stageByNode(seen, view)).toBe(mayRun ? 'running' : unhealthy);
      }),
    );
  });

  it.each<[MachineStage, MachineStage]>([
    ['new', 'failed'],
    ['creating', 'failed'],
    ['joining', 'failed'],
    ['available', 'failed'],
    ['running', 'failed'],
    ['unhealthy', 'failed'],
    ['failed', 'failed'],
    ['deleting', 'deleting'],
    ['updating', 'updating'],
  ])('makes of a machine in stage %s whose VM is about to be taken away one in stage %s', (stage, then) => {
    fc.assert(
      fc.property(anyMachine, anyPresent, (seen, view) => {
        fc.pre(stage !== 'deleting' || seen.deletingSince !== undefined);
        expect(stageByNode({ ...seen, stage }, { ...view, interruption: 'the taint a' })).toBe(then);
      }),
    );
  });

  it('leaves a machine alone that is being updated in place, until its update is over and its Node is gone', () => {
    const updateDueBy = '2026-08-19T10:20:00Z';
    fc.assert(
      fc.property(anyMachine, anyNode, (seen, view) => {
        expect(stageByNode({ ...seen, stage: 'updating', updateDueBy }, view)).toBe('updating');
        const isGone = view.state === 'absent';
        expect(stageByNode({ ...seen, stage: 'updating' }, view)).toBe(isGone ? 'unhealthy' : 'updating');
      }),
    );
  });

  it.each<[string, NodeView, MachineStage]>([
    ['without its Node', absent, 'unhealthy'],
    ['with an unhealthy Node', { ...node, conditions: { Ready: 'False' } }, 'unhealthy'],
    ['with a healthy Node', node, 'running'],
    ['whose VM is about to be taken away', { ...node, interruption: 'the taint a' }, 'failed'],
    ['whose Node is unknown', unknown, 'deleting'],
  ])('ends the stage of a deletion that a restored backup does not know, %s', (_, view, then) => {
    expect(stageByNode({ ...machine, stage: 'deleting' }, view)).toBe(then);
    const deletingSince = '2026-08-19T11:00:00Z';
    expect(stageByNode({ ...machine, stage: 'deleting', deletingSince }, view)).toBe(
      view === node ? 'running' : 'deleting',
    );
  });

  it('says the same when asked again', () => {
    fc.assert(
      fc.property(anyMachine, anyNode, (seen, view) => {
        const stage = stageByNode(seen, view);
        expect(stageByNode({ ...seen, stage }, view)).toBe(stage);
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
  ])('[mcm 31 partly] judges %p as %p', (conditions, healthy) => {
    expect(isHealthy({ conditions }, watched)).toBe(healthy);
  });

  it('[mcm 32 partly] looks only at the conditions that it is given', () => {
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
