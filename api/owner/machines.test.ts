import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { gardener } from '../gardener/index.ts';
import { annotations as keys } from '../gardener/names.ts';
import type { Machine } from '../gardener/schema/machine.ts';
import { byDeletionOrder, isMarked } from './machines.ts';

const now = Date.parse('2026-08-19T12:00:00Z');
const api = { ...gardener, nowMs: now };
const { isPreserved } = api.owner.machines;
const past = '2026-08-19T11:00:00Z';
const future = '2026-08-19T13:00:00Z';
const far = '2026-08-19T14:00:00Z';

interface Traits {
  readonly name?: string | undefined;
  readonly phase?: string | undefined;
  readonly priority?: string | undefined;
  readonly marked?: string | undefined;
  readonly created?: string | undefined;
  readonly expiry?: string | undefined;
  readonly preserve?: string | undefined;
  /** What its Node says of its preservation. */
  readonly noted?: string;
}

function machine({
  name = 'm',
  phase = 'Running',
  priority,
  marked,
  created = past,
  expiry,
  preserve,
  noted,
}: Traits): Machine {
  return {
    metadata: {
      name,
      uid: name,
      resourceVersion: '1',
      creationTimestamp: created,
      annotations: {
        ...(priority !== undefined && { [keys.priority]: priority }),
        ...(marked !== undefined && { [keys.markedForDeletionTime]: marked }),
        ...(preserve !== undefined && { [keys.preserve]: preserve }),
        ...(noted !== undefined && { [keys.lastAppliedNodePreserveValue]: noted }),
      },
    },
    status: { currentStatus: { phase, ...(expiry !== undefined && { preserveExpiryTime: expiry }) } },
  };
}

const anyTraits: fc.Arbitrary<Traits> = fc.record(
  {
    name: fc.constantFrom('a', 'b', 'c', 'a-b', 'ab'),
    phase: fc.constantFrom('', 'Pending', 'Running', 'Failed', 'InPlaceUpdating', 'Terminating', 'Unknown'),
    priority: fc.constantFrom('1', '2', '3', '-1', 'high', ''),
    marked: fc.constantFrom(past, future, 'soon', ''),
    created: fc.constantFrom(past, future),
    expiry: fc.constantFrom(past, future, far),
    preserve: fc.constantFrom('now', 'auto-preserved', 'false'),
  },
  { requiredKeys: [] },
);

function order(...machines: Traits[]): (string | undefined)[] {
  return machines
    .map(machine)
    .toSorted(byDeletionOrder(api))
    .map(({ metadata }) => metadata.name);
}

