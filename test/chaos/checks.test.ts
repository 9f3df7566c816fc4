import { describe, expect, it } from '@jest/globals';
import { names } from '../../api/names.ts';
import { checks, type Violation } from './checks.ts';
import type { AuditEntry, Evidence, EvidentVm } from './evidence.ts';
import type { NodeObservation, Observation } from './observer.ts';

const at = (seconds: number) => new Date(seconds * 1_000).toISOString();

/** A Machine `m` with UID `u` and a VM `vm-1`, for which nothing went wrong. */
const quiet: Evidence = {
  endedAt: at(100),
  vms: [vm('vm-1', 10)],
  calls: [creation('vm-1', 10)],
  resources: [{ id: 'vm-1', kind: 'vm', tags: { [names.machineUid]: 'u' } }],
  audit: [],
  approved: [],
  named: [],
  strangersBefore: { Node: '{}', VM: '[]' },
  strangersAfter: { Node: '{}', VM: '[]' },
  nodeObservations: [],
  observations: [machineAt(9)],
  bounds: [],
  owners: [],
  machines: [{ uid: 'u', name: 'm', providerID: 'simulated:///here/vm-1' }],
  tokens: [],
  untouchedBefore: [],
  disturbances: [],
  restores: [],
  endings: [],
  logs: {},
  texts: {},
  secrets: [],
  replays: [],
};

function vm(id: string, createdAt: number, deletedAt?: number): EvidentVm {
  const ends = { deletedAt: deletedAt === undefined ? null : deletedAt * 1_000, vanishesAt: null };
  return { id, name: 'm', token: `of-${id}`, tags: { [names.machineUid]: 'u' }, createdAt: at(createdAt), ...ends };
}

function machineAt(seconds: number, change: Partial<Observation> = {}): Observation {
  const named = { uid: 'u', name: 'm', providerID: 'simulated:///here/vm-1', state: 'present' as const };
  return {
    atMs: seconds * 1_000,
    createdMs: seconds * 1_000,
    ...named,
    set: undefined,
    isPreserved: false,
    isForced: false,
    isProtected: true,
    isProvisioning: false,
    ...change,
  };
}

function nodeAt(atMs: number, isReady: boolean, isThere = true): NodeObservation {
  return { atMs, name: 'm', isThere, isReady };
}

function creation(id: string, from: number, outcome: number | 'lost' | 'pending' = 201, seconds = 1) {
  const times = { at: at(from), endedAt: at(from + seconds) };
  return { ...times, operation: 'create' as const, vm: id, token: `of-${id}`, outcome, effect: true };
}

function deletion(id: string, from: number) {
  return { at: at(from), endedAt: at(from), operation: 'delete' as const, vm: id, outcome: 202, effect: true };
}

function request(change: Partial<AuditEntry>): AuditEntry {
  const asked = { verb: 'delete', resource: 'machines', name: 'm', userAgent: 'chaos', code: 200 };
  return { at: at(50), ...asked, ...change };
}

function violationsOf(change: Partial<Evidence>): string[] {
  const found: Violation[] = checks.flatMap((check) => check({ ...quiet, ...change }));
  return found.map(({ what, where }) => `${what}: ${where}`);
}

