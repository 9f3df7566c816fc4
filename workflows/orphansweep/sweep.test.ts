/** The sweep, with a cloud and Machines that the tests play. */

import { beforeEach, describe, expect, it } from '@jest/globals';
import { ApplicationFailure } from '@temporalio/activity';
import type { SweepActivities } from '../../activities/sweep.ts';
import type {
  AskedOrphan,
  PastSweeps,
  ResourceKey,
  SweepLimits,
  SweepNotice,
  SweptSource,
} from '../../api/model/sweep.ts';
import { providerTaskQueue, searchAttributes } from '../../api/names.ts';
import { inPortions, maxListBytes } from '../../api/payloads.ts';
import type { CloudResource, DeleteVmRequest, ListVmsRequest, ProviderActivities } from '../../api/provider.ts';
import { vmOf } from '../../api/provider-id.ts';
import { setUpWorkflows } from '../../test/support/workflows.ts';
import type { VirtualHandle } from '../../test/virtual-temporal/server.ts';
import { retryNowSignal } from '../messages.ts';
import { approveUpdate, notApprovedFailure, progressQuery, type SweepReport } from './messages.ts';

type Ownerless = Awaited<ReturnType<SweepActivities['findOwnerless']>>;

/** What there is, and what the tests look at. */
let sources: SweptSource[];
let cloud: CloudResource[];
let machines: Set<string>;
/** Of these Machines, the VM that each names; the others of its UID are surplus. */
let keepers: Map<string, string>;
let limits: SweepLimits;
let past: PastSweeps;
let deletedByUs: number;
let resourceVersion: string;
let onRead: (count: number) => void;
/** What a Machine changes of an answer that takes a VM by its provider ID. */
let adopt: (asked: readonly ResourceKey[], answer: Ownerless) => Ownerless;
/** What speaks for an orphan. */
let doubtsOf: (orphan: AskedOrphan) => readonly string[];
let onDelete: (request: DeleteVmRequest) => 'deleting' | 'gone';
let listVms: (request: ListVmsRequest) => unknown;
let reads: number;
let lists: string[];
let deletions: DeleteVmRequest[];
let released: string[][];
let notices: SweepNotice[];

let handle: VirtualHandle;

beforeEach(() => {
  [sources, cloud, machines, keepers] = [[swept('small')], [], new Set(), new Map()];
  [reads, lists, deletions, released, notices] = [0, [], [], [], []];
  const brake = { brakeCount: 3, brakeRate: 10, approvalSeconds: 60 };
  limits = { confirmAfterSeconds: 0.2, minimumAgeSeconds: 600, ...brake };
  [past, deletedByUs, resourceVersion] = [{ unanswered: [] }, 0, '100'];
  onRead = () => undefined;
  adopt = (_, answer) => answer;
  doubtsOf = () => [];
  onDelete = () => 'gone';
  listVms = () => ({ items: cloud });
});

const kubernetes: SweepActivities = {
  readSweepScope: async (_, after) => {
    const [first = [], ...more] = inPortions(sources.filter(({ object }) => object.name > (after ?? '')));
    const last = more.length > 0 ? first.at(-1) : undefined;
    return { sources: first, limits, past, ...(last && { next: last.object.name }) };
  },
  countDeletions: async () => deletedByUs,
  findOwnerless: async (_, asked) => {
    reads += 1;
    onRead(reads);
    const isOwned = ({ uid, name }: ResourceKey) => machines.has(uid ?? name);
    return adopt(asked, {
      ownerless: asked.flatMap((each, i) => (isOwned(each) ? [] : [i])),
      adopted: [],
      surplus: surplusIn(asked),
      machines: { count: machines.size, resourceVersion },
    });
  },
  findDoubts: async (_, asked) => asked.map((orphan) => [...doubtsOf(orphan)]),
  releaseSources: async (_, releasable) => {
    released.push(releasable.map(({ name }) => name));
    return releasable.map(({ name }) => name);
  },
  recordNotices: async (_, recorded) => {
    notices.push(...recorded);
  },
};
const provider: Pick<ProviderActivities, 'validateClass' | 'deleteVm'> & { listVms: typeof listVms } = {
  validateClass: async ({ providerSpec }) => {
    const { scope } = Object(providerSpec);
    if (scope === 'refused') throw ApplicationFailure.create({ type: 'Unimplemented', nonRetryable: true });
    return { problems: [], ...(scope && { listScope: scope }) };
  },
  listVms: async (request: ListVmsRequest) => {
    lists.push(request.origin?.name ?? '');
    return listVms(request);
  },
  deleteVm: async (request) => {
    deletions.push(request);
    const state = onDelete(request);
    const isDoomed = ({ uid, id }: CloudResource) =>
      request.only === undefined ? uid === request.machine.uid : id === request.only.id;
    if (state === 'gone') cloud = cloud.filter((each) => !isDoomed(each));
    return { state, nodeNames: [] };
  },
};

const workflows = setUpWorkflows((taskQueue) => ({
  [taskQueue]: kubernetes,
  [providerTaskQueue(taskQueue, 'fake')]: provider,
}));

function swept(name: string, scope = name, changes: Partial<SweptSource> = {}): SweptSource {
  const origin = { kind: 'MachineClass', namespace: 'n', name, generation: 1 };
  return { object: objectOf(name), provider: 'fake', origin, providerSpec: { scope }, credentials: [], ...changes };
}

function objectOf(name: string) {
  return { name, uid: `uid-of-${name}` };
}

function vm(id: string, changes: Partial<CloudResource> = {}): CloudResource {
  return { kind: 'vm', id, name: id, createdAt: '2026-01-01T00:00:00Z', tags: {}, ...changes };
}

