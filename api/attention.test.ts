import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  type Attention,
  attention,
  isHealthy,
  type OwnerNeed,
  ownerNeeds,
  phaseByNode,
  rolloutComplete,
  sameConditions,
} from './attention.ts';
import type { MachinePhase, MachineSnapshot } from './model/machine.ts';
import type { NodeSnapshot, NodeView } from './model/node.ts';
import type { OwnerView, SetView } from './model/owner.ts';

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
  it('is nothing for a machine at rest, [invariant 11 partly] so a restart costs it nothing', () => {
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
  it('[invariant 6 partly] changes nothing that nobody can see', () => {
    fc.assert(fc.property(anyMachine, (seen) => expect(phaseByNode(seen, unknown)).toBe(seen.phase)));
  });

  it('[mcm 31 partly] [mcm 33 partly] makes only Running Unknown, and Running what has a healthy node', () => {
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

describe('deploymentNeeds', () => {
  const set: SetView = {
    name: 'pool-a-1',
    uid: 'set-1',
    resourceVersion: '3',
    generation: 1,
    annotated: true,
    closed: false,
    current: true,
    managed: true,
    deleting: false,
    observed: true,
    replicas: 3,
    total: 3,
    active: 3,
    available: 3,
    starting: 0,
    failed: 0,
    replacing: 0,
  };
  const owner: OwnerView = {
    kind: 'MachineDeployment',
    uid: 'owner-1',
    resourceVersion: '2',
    generation: 4,
    paused: false,
    managed: true,
    deleting: false,
    observed: true,
    replicas: 3,
    strategy: 'RollingUpdate',
    maxSurge: 1,
    maxUnavailable: 0,
    progress: rolloutComplete,
    template: { setName: 'pool-a-1', hash: '1' },
    sets: [set],
  };
  const older = {
    ...set,
    name: 'pool-a-0',
    uid: 'set-0',
    current: false,
    replicas: 0,
    total: 0,
    active: 0,
    available: 0,
  };

  it.each<[string, OwnerView]>([
    ['a deployment whose machines all run', owner],
    ['one with an empty set of an older template', { ...owner, sets: [older, set] }],
    ['one without replicas', { ...owner, replicas: 0, sets: [{ ...set, replicas: 0, total: 0, active: 0 }] }],
    ['machines that run but for one that is Unknown', { ...owner, sets: [{ ...set, available: 2 }] }],
    ['a machine more that is on its way out', { ...owner, sets: [{ ...set, total: 4 }] }],
    ['an owner that is deleted and was released', { ...owner, deleting: true, managed: false, sets: [] }],
    [
      'a paused one whose template has no set',
      { ...owner, paused: true, progress: 'DeploymentPaused', sets: [{ ...set, current: false }] },
    ],
    [
      'a paused one in the middle of a rollout, surge and all',
      {
        ...owner,
        paused: true,
        progress: 'DeploymentPaused',
        replicas: 5,
        sets: [
          { ...set, current: false },
          { ...set, name: 'pool-a-2' },
        ],
      },
    ],
    ['a paused one that was late before', { ...owner, paused: true, progress: 'ProgressDeadlineExceeded' }],
    [
      'one that is not valid, and says so',
      { ...owner, problem: 'spec.selector is missing', managed: false, sets: [{ ...set, failed: 1 }] },
    ],
    ['a set that only others hold back', { ...owner, sets: [{ ...older, deleting: true, managed: false }, set] }],
  ])('are none for %s', (_, view) => {
    expect(ownerNeeds(view)).toEqual([]);
  });

  const { progress: _, ...unreported } = owner;
  it.each<[string, OwnerView, OwnerNeed[]]>([
    ['an owner without our finalizer', { ...owner, managed: false }, ['finalizer']],
    ['a set without it', { ...owner, sets: [{ ...set, managed: false }] }, ['finalizer']],
    ['no set of the template', { ...owner, replicas: 0, sets: [older] }, ['template']],
    ['more replicas', { ...owner, replicas: 4 }, ['replicas']],
    ['fewer replicas', { ...owner, replicas: 2 }, ['replicas']],
    ['a machine too few', { ...owner, sets: [{ ...set, active: 2, available: 2 }] }, ['replicas']],
    ['a machine too many', { ...owner, sets: [{ ...set, total: 4, active: 4 }] }, ['replicas']],
    ['a failed machine', { ...owner, sets: [{ ...set, available: 2, failed: 1 }] }, ['failed']],
    ['a new generation', { ...owner, observed: false }, ['observed']],
    ['what is wrong with it and not told', { ...owner, problem: 'x', observed: false, sets: [] }, ['observed']],
    ['a set that is not told what is asked for', { ...owner, sets: [{ ...set, annotated: false }] }, ['observed']],
    ['a new generation of a set', { ...owner, sets: [{ ...set, observed: false }] }, ['observed']],
    ['a rollout under way', { ...owner, progress: 'FoundNewMachineSet' }, ['progress']],
    [
      'machines of an older template, whatever was reported',
      {
        ...owner,
        replicas: 6,
        sets: [
          { ...set, current: false },
          { ...set, name: 'pool-a-2' },
        ],
      },
      ['replicas', 'progress'],
    ],
    ['a pause that nobody reported', { ...owner, paused: true }, ['progress']],
    ['the end of a pause', { ...owner, progress: 'DeploymentPaused' }, ['progress']],
    ['a rollout nobody reported', unreported, ['progress']],
    ['a deletion', { ...owner, deleting: true }, ['deletion']],
    ['a deletion that left a set', { ...owner, deleting: true, managed: false }, ['deletion']],
    ['a set that somebody deleted', { ...owner, sets: [{ ...older, deleting: true }, set] }, ['deletion']],
    [
      'a deleted set of the template: its machines are not counted on',
      { ...owner, sets: [{ ...set, deleting: true }] },
      ['deletion', 'template'],
    ],
  ])('name %s', (_name, view, needs) => {
    expect(ownerNeeds(view)).toEqual(needs);
  });

  it('ask nothing about the progress of a set without a deployment', () => {
    expect(ownerNeeds({ ...unreported, kind: 'MachineSet' })).toEqual([]);
  });
});