describe('a run is checked for', () => {
  it('nothing else', () => {
    expect(violationsOf({})).toEqual([]);
  });

  describe('two VMs of one Machine', () => {
    const vms = [vm('vm-1', 10, 40), vm('vm-2', 20)];
    const deleted = {
      calls: [creation('vm-1', 10), creation('vm-2', 20)],
      machines: [{ uid: 'u', name: 'm', providerID: 'simulated:///here/vm-2' }],
    };

    it('which live at once', () => {
      expect(violationsOf({ ...deleted, vms })).toEqual(['two VMs of one Machine: m: vm-1 and vm-2']);
    });

    it('but not where the second came after the first', () => {
      expect(violationsOf({ ...deleted, vms: [vm('vm-1', 10, 20), vm('vm-2', 20)] })).toEqual([]);
    });

    it('also where something else was broken in between', () => {
      const disturbances = [{ what: 'kill of worker-1', fromMs: 17_500, toMs: 19_000 }];

      expect(violationsOf({ ...deleted, vms, disturbances })).toHaveLength(1);
    });

    it.each([
      ['an answer was lost', { calls: [creation('vm-1', 10, 'lost'), creation('vm-2', 20)] }],
      ['a call has no answer', { calls: [creation('vm-1', 10, 'pending'), creation('vm-2', 20)] }],
      ['the client gave up', { calls: [creation('vm-1', 10, 201, 20), creation('vm-2', 20)] }],
      ['the cloud denied the first', { disturbances: [{ what: 'hiding of VMs', fromMs: 17_500, toMs: 19_000 }] }],
      ['the worker was killed', { disturbances: [{ what: 'kill of worker-1', fromMs: 10_500, toMs: 12_000 }] }],
    ])('but not where %s', (_, change) => {
      expect(violationsOf({ ...deleted, vms, ...change })).toEqual([]);
    });
  });

  it('what is left without a Machine', () => {
    const resources = [...quiet.resources, { id: 'disk-1', kind: 'disk' as const, tags: {} }];

    expect(violationsOf({ resources })).toEqual(['left without a Machine: disk-1']);
  });

  it('Machines without the VM that they name', () => {
    expect(violationsOf({ vms: [], resources: [] })).toEqual([
      'has not the one VM that it names: m names simulated:///here/vm-1, has ',
    ]);
  });

  describe('VMs that were deleted although their Machine names them', () => {
    const deleted = {
      vms: [vm('vm-1', 10, 60), vm('vm-2', 61)],
      calls: [creation('vm-1', 10), deletion('vm-1', 60), creation('vm-2', 61)],
      machines: [{ uid: 'u', name: 'm', providerID: 'simulated:///here/vm-2' }],
    };

    it('although a Node had their name before, as they have joined since', () => {
      const nodeObservations = [nodeAt(5_000, false), nodeAt(15_000, true)];

      expect(violationsOf({ ...deleted, nodeObservations })).toHaveLength(1);
    });

    it('although a Node had their name long ago', () => {
      const nodeObservations = [nodeAt(5_000, true), nodeAt(8_000, false, false)];

      expect(violationsOf({ ...deleted, nodeObservations })).toHaveLength(1);
    });

    it('and nobody has deleted the Machine', () => {
      const late = request({ at: at(61) });
      const refused = request({ code: 409 });
      const ofOther = request({ name: 'other' });

      expect(violationsOf({ ...deleted, audit: [late, refused, ofOther] })).toEqual([
        'a VM was deleted that its Machine names: m: vm-1',
      ]);
    });

    it.each([
      ['the Machine was deleted', { audit: [request({})] }],
      ['a Node had its name before', { nodeObservations: [nodeAt(5_000, false)] }],
      ['its Node was deleted', { audit: [request({ resource: 'nodes' })] }],
      [
        'the Machine named another',
        { observations: [{ ...quiet.observations[0]!, providerID: 'simulated:///here/vm-2' }] },
      ],
      ['the Machine was not there', { observations: [{ ...quiet.observations[0]!, state: 'gone' as const }] }],
    ])('but not where %s', (_, change) => {
      expect(violationsOf({ ...deleted, ...change })).toEqual([]);
    });
  });

  describe('VMs that were deleted although etcd has lost their Machines', () => {
    const [named] = quiet.observations;
    const lost = {
      ...{
        vms: [vm('vm-1', 10, 60)],
        calls: [creation('vm-1', 10), deletion('vm-1', 60)],
        resources: [],
        machines: [],
      },
      observations: [named!, { ...named!, atMs: 40_000, state: 'gone' as const }],
      nodeObservations: [nodeAt(15_000, true), nodeAt(40_000, false)],
    };

    it.each<[string, Partial<Evidence>]>([
      ['and nobody has approved that', {}],
      ['and another VM was approved', { approved: ['simulated:///here/avm-1', 'disk-1'] }],
      [
        'and the Machine that was deleted had their name long before',
        {
          ...{ vms: [vm('vm-1', 90, 160)], audit: [request({ at: at(50) })] },
          nodeObservations: [nodeAt(95_000, true)],
        },
      ],
      ['and the Machine was deleted afterwards', { audit: [request({ at: at(61) })] }],
    ])('%s', (_, change) => {
      expect(violationsOf({ ...lost, ...change })).toEqual(['a VM was deleted that nobody has approved: m: vm-1']);
    });

    it.each<[string, Partial<Evidence>]>([
      ['a person has approved that', { approved: ['simulated:///here/vm-1'] }],
      ['their Machine was deleted before', { audit: [request({ at: at(30) })] }],
      ['their Node was deleted before', { audit: [request({ at: at(30), resource: 'nodes' })] }],
      ['their Machine was seen to be deleted', { observations: [{ ...named!, state: 'being deleted' as const }] }],
      ['their Machine named another', { observations: [{ ...named!, providerID: 'simulated:///here/vm-2' }] }],
      ['they never had a Ready Node', { nodeObservations: [nodeAt(5_000, true)] }],
      ['the cloud took them away', { vms: [{ ...vm('vm-1', 10, 60), vanishesAt: 70_000 }] }],
    ])('but not where %s', (_, change) => {
      expect(violationsOf({ ...lost, ...change })).toEqual([]);
    });
  });

  describe('Machines that Millwright deleted', () => {
    /** Its Node was Ready for 40 s. */
    const deleted = {
      vms: [vm('vm-1', 10, 60), vm('vm-2', 61)],
      calls: [creation('vm-1', 10), deletion('vm-1', 60), creation('vm-2', 61)],
      machines: [{ uid: 'u', name: 'm', providerID: 'simulated:///here/vm-2' }],
      nodeObservations: [nodeAt(15_000, true)],
    };
    const byMillwright = request({ at: at(55), userAgent: 'millwright/worker' });
    const byPeople = (change: Partial<AuditEntry>) => request({ verb: 'patch', at: at(50), ...change });

    it.each<[string, Partial<Evidence>]>([
      ['', {}],
      ['although people have changed another deployment', { audit: [byPeople({ name: 'web' }), byMillwright] }],
      ['although people were refused a change', { audit: [byPeople({ code: 409 }), byMillwright] }],
      ['before people have changed it', { audit: [byMillwright, byPeople({ at: at(56) })] }],
      [
        'whose Node was not Ready long ago',
        {
          nodeObservations: [nodeAt(12_000, false), ...deleted.nodeObservations],
        },
      ],
    ])('without a cause %s', (_, change) => {
      expect(violationsOf({ ...deleted, audit: [byMillwright], ...change })).toEqual([
        'Millwright deleted a healthy Machine without a cause: m: vm-1',
      ]);
    });

    it('without a cause though people had changed their deployment before they were made', () => {
      const vms = [vm('vm-1', 90, 160), vm('vm-2', 161)];
      const calls = [creation('vm-1', 90), deletion('vm-1', 160), creation('vm-2', 161)];
      const nodeObservations = [nodeAt(95_000, true)];
      const audit = [byPeople({ at: at(50) }), { ...byMillwright, at: at(155) }];

      expect(violationsOf({ ...deleted, vms, calls, nodeObservations, audit })).toHaveLength(1);
      expect(
        violationsOf({ ...deleted, vms, calls, nodeObservations, audit: [byPeople({ at: at(70) }), ...audit] }),
      ).toEqual([]);
    });

    it.each<[string, Partial<Evidence>]>([
      ['its Node is not Ready', { nodeObservations: [...deleted.nodeObservations, nodeAt(50_000, false)] }],
      ['its Node was not Ready a moment before', { nodeObservations: [nodeAt(45_000, true)] }],
      ['it never had a Node', { nodeObservations: [] }],
      ['its VM is taken away', { vms: [{ ...deleted.vms[0]!, vanishesAt: 70_000 }, deleted.vms[1]!] }],
      ['people have changed its deployment', { audit: [byPeople({ resource: 'machinedeployments' }), byMillwright] }],
      ['people have changed its set', { audit: [byPeople({ resource: 'machinesets', name: 'm-1' }), byMillwright] }],
      ['its Node was deleted', { audit: [request({ resource: 'nodes' }), byMillwright] }],
      ['etcd was restored', { disturbances: [{ what: 'restore of etcd', fromMs: 20_000, toMs: 21_000 }] }],
    ])('but not where %s', (_, change) => {
      expect(violationsOf({ ...deleted, audit: [byMillwright], ...change })).toEqual([]);
    });
  });

  it('Machines that were replaced though nobody has touched them', () => {
    const before = { uid: 'before', name: 'still-1', providerID: 'simulated:///here/vm-0' };

    expect(violationsOf({ untouchedBefore: [...quiet.machines] })).toEqual([]);
    expect(violationsOf({ untouchedBefore: [before] })).toEqual([
      'a Machine was replaced that nobody has touched: still-1: gone',
    ]);
  });

  describe('Machines of a deployment that has too many then', () => {
    const [first, second, third] = ['a', 'b', 'c'].map((uid, i) => {
      return machineAt(20 + 20 * i, { uid, name: uid, set: 'set' });
    });
    const made = {
      observations: [machineAt(9), first!, second!, third!],
      owners: [{ atMs: 1_000, set: 'set', deployment: 'deployment' }],
      bounds: [{ atMs: 1_000, uid: 'deployment', most: 2, mostProvisioning: undefined }],
    };

    it.each<[string, Partial<Evidence>]>([
      ['', {}],
      ['although others are allowed more', { bounds: [...made.bounds, { ...made.bounds[0]!, uid: 'other', most: 3 }] }],
      [
        'although it may have more afterwards',
        { bounds: [...made.bounds, { ...made.bounds[0]!, atMs: 70_000, most: 3 }] },
      ],
      [
        'although it was allowed more long before',
        {
          bounds: [
            { ...made.bounds[0]!, most: 3 },
            { ...made.bounds[0]!, atMs: 20_000 },
          ],
        },
      ],
      [
        'although one is deleted afterwards',
        { observations: [...made.observations, { ...first!, atMs: 70_000, state: 'gone' }] },
      ],
    ])('%s', (_, change) => {
      expect(violationsOf({ ...made, ...change })).toEqual([
        'a Machine was made beyond replicas and maxSurge: c is number 3 of 2',
      ]);
    });

    it.each<[string, Partial<Evidence>]>([
      ['it may have that many', { bounds: [...made.bounds, { ...made.bounds[0]!, atMs: 55_000, most: 3 }] }],
      [
        'it was allowed that many a moment before',
        {
          bounds: [
            { ...made.bounds[0]!, most: 3 },
            { ...made.bounds[0]!, atMs: 50_000 },
          ],
        },
      ],
      [
        'one is being deleted',
        {
          observations: [...made.observations.slice(0, 3), { ...first!, atMs: 50_000, state: 'being deleted' }, third!],
        },
      ],
      ['one is of another deployment', { observations: [machineAt(9), { ...first!, set: 'other' }, second!, third!] }],
      ['one is preserved', { observations: [machineAt(9), { ...first!, isPreserved: true }, second!, third!] }],
      [
        'their set was released a moment before',
        { owners: [...made.owners, { atMs: 55_000, set: 'set', deployment: undefined }] },
      ],
      [
        'the set of one was adopted a moment before',
        {
          observations: [machineAt(9), { ...first!, set: 'adopted' }, second!, third!],
          owners: [
            ...made.owners,
            { atMs: 1_000, set: 'adopted', deployment: undefined },
            { atMs: 55_000, set: 'adopted', deployment: 'deployment' },
          ],
        },
      ],
      ['etcd was restored', { disturbances: [{ what: 'restore of etcd', fromMs: 50_000, toMs: 51_000 }] }],
    ])('but not where %s', (_, change) => {
      expect(violationsOf({ ...made, ...change })).toEqual([]);
    });
  });

  describe('Machines that are provisioning beyond the lowest limit of the namespace', () => {
    const joining = { providerID: undefined, isProvisioning: true };
    const first = machineAt(40, { ...joining, uid: 'a', name: 'a', set: 'set-a' });
    const second = machineAt(50, { ...joining, uid: 'b', name: 'b', set: 'set-b' });
    const limitOf = (uid: string, mostProvisioning: number | undefined, atMs = 1_000) => {
      return { atMs, uid, most: 9, mostProvisioning };
    };
    const made = {
      observations: [machineAt(9), first, second],
      owners: ['a', 'b'].map((name) => ({ atMs: 1_000, set: `set-${name}`, deployment: name })),
      bounds: [limitOf('a', 5), limitOf('b', 1)],
    };
    const violation = 'a Machine was made above a limit of the namespace: b is number 2 of 1';

    it.each<[string, Partial<Evidence>]>([
      ['', {}],
      ['where the other one sets the limit', { bounds: [limitOf('a', 1), limitOf('b', 5)] }],
      ['although the limit is higher afterwards', { bounds: [...made.bounds, limitOf('b', 5, 60_000)] }],
      [
        'although the limit was higher long before',
        { bounds: [...made.bounds.slice(0, 1), limitOf('b', 5), limitOf('b', 1, 10_000)] },
      ],
      [
        'although one runs afterwards',
        { observations: [...made.observations, { ...first, atMs: 51_000, isProvisioning: false }] },
      ],
    ])('%s', (_, change) => {
      expect(violationsOf({ ...made, ...change })).toEqual([violation]);
    });

    it.each<[string, Partial<Evidence>]>([
      ['the limit allows them', { bounds: [limitOf('a', 2), limitOf('b', 2)] }],
      ['the limit was higher a moment before', { bounds: [limitOf('a', 5), limitOf('b', 5), limitOf('b', 1, 30_000)] }],
      [
        'the limit is that of a deployment that takes part no longer',
        { bounds: [...made.bounds.slice(0, 1), limitOf('b', 5), limitOf('c', 1), limitOf('c', undefined, 5_000)] },
      ],
      ['the deployment takes no part', { bounds: [limitOf('a', 1), limitOf('b', undefined)] }],
      [
        'the deployment took no part a moment before',
        { bounds: [limitOf('a', 1), limitOf('b', undefined), limitOf('b', 1, 45_000)] },
      ],
      ['the other one takes no part', { bounds: [limitOf('a', undefined), limitOf('b', 1)] }],
      ['the other one runs', { observations: [first, { ...first, atMs: 45_000, isProvisioning: false }, second] }],
      ['etcd was restored', { disturbances: [{ what: 'restore of etcd', fromMs: 45_000, toMs: 46_000 }] }],
      ['the observer has heard of it late', { observations: [first, { ...second, createdMs: 44_000 }] }],
    ])('but not where %s', (_, change) => {
      expect(violationsOf({ ...made, observations: [machineAt(9), first, second], ...change })).toEqual([]);
    });
  });

  describe('bootstrap tokens that are left', () => {
    const token = { name: 'bootstrap-token-a', machineUid: 'u', createdAt: at(20) };
    const etcd = (seconds: number) => ({ what: 'restore of etcd', fromMs: seconds * 1_000, toMs: seconds * 1_000 });

    it.each<[string, Partial<Evidence>]>([
      ['of a Machine', { tokens: [token] }],
      ['of one that is gone', { tokens: [{ ...token, machineUid: 'gone' }] }],
      ['although etcd was restored', { tokens: [token], disturbances: [etcd(30)] }],
      [
        'which is younger than the restore of etcd',
        { tokens: [{ ...token, machineUid: 'gone' }], disturbances: [etcd(10)] },
      ],
    ])('%s', (_, change) => {
      expect(violationsOf(change)).toEqual([expect.stringContaining('a bootstrap token is left: bootstrap-token-a')]);
    });

    it.each([
      ['but not that of a Machine that was deleted by force while something was broken', 35, 0],
      ['of a Machine that was deleted by force while nothing was broken', 45, 1],
    ])('%s', (_, seconds, count) => {
      const forced = { uid: 'gone', isForced: true };
      const observations = [...quiet.observations, machineAt(30, forced), machineAt(40, { ...forced, state: 'gone' })];
      const disturbances = [{ what: 'kill', fromMs: seconds * 1_000, toMs: seconds * 1_000 }];
      const tokens = [{ ...token, machineUid: 'gone' }];
      expect(violationsOf({ tokens, observations, disturbances })).toHaveLength(count);
    });

    it('but not that of a Machine that a restore of etcd did not bring back', () => {
      const tokens = [{ ...token, machineUid: 'gone' }];
      expect(violationsOf({ tokens, disturbances: [etcd(30)] })).toEqual([]);
    });
  });

  describe('VMs that were asked for before the finalizer was stored', () => {
    const violation = 'a VM was asked for before the finalizer was stored: m: vm-1';
    const without = machineAt(8, { isProtected: false });
    const write = request({ verb: 'patch', userAgent: 'millwright-worker/1', at: at(9) });

    it.each<[string, Partial<Evidence>]>([
      ['', { observations: [without, machineAt(12)] }],
      ['although it was written before, as it was not kept', { observations: [without], audit: [write] }],
      ['as it was written afterwards', { observations: [without, machineAt(12)], audit: [{ ...write, at: at(11) }] }],
      ['as others have written before', { observations: [without, machineAt(12)], audit: [request({ at: at(9) })] }],
      [
        'as a Machine of the same name was written to before',
        { observations: [without, machineAt(12)], audit: [{ ...write, at: at(7) }] },
      ],
      [
        'as it was gone by then',
        { observations: [machineAt(7), machineAt(9, { isProtected: false })], audit: [write] },
      ],
    ])('%s', (_, change) => {
      expect(violationsOf(change)).toEqual([violation]);
    });

    it.each<[string, Partial<Evidence>]>([
      ['the observer has heard of it late', { observations: [without, machineAt(30)], audit: [write] }],
      ['the API server was killed before it logged the write', { observations: [without, machineAt(9)] }],
      [
        'etcd was restored',
        { observations: [without], disturbances: [{ what: 'restore of etcd', fromMs: 9_000, toMs: 9_500 }] },
      ],
    ])('but not where %s', (_, change) => {
      expect(violationsOf(change)).toEqual([]);
    });
  });

  describe('Machines that are left although the autoscaler has named them', () => {
    const owner = { atMs: 1_000, set: 'set', deployment: 'deployment' };
    const owned = { set: 'set' };
    const left = {
      named: [{ atMs: 50_000, uid: 'u', name: 'm', deployment: 'deployment' }],
      observations: [machineAt(9, owned), machineAt(60, owned)],
      owners: [owner],
      bounds: [{ atMs: 1_000, uid: 'deployment', most: 2, mostProvisioning: undefined }],
    };
    const byPeople = request({ verb: 'patch', at: at(55) });

    it.each<[string, Partial<Evidence>]>([
      ['', {}],
      ['although people have changed another one', { audit: [{ ...byPeople, name: 'other' }] }],
      ['although people have changed them before', { audit: [{ ...byPeople, at: at(45) }] }],
      [
        'although they were of another deployment before',
        {
          ...{
            owners: [
              { ...owner, deployment: 'other' },
              { ...owner, atMs: 40_000 },
            ],
          },
          bounds: [...left.bounds, { ...left.bounds[0]!, uid: 'other' }],
        },
      ],
      [
        'although etcd was restored before',
        { disturbances: [{ what: 'restore of etcd', fromMs: 9_000, toMs: 9_500 }] },
      ],
    ])('%s', (_, change) => {
      expect(violationsOf({ ...left, ...change })).toEqual(['a Machine is left that the autoscaler has named: m']);
    });

    it.each<[string, Partial<Evidence>]>([
      ['it was another of that name', { named: [{ ...left.named[0]!, uid: 'gone' }] }],
      ['people have changed them since', { audit: [byPeople] }],
      ['they were preserved', { observations: [machineAt(9, owned), machineAt(60, { ...owned, isPreserved: true })] }],
      ['they were released', { observations: [machineAt(9, owned), machineAt(60)] }],
      ['their set was released', { owners: [owner, { ...owner, atMs: 60_000, deployment: undefined }] }],
      ['etcd was restored', { disturbances: [{ what: 'restore of etcd', fromMs: 49_000, toMs: 51_000 }] }],
    ])('but not where %s', (_, change) => {
      expect(violationsOf({ ...left, ...change })).toEqual([]);
    });
  });

  it('what belongs to somebody else, and was changed or deleted', () => {
    expect(violationsOf({ strangersAfter: { Node: '{"finalizers":["ours"]}', VM: '[]' } })).toEqual([
      'the Node of somebody else was changed: {} became {"finalizers":["ours"]}',
    ]);
    expect(violationsOf({ strangersBefore: { VM: '["vm-9"]' } })).toEqual([
      'the VM of somebody else was changed: ["vm-9"] became []',
    ]);
  });

  it('Machines that somebody unknown has deleted', () => {
    const audit = ['chaos', 'millwright/worker', 'curl'].map((userAgent) => request({ userAgent }));

    expect(violationsOf({ audit })).toEqual(['a Machine was deleted by curl: m']);
  });

  it('processes that ended without a reason', () => {
    const ending = { process: 'worker-1', at: at(50), code: 1, signal: null, lastLines: '{"level":"info"}' };
    const killed = { ...ending, code: null, signal: 'SIGKILL' as const };
    const said = { ...ending, lastLines: '{"level":"fatal","msg":"ending because this process no longer leads"}' };

    expect(violationsOf({ endings: [killed, said] })).toEqual([]);
    expect(violationsOf({ endings: [ending] })).toEqual(['a process ended without a reason: worker-1, exit code 1']);
  });

  it.each([
    ['{"level":"fatal","msg":"ending because of an unexpected error"}', true],
    ['TypeError: no', true],
    ["thread 'main' panicked at", true],
    [
      "thread 'tokio-runtime-worker' panicked at local_activities.rs:\nreceive half not dropped: SendError { .. }",
      false,
    ],
    ['{"level":"info","msg":"uncaught"}', false],
    ['{"level":"in', false],
    ['Error: millwright worker has exited before it was ready:', false],
  ])('crashes: a log with %s', (line, isCrash) => {
    const found = violationsOf({ logs: { 'worker-1': `{"level":"info"}\n${line}` } });

    expect(found).toEqual(isCrash ? [`a process crashed: worker-1: ${line}`] : []);
  });

  it('secret values in objects, histories and logs', () => {
    const found = {
      secrets: ['s3cret'],
      texts: { Machines: 'a s3cret' },
      logs: { 'worker-1': '{"level":"info s3cret"}' },
    };

    expect(violationsOf(found)).toEqual(['a secret value is in: Machines', 'a secret value is in: worker-1']);
  });

  it('runs that are replayed differently, but after a restore only those that Temporal refuses to replay and that are open', () => {
    const run = { run: 'a', startedAt: at(10), difference: 'event 7', isRefused: true } as const;
    const replays = [
      run,
      { ...run, run: 'b', closedAt: at(90) },
      { ...run, run: 'c', startedAt: at(60), closedAt: at(90) },
      { run: 'd', startedAt: at(10), difference: 'event 7' },
      { run: 'e', startedAt: at(60), difference: 'event 7' },
    ];

    expect(violationsOf({ replays, restores: [50_000] })).toEqual([
      'a run is replayed differently: a: event 7',
      'a run is replayed differently: c: event 7',
      'a run is replayed differently: e: event 7',
    ]);
  });

  it('runs that are replayed differently, but not those that are over and were open when a worker mixed up tasks', () => {
    const run = { startedAt: at(10), difference: 'event 7', isRefused: true } as const;
    const replays = [
      { ...run, run: 'a', closedAt: at(40) },
      { ...run, run: 'b', closedAt: at(90) },
    ];
    const line = `{"level":"error","time":"${at(50)}","msg":"Trying to send a new WFT for a run which already has one!"}`;

    expect(violationsOf({ replays, logs: { 'worker-1': `{"level":"info"}\n${line}` } })).toEqual([
      'a run is replayed differently: a: event 7',
    ]);
  });
});