function surplusIn(asked: readonly ResourceKey[]) {
  return asked.flatMap(({ kind, id, uid = '' }, place) => {
    const keeper = keepers.get(uid);
    const isSurplus = kind === 'vm' && keeper !== undefined && keeper !== id;
    return isSurplus ? [{ place, machine: `machine-${uid}`, keeper: vmOf(keeper) }] : [];
  });
}

async function start(dryRun = false): Promise<void> {
  const args = [{ dialect: 'gardener', namespace: 'n', dryRun }];
  const { taskQueue, temporal } = workflows;
  handle = await temporal.start('orphanSweep', { taskQueue, workflowId: workflows.newWorkflowId(), args });
}

async function sweep(dryRun = false): Promise<SweepReport> {
  await start(dryRun);
  return (await handle.result()) as SweepReport;
}

/** What the search attributes of the sweep say. */
const blockedOn = async () => (await handle.describe()).searchAttributes[searchAttributes.blockedOn]?.[0];
const refusal = (type: string) => ApplicationFailure.create({ type, message: 'no', nonRetryable: true });
const idsIn = (tally: { resources: readonly { id: string }[] } | undefined) => tally?.resources.map(({ id }) => id);

describe('orphanSweep', () => {
  it('[mcm 88 partly] deletes what has no Machine, by UID or by provider ID, and says what it kept and why', async () => {
    machines = new Set(['u1', 'named']);
    const now = new Date(workflows.now()).toISOString();
    cloud = [
      ...[
        vm('owned', { uid: 'u1' }),
        vm('named'),
        vm('orphan', { uid: 'u2' }),
        vm('disk', { kind: 'disk', uid: 'u2' }),
      ],
      ...[vm('untagged'), vm('young', { uid: 'u3', createdAt: now }), vm('whose', { kind: 'nic' })],
    ];

    const { groups, releasedSources, dryRun } = await sweep();

    expect(groups).toMatchObject([{ provider: 'fake', sources: ['small'], seen: 7, failed: [], failedCount: 0 }]);
    expect(groups[0]?.deleted.count).toBe(3);
    expect(groups[0]?.kept.map(({ reason, count }) => [reason, count])).toEqual([
      ['machine', 2],
      ['young', 1],
      ['unattributed', 1],
    ]);
    expect([releasedSources, dryRun, lists.length, released]).toEqual([[], false, 2, []]);
    const asked = deletions.map(({ machine, providerID, only }) => ({ machine, providerID, only }));
    expect(asked.toSorted((a, b) => (a.machine.name < b.machine.name ? -1 : 1))).toEqual([
      { machine: { uid: 'u2', namespace: 'n', name: 'orphan' }, providerID: 'orphan', only: undefined },
      {
        ...{ machine: { uid: 'none', namespace: 'n', name: 'untagged' }, providerID: undefined },
        only: { kind: 'vm', id: 'untagged' },
      },
    ]);
    expect(notices.map(({ reason }) => reason)).toEqual(['OrphanDeleted', 'OrphanDeleted']);
    expect(notices.some(({ note }) => note.includes('vm orphan') && note.includes('and 1 more of its UID'))).toBe(true);
  });

  it('deletes what carries a UID without a VM piece by piece, so that a VM which is not listed stays', async () => {
    const [ip, nic] = [vm('ip', { kind: 'ip', uid: 'u1' }), vm('nic', { kind: 'nic', uid: 'u1', name: '' })];
    cloud = [ip, nic];
    onDelete = ({ only }) => {
      if (only?.id === 'nic') throw refusal('FailedPrecondition');
      return 'gone';
    };

    const { groups } = await sweep();

    const machine = { uid: 'none', namespace: 'n', name: 'ip' };
    expect(deletions.map((each) => ({ machine: each.machine, only: each.only }))).toEqual([
      { machine, only: { kind: 'nic', id: 'nic', uid: 'u1' } },
      { machine, only: { kind: 'ip', id: 'ip', uid: 'u1' } },
    ]);
    expect([groups[0]?.failed, idsIn(groups[0]?.deleted)]).toMatchObject([[{ id: 'nic' }], ['ip']]);
    expect(notices.map(({ reason }) => reason)).toEqual(['OrphanNotDeleted', 'OrphanDeleted']);
    expect(cloud).toEqual([nic]);
  });

  it('[mcm 90 partly] [invariant 4 partly] deletes the surplus VM of a Machine alone, and none while the VM of the Machine is not listed as alive', async () => {
    machines = new Set(['u1', 'u2', 'u3', 'u4']);
    keepers = new Map([
      ['u1', 'c://a/first'],
      ['u2', 'c://a/not-listed'],
      ['u3', 'c://a/ending'],
      ['u4', 'c://a/unknown'],
    ]);
    const [first, second] = [vm('c://a/first', { uid: 'u1', alive: true }), vm('c://a/second', { uid: 'u1' })];
    cloud = [
      ...[first, second, vm('disk', { kind: 'disk', uid: 'u1' }), vm('c://a/lone', { uid: 'u2' })],
      ...[vm('c://a/ending', { uid: 'u3', alive: false }), vm('c://a/serves', { uid: 'u3', alive: true })],
      ...[vm('c://a/unknown', { uid: 'u4' }), vm('c://a/maybe', { uid: 'u4' })],
    ];

    const { groups } = await sweep();

    expect(deletions.map(({ machine, providerID, only }) => ({ uid: machine.uid, providerID, only }))).toEqual([
      { uid: 'none', providerID: undefined, only: { kind: 'vm', id: 'c://a/second', uid: 'u1' } },
    ]);
    const { name, uid } = second;
    const named = { kind: 'vm', id: 'c://a/second', uid, name, excessOf: 'machine-u1' };
    expect(groups[0]?.deleted).toEqual({ count: 1, resources: [named] });
    expect(
      groups[0]?.kept.map(({ reason, count, resources }) => [reason, count, resources.map(({ id }) => id)]),
    ).toEqual([
      ['machine', 4, []],
      ['keeperNotAlive', 3, ['c://a/lone', 'c://a/serves', 'c://a/maybe']],
    ]);
    expect(notices[0]?.note).toContain('which carries the UID of Machine machine-u1, which names another VM');
  });

  it('[mcm 90 partly] [invariant 4 partly] keeps a surplus VM whose Machine names another VM right before it would go', async () => {
    machines = new Set(['u1']);
    keepers = new Map([['u1', 'c://a/first']]);
    cloud = [vm('c://a/first', { uid: 'u1', alive: true }), vm('c://a/second', { uid: 'u1' })];
    onRead = (count) => {
      if (count === 3) keepers.set('u1', 'c://a/third');
    };

    const { groups } = await sweep();

    expect(deletions).toEqual([]);
    expect(groups[0]?.kept).toMatchObject([
      { reason: 'machine', count: 1 },
      { reason: 'cameBack', count: 1 },
    ]);
  });

  it('looks once when there is nothing to be suspicious of', async () => {
    cloud = [vm('owned', { uid: 'u1' })];
    machines = new Set(['u1']);

    const { groups } = await sweep();

    expect(groups).toMatchObject([{ seen: 1, kept: [{ reason: 'machine', count: 1 }] }]);
    expect([lists.length, reads, notices.length]).toEqual([1, 1, 0]);
    // 29, and more where the machine is so busy that a task is handed out again.
    expect((await handle.describe()).historyLength).toBeLessThan(40);
  });

  it('lists classes of one scope once, and those without one by themselves', async () => {
    sources = [swept('a', 'same'), swept('b', 'same'), swept('c', 'other'), swept('d', ''), swept('e', 'refused')];

    const { groups } = await sweep();

    expect(groups.map((group) => group.sources)).toEqual([['a', 'b'], ['c'], ['d'], ['e']]);
    expect(lists.toSorted()).toEqual(['a', 'c', 'd', 'e']);
  });

  it('takes page after page, and null for what is left out', async () => {
    const pages = [
      { items: [{ ...vm('a'), uid: null }], nextPage: '2' },
      { items: [vm('b')], nextPage: null },
    ];
    listVms = ({ page }) => pages[page === undefined ? 0 : 1];

    const { groups } = await sweep(true);

    expect(groups[0]?.kept).toMatchObject([{ reason: 'dryRun', resources: [{ id: 'a' }, { id: 'b' }] }]);
  });

  it('[mcm 88 partly] goes on with the other groups when one cannot be listed', async () => {
    sources = [
      swept('broken'),
      swept('good'),
      swept('odd'),
      swept('homeless', '', { provider: '' }),
      swept('foreign', 'foreign', { problem: 'secretRef.namespace is "other"' }),
      swept('endless'),
      swept('detached'),
    ];
    cloud = [vm('orphan')];
    const answers: Record<string, () => unknown> = {
      broken: () => {
        throw refusal('Unauthenticated');
      },
      odd: () => ({ items: [vm('orphan'), { id: 'what' }] }),
      detached: () => ({ items: [{ ...vm('orphan'), attachedTo: 7 }] }),
      endless: () => ({ items: [], nextPage: '1' }),
    };
    listVms = (request) => (answers[request.origin?.name ?? ''] ?? (() => ({ items: cloud })))();

    const { groups } = await sweep();

    expect(groups.map(({ sources: [name], error, deleted }) => [name, error?.code, deleted.count])).toEqual([
      ['broken', 'Unauthenticated', 0],
      ['detached', 'Internal', 0],
      ['endless', 'Internal', 0],
      ['foreign', 'InvalidArgument', 0],
      ['good', undefined, 1],
      ['homeless', 'InvalidArgument', 0],
      ['odd', 'Internal', 0],
    ]);
    expect(groups[1]?.error?.message).toContain('items.0.attachedTo');
    expect(groups[3]?.error?.message).toBe('secretRef.namespace is "other"');
    expect(groups[6]?.error?.message).toContain('items.1.kind');
    expect(deletions.map((request) => request.origin?.name ?? '')).toEqual(['good']);
  });

  it('[invariant 4 partly] keeps what has a Machine again, up to the moment before it would go', async () => {
    cloud = [vm('a', { uid: 'u1' }), vm('b', { uid: 'u2' }), vm('c', { uid: 'u3' })];
    onRead = (count) => {
      if (count === 2) machines.add('u1'); // when it is looked at again
      if (count === 3) machines.add('u2'); // right before the deletions
    };

    const { groups } = await sweep();

    expect(groups[0]?.kept).toMatchObject([{ reason: 'cameBack', count: 2 }]);
    expect(idsIn(groups[0]?.deleted)).toEqual(['c']);
    expect(deletions.map(({ machine }) => machine.uid)).toEqual(['u3']);
  });

  it('[invariant 4 partly] keeps a VM that a Machine names right before it would go, though what belongs to the VM has no Machine', async () => {
    cloud = [vm('a', { uid: 'u1' }), { ...vm('nic', { uid: 'u1' }), kind: 'nic' }];
    adopt = (asked, answer) =>
      reads < 3 ? answer : { ...answer, ownerless: answer.ownerless.filter((place) => asked[place]?.id !== 'a') };

    const { groups } = await sweep();

    expect(groups[0]?.kept).toMatchObject([{ reason: 'cameBack' }]);
    expect(deletions).toEqual([]);
  });

  it('says of which provider it waits for a worker', async () => {
    sources = [swept('small'), swept('big', 'big', { provider: 'nobody' }), swept('none', 'none', { provider: '' })];
    await start();
    await workflows.advanceUntil(async () => (await handle.query(progressQuery)).doing.includes('providers nobody'));
    expect((await handle.query(progressQuery)).doing).toBe(
      'asking the providers nobody about their classes; a call that no worker takes ends after a minute',
    );
    const { groups } = (await handle.result()) as SweepReport;

    expect(groups.map(({ provider, error }) => [provider, error?.code])).toContainEqual(['nobody', 'Unavailable']);
  });

  it('[invariant 4 partly] [invariant 6 partly] waits while it cannot read which Machines there are, and shows so', async () => {
    cloud = [vm('owned', { uid: 'u1' })];
    machines = new Set(['u1']);
    let isDown = true;
    onRead = () => {
      if (isDown) throw refusal('Unavailable');
    };

    await start();
    await workflows.advanceUntil(async () => (await blockedOn()) === 'KubernetesApi');
    await workflows.advanceUntil(async () => (await handle.query(progressQuery)).lastError?.code === 'Unavailable');
    expect(deletions).toEqual([]);
    isDown = false;
    await handle.signal(retryNowSignal);
    const { groups } = (await handle.result()) as SweepReport;

    expect(groups).toMatchObject([{ seen: 1, kept: [{ reason: 'machine', count: 1 }] }]);
    expect(deletions).toEqual([]);
    expect(await blockedOn()).toBeNull();
  });

  it('deletes nothing in a dry run', async () => {
    sources = [swept('small', 'small', { release: { generation: 1 } })];
    cloud = [vm('orphan', { uid: 'u1' })];

    const { groups, dryRun } = await sweep(true);

    expect(dryRun).toBe(true);
    expect(groups[0]?.kept).toMatchObject([{ reason: 'dryRun', count: 1, resources: [{ id: 'orphan', uid: 'u1' }] }]);
    expect([deletions, released]).toEqual([[], []]);
  });

  it('reports what could not be deleted, and asks again while the cloud is at it', async () => {
    cloud = [vm('kept', { uid: 'u1' }), vm('slow', { uid: 'u2' })];
    onDelete = ({ machine }) => {
      if (machine.uid === 'u1') throw refusal('PermissionDenied');
      return deletions.length > 2 ? 'gone' : 'deleting';
    };

    const { groups } = await sweep();

    expect(groups[0]).toMatchObject({ failedCount: 1, failed: [{ id: 'kept', uid: 'u1', code: 'PermissionDenied' }] });
    expect(idsIn(groups[0]?.deleted)).toEqual(['slow']);
    expect(notices.map(({ reason }) => reason).toSorted()).toEqual(['OrphanDeleted', 'OrphanNotDeleted']);
  });

  it('asks twelve times at most for a deletion that the cloud accepts and does not keep, and says that it is not done', async () => {
    cloud = [vm('stays', { uid: 'u1' })];
    onDelete = () => 'deleting';

    const { groups } = await sweep();

    expect(deletions).toHaveLength(12);
    expect(groups[0]?.kept).toMatchObject([{ reason: 'deleting', count: 1 }]);
    expect(notices).toMatchObject([
      { reason: 'OrphanDeleted', note: expect.stringMatching(/^the cloud is still deleting vm stays /) },
    ]);
  });

  it('[mcm 8 partly] releases only the deleted classes that have nothing left in their cloud, and says why the others stay', async () => {
    const leaving = { release: { generation: 1 } };
    sources = [
      ...[swept('clean', 'clean', leaving), swept('refused', 'broken', leaving), swept('dirty', 'dirty', leaving)],
      swept('lost', 'broken', { release: { generation: 1, hasLost: true } }),
      ...[swept('shared', 'kept', leaving), swept('stays', 'kept')],
    ];
    const young = vm('young', { uid: 'u', createdAt: new Date(workflows.now()).toISOString() });
    listVms = (request) => {
      if (['refused', 'lost'].includes(request.origin?.name ?? '')) throw refusal('Unauthenticated');
      return { items: request.origin?.name === 'clean' ? [] : [young] };
    };

    const { releasedSources } = await sweep();

    expect(releasedSources.toSorted()).toEqual(['clean', 'refused']);
    expect(notices.toSorted((a, b) => (a.object.name < b.object.name ? -1 : 1))).toEqual([
      {
        object: objectOf('dirty'),
        reason: 'SourceNotReleased',
        note: 'deleted, and stays: vm young is younger than the minimum age',
      },
      {
        object: objectOf('lost'),
        reason: 'SourceNotReleased',
        note: 'deleted, and stays: its cloud cannot be listed: Unauthenticated: no',
      },
      {
        object: objectOf('refused'),
        reason: 'SourceNotSwept',
        note: expect.stringMatching(
          /^released all the same: its cloud cannot be listed: Unauthenticated: no\. All Machines/,
        ),
      },
      {
        object: objectOf('shared'),
        reason: 'SourceNotReleased',
        note: 'deleted, and stays: vm young is younger than the minimum age',
      },
    ]);
  });
});

