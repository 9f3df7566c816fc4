import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { ListedResource } from '../../api/model/sweep.ts';
import { type GroupLooks, judge, keyOf, type Look, planSweep, resourcesOf } from './plan.ts';

const minimumAgeMs = 600_000;
const startMs = Date.parse('2026-01-01T12:00:00Z');
const old = '2026-01-01T00:00:00Z';

function vm(id: string, fields: Partial<ListedResource> = {}): ListedResource {
  return { kind: 'vm', id, name: id, createdAt: old, ...fields };
}

function look(ownerless: readonly ListedResource[], fields: Partial<Look> = {}): Look {
  return {
    atMs: startMs,
    seen: ownerless.length,
    vms: ownerless.filter(({ kind }) => kind === 'vm').length,
    ownerless,
    adopted: [],
    surplus: [],
    alive: new Set(),
    present: ownerless.map(keyOf),
    ...fields,
  };
}

const removed = (looks: GroupLooks) => resourcesOf(planSweep([looks], minimumAgeMs).groups[0]?.remove ?? []);
const keptFor = (looks: GroupLooks) =>
  planSweep([looks], minimumAgeMs).groups[0]?.kept.map(({ reason, resources }) => [
    reason,
    resources.map(({ id }) => id),
  ]);

describe('planSweep', () => {
  it('removes what had no Machine in both looks, with all that carries its UID', () => {
    const orphan = [vm('a', { uid: 'u' }), vm('disk-1', { kind: 'disk', uid: 'u', name: '' })];

    expect(planSweep([{ first: look(orphan), second: look(orphan) }], minimumAgeMs)).toMatchObject({
      kind: 'remove',
      groups: [{ remove: [{ uid: 'u', resources: orphan }], owned: 0, kept: [] }],
    });
  });

  it('says why it keeps what was an orphan in one look alone', () => {
    const [a, b, c] = [vm('a'), vm('b'), vm('c')];
    const looks = { first: look([a, b]), second: look([c], { seen: 2, present: [keyOf(a)] }) };

    expect(removed(looks)).toEqual([]);
    expect(keptFor(looks)).toEqual([
      ['cameBack', ['a']],
      ['gone', ['b']],
      ['seenOnce', ['c']],
    ]);
  });

  it('[invariant 4 partly] keeps a thing for its youngest resource, and what has no age', () => {
    const young = vm('disk-1', { kind: 'disk', uid: 'u', createdAt: '2026-01-01T11:55:00Z' });
    const looks = (...resources: ListedResource[]) => ({ first: look(resources), second: look(resources) });

    expect(removed(looks(vm('a', { uid: 'u' }), young))).toEqual([]);
    expect(removed(looks(vm('a', { createdAt: 'yesterday' })))).toEqual([]);
    expect(removed(looks(vm('a', { createdAt: '2027-01-01T00:00:00Z' })))).toEqual([]);
    expect(keptFor(looks(young))).toEqual([['young', ['disk-1']]]);
  });

  it('[invariant 4 partly] keeps what is no VM, if no UID tag says of which Machine it is', () => {
    const disk = vm('disk-1', { kind: 'disk' });
    const looks = { first: look([disk]), second: look([disk]) };

    expect(removed(looks)).toEqual([]);
    expect(keptFor(looks)).toEqual([['unattributed', ['disk-1']]]);
  });

  it('[invariant 4 partly] keeps what carries the old UID of a Machine that was restored under a new one', () => {
    // Its VM is named by the Machine and so is no orphan; its disk is found by the UID of both.
    const disk = vm('disk-1', { kind: 'disk', uid: 'old' });
    const restored = look([disk], { seen: 2, adopted: ['old'] });

    expect(judge(restored, minimumAgeMs)).toMatchObject({ owned: 2, orphans: [], young: [] });
  });

  it('[mcm 90 partly] removes a surplus VM alone, once it was surplus in both looks and is old enough', () => {
    const second = vm('second', { uid: 'u', excessOf: 'm' });
    const surplus = [{ resource: second, keeper: 'cloud first' }];
    const alive = new Set(['cloud first']);
    const seen = look([], { seen: 3, surplus, alive });
    const young = { ...second, createdAt: '2026-01-01T11:55:00Z' };
    const seenYoung = look([], { seen: 3, surplus: [{ resource: young, keeper: 'cloud first' }], alive });

    expect(planSweep([{ first: seen, second: seen }], minimumAgeMs).groups).toEqual([
      { remove: [{ key: 'surplus second', uid: 'u', resources: [second], keeper: 'cloud first' }], owned: 2, kept: [] },
    ]);
    expect(removed({ first: look([], { seen: 2 }), second: seen })).toEqual([]);
    expect(removed({ first: seenYoung, second: seenYoung })).toEqual([]);
    expect(keptFor({ first: seen, second: look([], { seen: 3, present: ['surplus second'] }) })).toEqual([
      ['cameBack', ['second']],
    ]);
  });

  it('[invariant 4 partly] removes a surplus VM only if the VM of its Machine was alive in both looks', () => {
    const second = vm('second', { uid: 'u', excessOf: 'm' });
    const seen = (isAlive: boolean, present: readonly string[] = []) =>
      look([], {
        ...{ seen: 3, surplus: [{ resource: second, keeper: 'cloud first' }], present },
        alive: new Set(isAlive ? ['cloud first'] : []),
      });

    for (const first of [true, false]) {
      for (const last of [true, false]) {
        const looks = { first: seen(first), second: seen(last, first ? ['surplus second'] : []) };
        expect(removed(looks)).toEqual(first && last ? [second] : []);
        expect(planSweep([looks], minimumAgeMs).groups[0]?.owned).toBe(2);
        const reason = last ? 'seenOnce' : 'keeperNotAlive';
        expect(keptFor(looks)).toEqual(first && last ? [] : [[reason, ['second']]]);
      }
    }
  });

  /** A thing in a cloud: when it is there, when it has a Machine, and how old it is. */
  const thing = fc.record({
    uid: fc.option(fc.constantFrom('u1', 'u2', 'u3', 'u4'), { nil: undefined }),
    kind: fc.constantFrom('vm', 'disk', 'nic'),
    ageMs: fc.integer({ min: -1_000, max: 2 * minimumAgeMs }),
    listed: fc.tuple(fc.boolean(), fc.boolean()),
    owned: fc.tuple(fc.boolean(), fc.boolean()),
  });
  const world = fc.record({
    things: fc.array(thing, { maxLength: 12 }),
    adopted: fc.subarray(['u1', 'u2', 'u3', 'u4']),
    pauseMs: fc.integer({ min: 0, max: minimumAgeMs }),
  });

  it('[mcm 88 partly] [invariant 4] never removes what has a Machine, was seen once or is young, and removes all else', () => {
    fc.assert(
      fc.property(world, ({ things, adopted, pauseMs }) => {
        const resources = things.map(({ uid, kind, ageMs, listed, owned }, i) => ({
          ...{ listed, owned, uid, ageMs },
          resource: vm(`id-${i}`, {
            ...(uid !== undefined && { uid }),
            kind: kind as ListedResource['kind'],
            createdAt: new Date(startMs - ageMs).toISOString(),
          }),
        }));
        // A Machine has all that carries its UID, or nothing of it.
        const isOwned = (at: 0 | 1, { uid, owned }: (typeof resources)[number]) =>
          uid === undefined ? owned[at] : resources.some((other) => other.uid === uid && other.owned[at]);
        const seen = (at: 0 | 1) => resources.filter(({ listed }) => listed[at]);
        const lookAt = (at: 0 | 1): Look => ({
          atMs: startMs + at * pauseMs,
          seen: seen(at).length,
          vms: 0,
          ownerless: seen(at).flatMap((each) => (isOwned(at, each) ? [] : each.resource)),
          adopted,
          surplus: [],
          alive: new Set(),
          present: seen(at).map(({ resource }) => keyOf(resource)),
        });

        const [first, second] = [lookAt(0), lookAt(1)];
        const gone = new Set(removed({ first, second }).map(({ id }) => id));

        for (const each of resources) {
          const { uid, resource, listed, ageMs } = each;
          const isAdopted = uid !== undefined && adopted.includes(uid);
          const isVm = resource.kind === 'vm';
          const own = [0, 1].some((at) => isOwned(at as 0 | 1, each));
          if (own || isAdopted || (!isVm && uid === undefined)) expect(gone).not.toContain(resource.id);
          const before = resources.filter((other) => keyOf(other.resource) === keyOf(resource) && other.listed[0]);
          if (before.length === 0 || before.some((other) => other.ageMs < minimumAgeMs))
            expect(gone).not.toContain(resource.id);
          if (!listed[1] || ageMs + pauseMs < minimumAgeMs) expect(gone).not.toContain(resource.id);
          if (uid === undefined && isVm && !own && listed[0] && listed[1] && ageMs >= minimumAgeMs)
            expect(gone).toContain(resource.id);
        }
        const plan = planSweep([{ first, second }], minimumAgeMs).groups[0];
        const all = plan?.kept ?? [];
        const reported = all.filter(({ reason }) => reason !== 'gone' && reason !== 'cameBack');
        const back = new Set(
          all.flatMap(({ reason, resources: kept }) => (reason === 'cameBack' ? kept.map(keyOf) : [])),
        );
        const count = reported.reduce((sum, { resources: kept }) => sum + kept.length, 0);
        const backCount = second.present.filter((key) => back.has(key)).length;
        expect((plan?.owned ?? 0) + backCount + count + gone.size).toBe(second.seen);
      }),
      { numRuns: 500 },
    );
  });

  it('[invariant 4 partly] removes nothing after a single look', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('a', 'b', 'c')), (ids) => {
        const first = look(ids.map((id) => vm(id)));
        expect(planSweep([{ first }], minimumAgeMs).kind).toBe('nothing');
      }),
    );
  });
});