describe('byDeletionOrder', () => {
  it.each<[string, Traits, Traits]>([
    [
      'what is not preserved before what is',
      { phase: 'Running', priority: '3' },
      { phase: 'Failed', priority: '1', expiry: future },
    ],
    [
      'auto-preserved before preserved',
      { preserve: 'auto-preserved', expiry: far },
      { preserve: 'now', expiry: future },
    ],
    ['what is not preserved before a Failed one that is about to be', {}, { phase: 'Failed', preserve: 'when-failed' }],
    ['of what is preserved the earlier expiry', { expiry: future, priority: '3' }, { expiry: far, priority: '1' }],
    ['[mcm 64 partly] a lower priority, whatever the phase', { priority: '1' }, { priority: '2', phase: 'Failed' }],
    ['[mcm 64 partly] a priority below the default', { priority: '2' }, {}],
    ['[mcm 64 partly] the default before a higher priority', {}, { priority: '4' }],
    [
      'a priority that is no number as the default',
      { priority: 'low', created: past },
      { priority: '3', created: future },
    ],
    ['[mcm 64 partly] marked before not marked', { marked: future }, { phase: 'Failed' }],
    ['[mcm 64 partly] the earlier mark', { marked: past, created: future }, { marked: future, created: past }],
    ['a mark that is no time as none', { marked: past }, { marked: 'soon', phase: 'Failed' }],
    ['[mcm 64 partly] older before younger', { created: past, name: 'z' }, { created: future, name: 'a' }],
    ['whatever expired is not preserved', { expiry: past, name: 'a' }, { name: 'b' }],
    ['the name at last, so that every reader sees one order', { name: 'a' }, { name: 'b' }],
  ])('puts first %s', (_, first, second) => {
    const [a, b] = [machine({ name: 'x', ...first }), machine({ name: 'y', ...second })];
    expect(byDeletionOrder(api)(a, b)).toBeLessThan(0);
    expect(byDeletionOrder(api)(b, a)).toBeGreaterThan(0);
  });

  it('[mcm 64 partly] goes from the worst phase to the best, and an unknown phase goes before all', () => {
    const phases = ['Running', 'Available', 'Pending', 'Unknown', 'CrashLoopBackOff', 'Failed', 'InPlaceUpdating'];
    const machines = phases.map((phase) => ({ phase, name: phase }));
    expect(order(...machines)).toEqual(phases.toReversed());
  });

  it('[mcm 64 partly] takes every other phase as Terminating', () => {
    for (const phase of ['', 'InPlaceUpdating', 'InPlaceUpdateFailed', 'New']) {
      expect(order({ name: 'b', phase: 'Terminating' }, { name: 'a', phase })).toEqual(['a', 'b']);
      expect(order({ name: 'a', phase: 'Terminating' }, { name: 'b', phase })).toEqual(['a', 'b']);
    }
  });

  /** The criteria of MCM one after the other, each with what it puts first and what after that. */
  const criteria: readonly (readonly [Traits, Traits])[] = [
    [{}, { expiry: future, preserve: 'now' }],
    [
      { expiry: future, preserve: 'auto-preserved' },
      { expiry: future, preserve: 'now' },
    ],
    [{ expiry: future }, { expiry: far }],
    [{ priority: '1' }, { priority: '3' }],
    [{ marked: past }, {}],
    [{ marked: past }, { marked: future }],
    [{ phase: 'Pending' }, { phase: 'Running' }],
    [{ created: past }, { created: future }],
    [{ name: 'a' }, { name: 'b' }],
  ];
  const pairs = criteria.flatMap((decisive, i) =>
    criteria.slice(i + 1).flatMap((later): [Traits, Traits][] => {
      const [[first, second], [worse, better]] = [decisive, later];
      return isApart(first, worse) && isApart(second, better)
        ? [
            [
              { ...better, ...first },
              { ...worse, ...second },
            ],
          ]
        : [];
    }),
  );
  /** Whether no trait of one is said by the other. */
  function isApart(a: Traits, b: Traits): boolean {
    return Object.keys(a).every((key) => !Object.hasOwn(b, key));
  }

  it('[mcm 64 partly] decides by the first criterion that differs, whatever the later ones say', () => {
    for (const [first, second] of [...criteria, ...pairs]) {
      const [a, b] = [machine({ name: 'x', ...first }), machine({ name: 'x', ...second })];
      expect([first, second, byDeletionOrder(api)(a, b)]).toEqual([first, second, -1]);
      expect([first, second, byDeletionOrder(api)(b, a)]).toEqual([first, second, 1]);
    }
    expect(pairs.length).toBeGreaterThan(20);
  });

  it('[mcm 64 partly] takes of any machines those that the order of MCM names', () => {
    const phases = ['Terminating', 'Failed', 'CrashLoopBackOff', 'Unknown', 'Pending', 'Available', 'Running'];
    const expiryOf = ({ expiry, phase, preserve }: Traits) => {
      const isKept = expiry === undefined && phase === 'Failed' && preserve !== undefined && preserve !== 'false';
      return isKept ? Number.POSITIVE_INFINITY : expiry !== undefined && expiry > future ? Date.parse(expiry) : 0;
    };
    const isBefore = (a: Traits, b: Traits): boolean => {
      const steps: ((traits: Traits) => number | string)[] = [
        (one) => Number(expiryOf(one) > 0),
        (one) => Number(expiryOf(one) > 0 && one.preserve !== 'auto-preserved'),
        expiryOf,
        ({ priority = '3' }) => (['1', '2', '-1'].includes(priority) ? Number(priority) : 3),
        ({ marked }) => Number(marked !== past && marked !== future),
        ({ marked }) => (marked === past || marked === future ? marked : ''),
        ({ phase = 'Running' }) => Math.max(0, phases.indexOf(phase)),
        ({ created = past }) => created,
        ({ name = 'm' }) => name,
      ];
      const step = steps.find((one) => one(a) !== one(b));
      return step !== undefined && step(a) < step(b);
    };
    const compare = byDeletionOrder({ ...api, nowMs: Date.parse(future) });
    fc.assert(
      fc.property(fc.uniqueArray(anyTraits, { selector: ({ name }) => name }), fc.nat(5), (all, count) => {
        const left = [...all];
        const expected = Array.from({ length: Math.min(count, all.length) }, () => {
          const [next] = left.filter((one) => !left.some((other) => isBefore(other, one)));
          left.splice(left.indexOf(next!), 1);
          return next;
        });
        const made = all.map((traits) => ({ traits, made: machine(traits) }));
        const taken = made.toSorted((a, b) => compare(a.made, b.made)).slice(0, count);
        expect(taken.map(({ traits }) => traits)).toEqual(expected);
      }),
      { numRuns: 2_000 },
    );
  });

  it('is a total order', () => {
    const compare = byDeletionOrder(api);
    fc.assert(
      fc.property(anyTraits, anyTraits, anyTraits, (x, y, z) => {
        const [a, b, c] = [machine(x), machine(y), machine(z)];
        const sign = Math.sign(compare(a, b));
        expect(sign).not.toBeNaN();
        expect(sign + Math.sign(compare(b, a))).toBe(0);
        expect(compare(a, a)).toBe(0);
        if (sign <= 0 && compare(b, c) <= 0) expect(compare(a, c)).toBeLessThanOrEqual(0);
        if (a.metadata.name !== b.metadata.name) expect(sign).not.toBe(0);
      }),
      { numRuns: 3_000 },
    );
  });
});