describe('the brake of a sweep', () => {
  const orphans = (count: number) =>
    Array.from({ length: count }, (_, i) => vm(`c://a/${i}`, { uid: `u${i}`, name: `name-${i}` }));
  const held = async () => (await handle.query(progressQuery)).held;
  const untilHeld = () => workflows.advanceUntil(async () => (await held()) !== undefined);
  const approve = (...named: string[]) => handle.executeUpdate(approveUpdate, { args: [named] });
  const blockedOnBrake = async () => (await blockedOn()) === 'Brake';

  it('[mcm 89 partly] [invariant 4 partly] holds more orphans than may go, until a person names some, and keeps the others', async () => {
    cloud = orphans(4);
    await start();
    await untilHeld();
    await workflows.advanceUntil(blockedOnBrake);
    expect(deletions).toEqual([]);
    expect(await held()).toMatchObject({ count: 4, reasons: [expect.stringContaining('there are 4 orphans')] });
    const metadata = JSON.stringify(await handle.query('__temporal_workflow_metadata'));
    expect(metadata).toContain('vm c://a/3 (name-3)');
    expect(metadata).toContain('`millwright stuck -n n');
    const note = expect.stringMatching(
      /^a sweep waits for approval to delete 4 orphans here: millwright stuck -n n.* has the command that approves them, with their ids; there are 4 orphans, but only 3 may be deleted/,
    );
    expect(notices).toEqual([{ object: objectOf('small'), reason: 'OrphansHeld', note }]);

    await expect(approve('c://a/0', 'unknown')).rejects.toMatchObject({
      cause: { message: expect.stringContaining("'unknown' does not wait for approval") },
    });
    expect(deletions).toEqual([]);
    expect(await approve('c://a/0', 'name-2')).toBe(2);
    const { groups, braked, unanswered } = (await handle.result()) as SweepReport;

    expect(idsIn(groups[0]?.deleted)?.toSorted()).toEqual(['c://a/0', 'c://a/2']);
    expect(groups[0]?.kept).toMatchObject([
      { reason: 'notApproved', resources: [{ id: 'c://a/1' }, { id: 'c://a/3' }] },
    ]);
    expect(deletions.map(({ machine }) => machine.uid).toSorted()).toEqual(['u0', 'u2']);
    expect([braked?.length, unanswered]).toEqual([
      1,
      [expect.stringMatching(/some orphans of the sweep of .* were not approved/)],
    ]);
    await workflows.advanceUntil(async () => !(await blockedOnBrake()));
  });

  it('[mcm 89 partly] [invariant 4 partly] fails when nobody approves in time, names what waits, and deletes nothing', async () => {
    limits = { ...limits, approvalSeconds: 0.5 };
    cloud = orphans(4);

    const error: unknown = await sweep().catch((reason: unknown) => reason);

    expect(error).toMatchObject({ cause: { type: notApprovedFailure } });
    const { message } = (error as { cause: Error }).cause;
    expect(message).toContain('vm c://a/3 (name-3)');
    expect(message).toMatch(/ waits for approval; then millwright stuck -n n.* has the command /);
    expect(deletions).toEqual([]);
    await workflows.advanceUntil(blockedOnBrake);
  });

  it('[invariant 4 partly] looks at the cloud and the Machines again before what was approved goes', async () => {
    cloud = orphans(5);
    await start();
    await untilHeld();
    machines.add('u1');
    cloud = cloud.filter(({ uid }) => uid !== 'u2');

    expect(await approve('c://a/0', 'c://a/1', 'c://a/2')).toBe(3);
    const { groups } = (await handle.result()) as SweepReport;

    expect(deletions.map(({ machine }) => machine.uid)).toEqual(['u0']);
    expect(groups[0]?.kept.map(({ reason, resources }) => [reason, resources.map(({ id }) => id)])).toEqual([
      ['cameBack', ['c://a/1']],
      ['gone', ['c://a/2']],
      ['notApproved', ['c://a/3', 'c://a/4']],
    ]);
  });

  it('[invariant 4 partly] leaves a doubt to the next sweep when the cloud cannot be listed again after approval', async () => {
    cloud = orphans(4);
    await start();
    await untilHeld();
    listVms = () => {
      throw refusal('Unauthenticated');
    };

    await approve(...cloud.map(({ id }) => id));
    const { groups, unanswered } = (await handle.result()) as SweepReport;

    expect([groups[0]?.error?.code, deletions]).toEqual(['Unauthenticated', []]);
    expect(unanswered).toEqual([expect.stringContaining('could be listed again after approval')]);
  });

  it('[invariant 4 partly] deletes nothing without approval that a VM has which is not listed, and then not the VM', async () => {
    const attachedTo = 'c://a/unlisted';
    cloud = [vm('disk', { kind: 'disk', uid: 'u1', attachedTo }), vm('nic', { kind: 'nic', uid: 'u1' })];

    await start();
    await untilHeld();
    expect([await held(), deletions]).toMatchObject([
      { count: 1, reasons: [`1 orphan may be healthy (disk: the VM ${attachedTo} has it)`] },
      [],
    ]);
    await approve('disk');
    await handle.result();

    expect(deletions.map(({ machine, only }) => [machine.uid, only?.id])).toEqual([
      ['none', 'nic'],
      ['none', 'disk'],
    ]);
  });

  it('counts surplus VMs, and disks by themselves, with the orphans of all groups', async () => {
    sources = [swept('a'), swept('b')];
    machines = new Set(['u1']);
    keepers = new Map([['u1', 'c://a/first']]);
    const [first, second] = [vm('c://a/first', { uid: 'u1', alive: true }), vm('c://a/second', { uid: 'u1' })];
    const disk = vm('disk', { kind: 'disk', uid: 'u3' });
    listVms = (request) => ({
      items: request.origin?.name === 'a' ? [first, second] : [vm('x', { uid: 'u2' }), disk, vm('y')],
    });

    await start();
    await untilHeld();

    const listed = (await held())?.orphans.map(({ named }) => named.map(({ id }) => id));
    expect(listed).toEqual([['c://a/second'], ['x'], ['disk'], ['y']]);
  });

  it('[mcm 89 partly] lets as many go as the rate allows, and none with the rate 0', async () => {
    machines = new Set(Array.from({ length: 36 }, (_, i) => `m${i}`));
    cloud = [...[...machines].map((uid) => vm(`own-${uid}`, { uid })), ...orphans(4)];
    const { groups, braked } = await sweep();
    expect([groups[0]?.deleted.count, braked]).toEqual([4, undefined]);

    limits = { ...limits, brakeRate: 0 };
    cloud = orphans(1);
    await start();
    await untilHeld();
    expect(await held()).toMatchObject({ count: 1, reasons: [expect.stringContaining('--orphan-brake-rate 0')] });
  });

  it('[mcm 89 partly] [invariant 4 partly] holds even one orphan where the Machines are older or fewer than a sweep has seen, until a person approves', async () => {
    cloud = orphans(1);
    machines = new Set(['m1', 'm2']);
    past = { machines: { at: '2026-01-01T00:00:00Z', count: 6, resourceVersion: '200' }, unanswered: ['before'] };
    await start();
    await untilHeld();

    expect((await held())?.reasons).toEqual([
      'before',
      expect.stringMatching(/resourceVersion 100, but a sweep read 200 at .*: the control cluster was restored/),
      expect.stringMatching(/there are 2 Machines, but a sweep read 6 at .*, and only 0 were deleted/),
    ]);
    expect(deletions).toEqual([]);
    await approve('c://a/0');
    const report = (await handle.result()) as SweepReport;
    expect(report).toMatchObject({ machines: { count: 2, resourceVersion: '100' }, unanswered: [] });
    expect(idsIn(report.groups[0]?.deleted)).toEqual(['c://a/0']);
  });

  it('[mcm 89 partly] hands what it doubts on to the next sweep, and doubts nothing for machines that were deleted', async () => {
    machines = new Set(['m1', 'm2']);
    cloud = [vm('own', { uid: 'm1' })];
    past = { machines: { at: '2026-01-01T00:00:00Z', count: 6, resourceVersion: '1' }, unanswered: [] };
    expect(await sweep()).toMatchObject({
      machines: { count: 2 },
      unanswered: [expect.stringContaining('2 Machines')],
    });

    deletedByUs = 1;
    cloud = [vm('own', { uid: 'm1' }), ...orphans(1)];
    const { groups, braked, unanswered } = await sweep();
    expect([groups[0]?.deleted.count, braked, unanswered]).toEqual([1, undefined, []]);
  });

  describe('that waits for a day', () => {
    const lookMs = 5 * 60_000;
    beforeEach(() => {
      limits = { ...limits, approvalSeconds: 86_400 };
    });

    it('[mcm 89 partly] [invariant 4 partly] ends by itself once all that waits has Machines again, deletes nothing, and hands its doubts on', async () => {
      past = { unanswered: ['before'] };
      cloud = orphans(45);
      await start();
      await untilHeld();

      machines = new Set(cloud.map(({ uid = '' }) => uid));
      await workflows.temporal.advance(lookMs);
      const { groups, braked, unanswered } = (await handle.result()) as SweepReport;

      expect(groups[0]?.kept).toMatchObject([{ reason: 'cameBack', count: 45 }]);
      expect([deletions, braked?.length, unanswered]).toEqual([[], 2, ['before']]);
      expect(notices.map(({ reason }) => reason)).toEqual(['OrphansHeld']);
      expect(await blockedOn()).toBeNull();
    });

    it('[mcm 89 partly] [invariant 4 partly] lists only what has no Machine yet, and deletes no more than what is approved of that', async () => {
      cloud = orphans(5);
      await start();
      await untilHeld();

      machines = new Set(['u0', 'u1', 'u2', 'u3']);
      await workflows.temporal.advance(lookMs);
      const { count, reasons, orphans: left } = (await held())!;
      expect([count, left]).toMatchObject([1, [{ named: [{ id: 'c://a/4' }] }]]);
      expect(reasons.at(-1)).toBe('4 of 5 orphans are none any more, and not deleted');
      expect(deletions).toEqual([]);
      await expect(approve('c://a/0')).rejects.toMatchObject({
        cause: { message: expect.stringContaining("'c://a/0' does not wait for approval") },
      });
      machines.delete('u3');
      expect(await approve('c://a/4')).toBe(1);
      const { groups } = (await handle.result()) as SweepReport;

      expect(deletions.map(({ machine }) => machine.uid)).toEqual(['u4']);
      expect(groups[0]?.kept).toMatchObject([
        { reason: 'cameBack', count: 3 },
        { reason: 'notApproved', resources: [{ id: 'c://a/3' }] },
      ]);
    });

    it('[invariant 4 partly] waits on where the API server does not answer, and then fails in time', async () => {
      cloud = orphans(4);
      await start();
      await untilHeld();

      machines = new Set(cloud.map(({ uid = '' }) => uid));
      onRead = () => {
        throw refusal('Unavailable');
      };
      await workflows.temporal.advance(limits.approvalSeconds * 1_000 - lookMs);
      expect([(await held())?.count, await blockedOn()]).toEqual([4, 'Brake']);
      await workflows.temporal.advance(lookMs);

      await expect(handle.result()).rejects.toMatchObject({ cause: { type: notApprovedFailure } });
    });

    it('asks for the Machines of 20 orphans every five minutes, of many in turn, and of all once some have one', async () => {
      cloud = orphans(50);
      await start();
      await untilHeld();
      const before = reads;

      await workflows.temporal.advance(6 * lookMs);
      expect(reads - before).toBe(6);
      machines = new Set(['u0']);
      await workflows.temporal.advance(3 * lookMs);
      expect((await held())?.count).toBe(49);
      await workflows.temporal.advance(limits.approvalSeconds * 1_000);

      await expect(handle.result()).rejects.toMatchObject({ cause: { type: notApprovedFailure } });
      expect((await handle.describe()).historyLength).toBeLessThan(5_000);
    });
  });

  it('[mcm 89 partly] says in a dry run why a sweep would wait for approval', async () => {
    cloud = orphans(4);

    const { groups, braked } = await sweep(true);

    expect(braked).toEqual([expect.stringContaining('there are 4 orphans')]);
    expect(groups[0]?.kept).toMatchObject([{ reason: 'dryRun', count: 4 }]);
  });
});

