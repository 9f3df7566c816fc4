import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { ListedResource } from '../../api/model/sweep.ts';
import { addReading, approvedKeys, brake, type Census, doubtsOf } from './brake.ts';
import { type GroupPlan, isDoubtful, keyOf, type Look, planSweep } from './plan.ts';

const minimumAgeMs = 600_000;
const last = { at: '2026-01-01T00:00:00Z', count: 10, resourceVersion: '1000' };

function vm(id: string, fields: Partial<ListedResource> = {}): ListedResource {
  return { kind: 'vm', id, name: id, createdAt: '2026-01-01T00:00:00Z', ...fields };
}

/** A group in which all of these had no Machine in both looks. */
function groupOf(ownerless: readonly ListedResource[], vms: number) {
  const atMs = Date.parse('2026-01-02T00:00:00Z');
  const nothing = { adopted: [], surplus: [], alive: new Set<string>() };
  const look: Look = { atMs, seen: vms, vms, ownerless, ...nothing, present: ownerless.map(keyOf) };
  return { first: look, second: look };
}

function census(least: number, oldest = '1001'): Census {
  return { at: last.at, least, most: 10, oldest, newest: '1002' };
}

describe('brake', () => {
  const limits = fc.record({ brakeCount: fc.nat({ max: 12 }), brakeRate: fc.integer({ min: 0, max: 100 }) });
  const world = fc.record({
    groups: fc.array(
      fc.record({ orphans: fc.uniqueArray(fc.nat({ max: 30 }), { maxLength: 12 }), others: fc.nat({ max: 60 }) }),
      { minLength: 1, maxLength: 4 },
    ),
    limits,
    doubts: fc.subarray(['a doubt']),
    /** Of orphans that may be healthy VMs. */
    doubted: fc.uniqueArray(fc.nat({ max: 30 })),
    approved: fc.uniqueArray(fc.nat({ max: 30 })),
  });

  it('[mcm 89 partly] [invariant 4 partly] lets more than the larger of count and rate go only if a person has named it', () => {
    fc.assert(
      fc.property(world, ({ groups, limits: { brakeCount, brakeRate }, doubts, doubted, approved }) => {
        const looks = groups.map(({ orphans, others }, i) =>
          groupOf(
            orphans.map((id) => vm(`vm-${i}-${id}`, doubted.includes(id) ? { doubts: ['its Node is Ready'] } : {})),
            orphans.length + others,
          ),
        );
        const vms = looks.reduce((sum, { second }) => sum + second.vms, 0);
        const plan = planSweep(looks, minimumAgeMs);
        const orphans = plan.groups.flatMap(({ remove }) => remove);
        const decision = brake(plan, vms, { brakeCount, brakeRate }, doubts);

        const isFew = brakeRate > 0 && orphans.length <= Math.max(brakeCount, (vms * brakeRate) / 100);
        const mayGo = orphans.length === 0 || (isFew && doubts.length === 0);
        const healthy = orphans.filter(isDoubtful);
        const isHeld = decision.kind === 'hold';
        expect(isHeld).toBe(!mayGo || healthy.length > 0);
        const keysIn = (plans: readonly GroupPlan[]) => plans.flatMap(({ remove }) => remove.map(({ key }) => key));
        if (isHeld) {
          const waiting = mayGo ? healthy : orphans;
          expect(keysIn(decision.groups)).toEqual(waiting.map(({ key }) => key));
          expect(keysIn([...decision.groups, ...decision.certain]).toSorted()).toEqual(keysIn(plan.groups).toSorted());
          expect([decision.reasons.length > 0, decision.isWhole]).toEqual([true, !mayGo]);
        }

        const keys = new Set(approved.map((id) => keyOf({ id: `vm-0-${id}` })));
        const after = planSweep(looks, minimumAgeMs, keys).groups;
        const gone = after.flatMap(({ remove }) => remove.map(({ key }) => key));
        const kept = after.flatMap(({ kept: reasons }) => reasons.flatMap(({ resources }) => resources.map(keyOf)));
        expect(gone.every((key) => keys.has(key))).toBe(true);
        expect([...gone, ...kept].toSorted()).toEqual(orphans.map(({ key }) => key).toSorted());
      }),
    );
  });
});

it('names some of many orphans that may be healthy', () => {
  const names = ['a', 'b', 'c', 'd', 'e'];
  const looks = groupOf(
    names.map((name) => vm(name, { doubts: ['its Node is Ready', 'its workflow is open'] })),
    100,
  );
  const limits = { brakeCount: 9, brakeRate: 10 };
  const why = 'its Node is Ready, its workflow is open';
  const reason = `5 orphans may be healthy (a: ${why}; b: ${why}; c: ${why}; and 2 more)`;
  expect(brake(planSweep([looks], minimumAgeMs), 100, limits, [])).toMatchObject({ reasons: [reason] });
});

describe('doubtsOf', () => {
  it('doubts an older list, and a loss of more than half that nobody has deleted', () => {
    expect(doubtsOf(undefined, last, 0)).toEqual([]);
    expect(doubtsOf(census(0), undefined, 0)).toEqual([]);
    expect(doubtsOf(census(5), last, 0)).toEqual([]);
    expect(doubtsOf(census(4), last, 0)).toEqual([expect.stringContaining('there are 4 Machines')]);
    expect(doubtsOf(census(4), last, 1)).toEqual([]);
    expect(doubtsOf(census(10, '999'), last, 0)).toEqual([expect.stringContaining('has resourceVersion 999')]);
  });

  it('goes by the worst of all readings, in whatever order they were answered', () => {
    const readings = fc.array(fc.record({ count: fc.nat(), version: fc.nat() }), { minLength: 1 });
    fc.assert(
      fc.property(readings, (given) => {
        const seen = given.reduce<Census | undefined>(
          (sum, { count, version }) => addReading(sum, { count, resourceVersion: String(version) }, last.at),
          undefined,
        );
        const [counts, versions] = [given.map(({ count }) => count), given.map(({ version }) => version)];
        expect(seen).toEqual({
          at: last.at,
          ...{ least: Math.min(...counts), most: Math.max(...counts) },
          ...{ oldest: String(Math.min(...versions)), newest: String(Math.max(...versions)) },
        });
      }),
    );
  });
});

describe('approvedKeys', () => {
  const held = [
    { key: 'one', named: [{ kind: 'vm', id: 'c:///1', name: 'a' }] },
    { key: 'two', named: [{ kind: 'vm', id: 'c:///2', name: 'a' }] },
    {
      key: 'twins',
      named: [
        { kind: 'vm', id: 'c:///3', uid: 'u', name: 'b' },
        { kind: 'vm', id: 'c:///4', uid: 'u', name: 'c' },
      ],
    },
  ];

  it('takes ids, and names that only one has', () => {
    expect(approvedKeys(held, ['c:///1', 'b', 'c'])).toEqual({ keys: ['one', 'twins'] });
  });

  it.each([
    ['what nobody holds', ['c:///9'], "'c:///9' does not wait for approval"],
    ['a name of several', ['a'], "'a' is the name of several resources: give one of the ids c:///1, c:///2"],
    [
      'one of two VMs that go together',
      ['c:///3'],
      'several VMs carry the UID u and are deleted together: name c:///4, too',
    ],
  ])('refuses %s', (_, given, problem) => {
    expect(approvedKeys(held, given)).toEqual({ problem: expect.stringContaining(problem) });
  });
});