describe('isMarked', () => {
  it('holds for a machine of low priority, but not while it is preserved: that is deleted last', () => {
    const judge = (traits: Traits) => isMarked(api, machine({ priority: '1', ...traits }));
    expect([judge({}), judge({ expiry: future }), judge({ expiry: past })]).toEqual([true, false, true]);
    expect(judge({ phase: 'Failed', preserve: 'now' })).toBe(false); // its expiry is not written yet
  });
});

describe('isPreserved', () => {
  it.each<[string, Traits, boolean]>([
    ['nothing', {}, false],
    ['an expiry to come', { expiry: future }, true],
    ['an expiry that has passed', { expiry: past }, false],
    ['an expiry that has passed, whatever the annotation', { expiry: past, preserve: 'now' }, false],
    ['an expiry to come, whatever the annotation', { expiry: future, preserve: 'false' }, true],
    ['now', { preserve: 'now' }, true],
    ['when-failed', { preserve: 'when-failed' }, true],
    ['auto-preserved', { preserve: 'auto-preserved' }, true],
    ['false', { preserve: 'false' }, false],
    ['an empty annotation', { preserve: '' }, false],
    ['what the Node says, as it was noted', { preserve: 'now', noted: 'false' }, false],
    ['the same the other way round', { noted: 'when-failed' }, true],
    ['a value that nobody knows', { preserve: 'toString' }, false],
  ])('judges %s', (_, traits, preserved) => {
    expect(isPreserved(machine({ phase: 'Failed', ...traits }), now)).toBe(preserved);
  });
});