describe('an orphan that may be a healthy VM', () => {
  const [healthy, certain] = [vm('c://a/0', { uid: 'u0', name: 'a' }), vm('c://a/1', { uid: 'u1', name: 'b' })];
  const doubt = 'its Node a is Ready';
  const leaving = { release: { generation: 1 } };
  const lost = (day: number) => ({ lostAt: `2026-01-0${day}T00:00:00.000Z` });
  const held = async () => (await handle.query(progressQuery)).held;
  beforeEach(() => {
    cloud = [healthy, certain];
    doubtsOf = ({ uid }) => (uid === 'u0' ? [doubt] : []);
  });

  it('[mcm 89 partly] [invariant 4 partly] waits for a person, while the others go', async () => {
    await start();
    await workflows.advanceUntil(async () => (await held()) !== undefined);

    expect(deletions.map(({ machine }) => machine.uid)).toEqual(['u1']);
    const reason = `1 orphan may be healthy (a: ${doubt})`;
    expect(await held()).toMatchObject({ count: 1, reasons: [reason], orphans: [{ named: [{ doubts: [doubt] }] }] });
    expect(notices.at(-1)).toMatchObject({ reason: 'OrphansHeld', note: expect.stringContaining(reason) });
    expect(await blockedOn()).toBe('Brake');
    expect(await handle.executeUpdate(approveUpdate, { args: [['a'], 'alice@laptop'] })).toBe(1);
    const { groups, braked, unanswered, approvedBy } = (await handle.result()) as SweepReport;
    expect(approvedBy).toBe('alice@laptop');
    const approval = notices.find(({ reason }) => reason === 'OrphansApproved');
    expect(approval?.note).toBe('the deletion of 1 orphan was approved by alice@laptop');
    expect([idsIn(groups[0]?.deleted), groups[0]?.kept]).toEqual([['c://a/1', 'c://a/0'], []]);
    expect([braked, unanswered]).toEqual([[reason], []]);
  });

  it.each([
    ['is not being deleted', ['b'], [swept('a', 'same', leaving), swept('b', 'same'), swept('c', 'same')]],
    ['has lost a Machine last', ['b'], [swept('a', 'same', lost(1)), swept('b', 'same', lost(2)), swept('c', 'same')]],
    ['is the first by name', ['b'], [swept('c', 'same', leaving), swept('b', 'same', leaving)]],
    ['is not being deleted, in each group', ['b', 'c'], [swept('a', '1', leaving), swept('b', '1'), swept('c', '2')]],
  ])('has its Events on that class of several which %s', async (_, names, classes) => {
    sources = classes;
    await start();
    await workflows.advanceUntil(async () => (await held()) !== undefined);
    await handle.executeUpdate(approveUpdate, { args: [['a'], 'alice@laptop'] });
    await handle.result();

    const ofOrphans = notices.filter(({ reason }) => reason.startsWith('Orphan'));
    expect(new Set(ofOrphans.map(({ object, reason }) => `${object.name} ${reason}`))).toEqual(
      new Set(
        names.flatMap((name) => ['OrphansHeld', 'OrphansApproved', 'OrphanDeleted'].map((each) => `${name} ${each}`)),
      ),
    );
  });

  it('[invariant 4 partly] is kept when nobody approves, and holds no other orphan of the next sweep', async () => {
    limits = { ...limits, approvalSeconds: 0.5 };

    const error: unknown = await sweep().catch((thrown: unknown) => thrown);

    expect(error).toMatchObject({ cause: { type: notApprovedFailure, message: expect.stringContaining(doubt) } });
    expect(deletions.map(({ machine }) => machine.uid)).toEqual(['u1']);
    expect(await blockedOn()).toBeNull();
  });

  it('[mcm 89 partly] waits with all others where too many would go', async () => {
    limits = { ...limits, brakeCount: 1 };
    await start();
    await workflows.advanceUntil(async () => (await held()) !== undefined);

    const reasons = [expect.stringContaining('there are 2 orphans'), `1 orphan may be healthy (a: ${doubt})`];
    expect([await held(), deletions]).toMatchObject([{ count: 2, reasons }, []]);
  });

  it('is reported as such by a dry run', async () => {
    const { groups, braked } = await sweep(true);

    expect(groups[0]?.kept).toMatchObject([
      { reason: 'dryRun', resources: [{ id: 'c://a/1' }] },
      { reason: 'doubtful', resources: [{ id: 'c://a/0', doubts: [doubt] }] },
    ]);
    expect(braked).toEqual([`1 orphan may be healthy (a: ${doubt})`]);
  });

  it('[invariant 4 partly] is kept although it looks so only right before its deletion', async () => {
    let asked = 0;
    doubtsOf = ({ uid }) => {
      if (uid === 'u0') asked += 1;
      return asked > 1 && uid === 'u0' ? [doubt] : [];
    };

    const { groups, braked } = await sweep();

    expect(deletions.map(({ machine }) => machine.uid)).toEqual(['u1']);
    expect(groups[0]?.kept).toMatchObject([{ reason: 'doubtful', resources: [{ id: 'c://a/0', doubts: [doubt] }] }]);
    expect(braked).toBeUndefined();
  });

  it('is asked about by its VMs and the age of the youngest, and as surplus where its Machine names another', async () => {
    const hourMs = 3_600_000;
    const aged = (ms: number) => new Date(workflows.now() - ms).toISOString();
    const second = vm('c://a/2', { uid: 'u0', createdAt: aged(hourMs) });
    const asked: AskedOrphan[] = [];
    doubtsOf = (orphan) => {
      asked.push(orphan);
      return [doubt];
    };
    machines = new Set(['u2']);
    keepers = new Map([['u2', 'c://a/keeper']]);
    cloud = [
      ...[healthy, second, vm('c://a/x', { createdAt: aged(2 * hourMs) })],
      ...[
        vm('disk', { kind: 'disk', uid: 'u0', createdAt: aged(hourMs / 2) }),
        vm('alone', { kind: 'disk', uid: 'u3' }),
      ],
      vm('c://a/keeper', { uid: 'u2', alive: true }),
      vm('c://a/second', { uid: 'u2', createdAt: aged(3 * hourMs) }),
    ];
    limits = { ...limits, brakeCount: 9 };

    await sweep(true);

    expect(asked.map(({ ageMs, ...orphan }) => ({ ...orphan, hours: Math.floor(ageMs / hourMs) }))).toEqual([
      { uid: 'u0', hours: 1, vms: [healthy, second].map(({ id, name }) => ({ id, name })) },
      { hours: 2, vms: [{ id: 'c://a/x', name: 'c://a/x' }] },
      { uid: 'u2', hours: 3, vms: [{ id: 'c://a/second', name: 'c://a/second' }], isSurplus: true },
    ]);
  });
});

describe('a large installation', () => {
  /** As long as an id of Azure, with its name. */
  const longId = (name: string) =>
    `azure:///subscriptions/${'0'.repeat(36)}/resourceGroups/shoot--${'p'.repeat(40)}/providers/Microsoft.Compute/virtualMachines/${name}`;
  const vmsOf = (group: number, count: number) =>
    Array.from({ length: count }, (_, i) => {
      const name = `shoot--project--workers-${group}-${'x'.repeat(20)}-${i}`;
      return vm(longId(name), {
        name,
        uid: `00000000-0000-4000-8000-${String(group * 100_000 + i).padStart(12, '0')}`,
      });
    });

  it('with 20,000 VMs, each with a NIC and a disk, in 20 groups, two of which have orphans, is swept within the limits of Temporal', async () => {
    const groups = new Map(Array.from({ length: 20 }, (_, i) => [`group-${i}`, vmsOf(i, 1_000)]));
    sources = [...groups.keys()].map((name) => swept(name));
    machines = new Set([...groups.values()].flatMap((vms) => vms.slice(1).map(({ uid = '' }) => uid)));
    for (const [i, vms] of [...groups.values()].entries()) if (i > 1) machines.add(vms[0]?.uid ?? '');
    listVms = ({ origin, page = '0' }) => {
      const vms = groups.get(origin?.name ?? '') ?? [];
      const next = Number(page) + 200;
      const items = vms
        .slice(Number(page), next)
        .flatMap((each) => [
          each,
          { ...each, kind: 'nic', id: `${each.id}-nic`, attachedTo: each.id },
          { ...each, kind: 'disk', id: `${each.id}-disk`, attachedTo: each.id },
        ]);
      return { items, ...(next < vms.length && { nextPage: String(next) }) };
    };
    onDelete = ({ machine }) => {
      machines.add(machine.uid);
      return 'gone';
    };

    const report = await sweep();

    expect(report.groups.reduce((sum, { seen }) => sum + seen, 0)).toBe(60_000);
    expect(report.groups.map(({ deleted }) => deleted.count).filter((count) => count > 0)).toEqual([3, 3]);
  });

  it('with 1,000 classes of 3 KB, each with a cloud of its own that refuses, is swept and reported', async () => {
    sources = Array.from({ length: 1_000 }, (_, i) =>
      swept(`class-${String(i).padStart(4, '0')}-${'n'.repeat(200)}`, `scope-${i}`, {
        providerSpec: { scope: `scope-${i}`, text: 'x'.repeat(3_000) },
        release: { generation: 1 },
      }),
    );
    listVms = () => {
      throw ApplicationFailure.create({ type: 'PermissionDenied', message: 'é'.repeat(1_900), nonRetryable: true });
    };

    const report = await sweep();

    expect(report.groups).toHaveLength(1_000);
    expect(report.groups.every(({ error }) => error?.code === 'PermissionDenied')).toBe(true);
    expect(report.releasedSources).toHaveLength(1_000);
    expect(notices).toHaveLength(1_000);
  });

  it('lists as many orphans at the brake as an answer can have', async () => {
    cloud = vmsOf(0, 600).map((each) => ({ ...each, name: each.name.repeat(40) }));
    doubtsOf = () => ['its Node '.concat('n'.repeat(250), ' is Ready')];
    await start();
    await workflows.advanceUntil(async () => (await handle.query(progressQuery)).held !== undefined);

    const { count, orphans = [] } = (await handle.query(progressQuery)).held ?? {};
    expect(count).toBe(600);
    expect(orphans.length).toBeGreaterThan(100);
    expect(orphans.length).toBeLessThan(500);
    expect(JSON.stringify(orphans).length).toBeLessThan(maxListBytes);
    await handle.terminate();
  });
});
