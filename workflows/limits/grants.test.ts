/** Who may create machines where a namespace limits them: single decisions, and random histories of a namespace. */
import { describe, expect, it } from '@jest/globals';
import { gardener } from '../../api/gardener/index.ts';
import { labels } from '../../api/gardener/names.ts';
import type { LimitClaim, LimitReading, Limits, LimitUse } from '../../api/model/limits.ts';
import { names } from '../../api/names.ts';
import { toLimitReading } from '../../api/owner/limit-reading.ts';
import { lowestOf } from '../../api/owner/limit-use.ts';
import type { OwnerDeployment, OwnerSet } from '../../api/owner/objects.ts';
import { toDeploymentView } from '../../api/owner/view.ts';
import { validDeploymentSpec } from '../../test/support/valid.ts';
import { decide, emptyState, endedGrants, grantMs, turnMs, unknownHolders, withoutGrants } from './grants.ts';
import type { LimitState } from './messages.ts';

const kind = 'MachineDeployment';
const useOfOwner = (name: string, changes: Partial<LimitUse> = {}): LimitUse => ({
  ...{ kind, name, uid: name, limits: { surge: 5, provisioning: 4 } },
  ...{ provisioning: 0, surplus: 0, wanted: 0, pending: [] },
  ...changes,
});
const wanting = (name: string, count: number, changes: Partial<LimitUse> = {}): LimitUse =>
  useOfOwner(name, { wanted: count, pending: namesOf(name, count), ...changes });
const namesOf = (name: string, count: number) => Array.from({ length: count }, (_, i) => `${name}-${i}`);
const claimOf = (name: string, count: number): LimitClaim => ({ kind, name, uid: name, names: namesOf(name, count) });
const readingOf = (uses: readonly LimitUse[], limits: Limits = { surge: 5, provisioning: 4 }): LimitReading => ({
  limits,
  uses,
});
const countsOf = (claims: readonly LimitClaim[], reading: LimitReading, state: LimitState = emptyState) =>
  decide(state, reading, claims, 0).grants.map(({ granted }) => granted.length);

describe('the room of a namespace', () => {
  it('goes to a single owner up to the lower limit', () => {
    const reading = readingOf([wanting('a', 10)]);

    const { grants, state } = decide(emptyState, reading, [claimOf('a', 10)], 0);

    expect(grants[0]?.granted).toEqual(namesOf('a', 4));
    expect(grants[0]?.wait).toEqual({
      ...{ limit: 'provisioning', most: 4, used: 4, holders: [{ name: 'a', count: 4 }], holderCount: 1 },
      isOwn: true,
    });
    expect(state.waiting.map(({ name }) => name)).toEqual(['a']);
  });

  it('is shared by owners that claim together', () => {
    const reading = readingOf([wanting('a', 10), wanting('b', 10), wanting('c', 1)], { provisioning: 6 });

    expect(countsOf([claimOf('a', 10), claimOf('b', 10), claimOf('c', 1)], reading)).toEqual([2, 2, 1]);
  });

  it('counts as surge only what is above the replicas', () => {
    const reading = readingOf([wanting('a', 10, { surplus: -3 })], { surge: 2 });

    expect(countsOf([claimOf('a', 10)], reading)).toEqual([5]);
  });

  it('is what machines of all owners leave, also of those that take no part', () => {
    const { limits: _, ...other } = useOfOwner('other', { provisioning: 3 });

    expect(countsOf([claimOf('a', 10)], readingOf([other, wanting('a', 10)]))).toEqual([1]);
  });

  it('is none where there are more machines than a lowered limit allows', () => {
    expect(countsOf([claimOf('a', 1)], readingOf([wanting('a', 1, { provisioning: 9 })]))).toEqual([0]);
  });

  it('is not taken by an owner that scales up and waits for no surge', () => {
    const reading = readingOf([useOfOwner('a', { surplus: 5 }), wanting('b', 1), wanting('c', 2, { surplus: -2 })]);

    expect(countsOf([claimOf('b', 1), claimOf('c', 2)], reading)).toEqual([0, 2]);
  });

  it('is not for an owner that is gone', () => {
    expect(countsOf([claimOf('a', 1)], readingOf([]))).toEqual([0]);
  });

  it('has no end where nobody has a limit any more', () => {
    expect(countsOf([claimOf('a', 50)], readingOf([wanting('a', 50)], {}))).toEqual([50]);
  });
});

describe('an owner that waits', () => {
  const full = readingOf([useOfOwner('a', { provisioning: 4 }), wanting('b', 2), wanting('big', 50)]);
  const { state } = decide(emptyState, full, [claimOf('b', 2), claimOf('big', 50)], 0);

  it('is told when there is room, in its turn', () => {
    const roomForOne = readingOf([useOfOwner('a', { provisioning: 3 }), wanting('b', 2), wanting('big', 50)]);

    const first = decide(state, roomForOne, [], 1);
    const again = decide(first.state, roomForOne, [], 2);

    expect([first.woken.map(({ name }) => name), again.woken]).toEqual([['b'], []]);
  });

  it('is not overtaken by one that came later and is faster', () => {
    const roomForOne = readingOf([useOfOwner('a', { provisioning: 3 }), wanting('b', 2), wanting('big', 50)]);

    const { grants, woken } = decide(state, roomForOne, [claimOf('big', 50)], 1);

    expect([grants[0]?.granted, woken.map(({ name }) => name)]).toEqual([[], ['b']]);
  });

  it('goes to the end of the line with what is left of its claim', () => {
    const roomForOne = readingOf([useOfOwner('a', { provisioning: 3 }), wanting('b', 2), wanting('big', 50)]);

    const after = decide(state, roomForOne, [claimOf('b', 2)], 1);

    expect([after.grants[0]?.granted, after.state.waiting.map(({ name }) => name)]).toEqual([['b-0'], ['big', 'b']]);
  });

  it('loses its turn when it does not come, so that it holds nobody up', () => {
    const roomForOne = readingOf([useOfOwner('a', { provisioning: 3 }), wanting('b', 2), wanting('big', 50)]);
    const told = decide(state, roomForOne, [], 0);

    const { woken } = decide(told.state, roomForOne, [], turnMs);

    expect(woken.map(({ name }) => name)).toEqual(['big']);
  });

  it('leaves the line when it wants nothing any more, or is gone', () => {
    const { state: after } = decide(state, readingOf([useOfOwner('a', { provisioning: 4 })]), [], 1);

    expect(after.waiting).toEqual([]);
  });

  it('is told at once when it takes part no more', () => {
    const { limits: _, ...free } = wanting('b', 2);
    const { woken } = decide(state, readingOf([useOfOwner('a', { provisioning: 4 }), free]), [], 1);

    expect(woken.map(({ name }) => name)).toEqual(['b']);
  });
});

describe('what was granted', () => {
  it('counts until the machine exists, and is not granted to another one', () => {
    const both = readingOf([wanting('a', 4), wanting('b', 4)]);
    const { state } = decide(emptyState, readingOf([wanting('a', 4)]), [claimOf('a', 4)], 0);

    expect(countsOf([claimOf('b', 4)], both, state)).toEqual([0]);
  });

  it('is given back by an owner that wants fewer machines than it has recorded', () => {
    const shrunk = wanting('a', 4, { wanted: 1 });

    expect(countsOf([claimOf('b', 4)], readingOf([shrunk, wanting('b', 4)]))).toEqual([3]);
  });

  it('counts after the workflow was lost, until its owner claims again', () => {
    const both = readingOf([wanting('a', 4), wanting('b', 4)]);

    const after = decide(emptyState, both, [claimOf('b', 4)], 0);
    const claimed = decide(after.state, both, [claimOf('a', 4)], 1);

    expect(after.grants[0]?.granted).toEqual([]);
    expect(unknownHolders(after.state, both).map(({ name }) => name)).toEqual(['a']);
    expect(claimed.grants[0]?.granted.length).toBeGreaterThan(0);
  });

  it('is no name that is pending for another owner by now: its set was released after it had been recorded', () => {
    const released = wanting('set', 4, { kind: 'MachineSet', pending: namesOf('a', 4) });
    const reading = readingOf([useOfOwner('a'), released, useOfOwner('b', { provisioning: 4 })]);

    const { grants, state } = decide(emptyState, reading, [claimOf('a', 4)], 0);

    expect([grants[0]?.granted, state.waiting]).toEqual([[], []]);
    expect(grants[0]?.wait).toBeDefined(); // so that nothing is created
  });

  it.each([
    ['was granted', decide(emptyState, readingOf([wanting('a', 4)]), [claimOf('a', 4)], 0).state],
    ['is not known to have been granted', emptyState],
  ])('ends with the step that may create it, also where it %s, if its owner claims no more', (_, state) => {
    const reading = readingOf([wanting('a', 4), wanting('b', 1)]);
    const first = decide(state, reading, [claimOf('b', 1)], 0);
    const grantedAt = (nowMs: number) => {
      const before = withoutGrants(first.state, endedGrants(first.state, nowMs));
      return decide(before, reading, [claimOf('b', 1)], nowMs).grants[0]?.granted;
    };

    expect(first.grants[0]?.granted).toEqual([]);
    expect([grantedAt(grantMs - 1), grantedAt(grantMs)]).toEqual([[], ['b-0']]);
  });

  it.each<[string, OwnerDeployment['spec'], Record<string, string>]>([
    ['is frozen', {}, { [labels.freeze]: 'True' }],
    ['has a spec that is not valid', { strategy: { type: 'Sometimes' } }, {}],
  ])('ends so, too, where its owner %s, which claims no more', (_, change, itsLabels) => {
    const meta = (name: string) => ({
      name,
      uid: name,
      resourceVersion: '1',
      creationTimestamp: '2026-08-19T10:00:00Z',
    });
    const deploymentOf = (name: string, more: object, itsLabels: Record<string, string>): OwnerDeployment => ({
      metadata: { ...meta(name), annotations: { [names.maxProvisioning]: '4' }, labels: itsLabels },
      spec: { ...validDeploymentSpec, ...more },
    });
    const setOf = (name: string, replicas: number): OwnerSet => ({
      metadata: {
        ...meta(`${name}-set`),
        annotations: { [names.creating]: `creation-1:${namesOf(name, replicas).join()}` },
        ownerReferences: [{ apiVersion: 'v1', kind, name, uid: name, controller: true }],
      },
      spec: { ...validDeploymentSpec, replicas },
    });
    const a = deploymentOf('a', { ...change, replicas: 6 }, itsLabels);
    const objects = { deployments: [a, deploymentOf('b', {}, {})], sets: [setOf('a', 6), setOf('b', 1)], machines: [] };
    const reading = toLimitReading(gardener, objects);
    const { problem, sets } = toDeploymentView({ ...gardener, nowMs: 0 }, a, objects.sets, []);
    expect([problem, ...sets.filter(({ closed }) => closed)]).not.toEqual([undefined]); // it creates none, and claims none

    const first = decide(emptyState, reading, [claimOf('b', 1)], 0);
    const ended = withoutGrants(first.state, endedGrants(first.state, grantMs));

    expect(first.grants[0]?.granted).toEqual([]);
    expect(decide(ended, reading, [claimOf('b', 1)], grantMs).grants[0]?.granted).toEqual(['b-0']);
  });

  it('is shared with whoever waits when its owner claims it again and again, as a quota refuses its machines', () => {
    const both = readingOf([wanting('a', 4), wanting('b', 1)]);
    const { state } = decide(emptyState, readingOf([wanting('a', 4)]), [claimOf('a', 4)], 0);
    const waiting = decide(state, both, [claimOf('b', 1)], 1);

    const again = decide(waiting.state, both, [claimOf('a', 4)], 2);

    expect(again.woken.map(({ name }) => name)).toEqual(['b']);
    expect(countsOf([claimOf('b', 1)], both, again.state)).toEqual([1]);
  });

  it('is granted again to an owner whose step was lost, and its machines that exist cost nothing', () => {
    const { state } = decide(emptyState, readingOf([wanting('a', 4)]), [claimOf('a', 4)], 0);
    const half = wanting('a', 2, { provisioning: 2, pending: ['a-2', 'a-3'] });

    expect(decide(state, readingOf([half]), [claimOf('a', 4)], 1).grants).toEqual([{ granted: namesOf('a', 4) }]);
  });
});

/** Numbers from 0 to below 1, the same for a seed. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** An owner in a namespace that is played: a rollout that goes on and on. */
interface Owner {
  readonly uid: string;
  replicas: number;
  maxSurge: number;
  /** Machines that run, those that do not yet, and those that are being deleted. */
  running: number;
  starting: number;
  deleting: number;
  /** What its set records. */
  record: string[];
  readonly existing: Set<string>;
  wanted: number;
  /** What it was granted, and has not created. Its step may be lost at any time, and lasts two minutes at most. */
  granted: string[];
  grantedAtMs: number;
  /** Until when it takes no step: it is frozen, or its workflow paused. */
  asleepUntilMs: number;
  served: number;
}

/**
 * Plays a namespace in which claims, creations, joins, deletions, losses, sleep and changes come in any order, a second
 * apart.
 */
function play(seed: number, limits: Required<Limits>, steps: number): readonly Owner[] {
  const random = randomFrom(seed);
  const pick = (count: number) => Math.floor(random() * count);
  const owners: Owner[] = Array.from({ length: 2 + pick(9) }, (_, i) => {
    const replicas = i === 0 ? 40 : 1 + pick(4);
    return {
      ...{ uid: `o${i}`, replicas, maxSurge: 1 + pick(i === 0 ? 10 : 2), running: replicas, starting: 0, deleting: 0 },
      ...{ record: [], existing: new Set(), wanted: 0, granted: [], grantedAtMs: 0, asleepUntilMs: 0, served: 0 },
    };
  });
  let state = emptyState;
  let made = 0;
  const totalOf = (owner: Owner) => owner.running + owner.starting + owner.deleting;
  const toUse = (owner: Owner): LimitUse => ({
    ...{ kind, name: owner.uid, uid: owner.uid, limits },
    provisioning: owner.starting,
    surplus: totalOf(owner) - owner.replicas,
    wanted: owner.wanted,
    pending: owner.record.filter((name) => !owner.existing.has(name)),
  });
  const read = () => ({ limits: lowestOf([limits]), uses: owners.map(toUse) });
  const create = (owner: Owner, name: string) => {
    if (owner.existing.has(name) || !owner.record.includes(name)) return;
    owner.existing.add(name);
    owner.starting += 1;
    owner.wanted = Math.max(0, owner.wanted - 1);
    owner.served += 1;
  };

  const decideNow = (claims: readonly LimitClaim[], nowMs: number) =>
    decide(withoutGrants(state, endedGrants(state, nowMs)), read(), claims, nowMs);

  for (let step = 0; step < steps; step++) {
    const nowMs = step * 1_000;
    const owner = owners[pick(owners.length)]!;
    switch (pick(9)) {
      case 0: // the workflow of the limits is lost
        if (pick(20) === 0) state = emptyState;
        break;
      case 1: // a step is lost before it has created everything
        if (pick(4) === 0) owner.granted = [];
        if (pick(8) === 0) owner.asleepUntilMs = nowMs + pick(400) * 1_000;
        break;
      case 2:
      case 3: {
        // some owners take a step: they record what they would create, claim, and create some of it
        const awake = owners.filter(({ asleepUntilMs }) => nowMs >= asleepUntilMs);
        const claiming = awake.filter((each) => each === owner || pick(6) === 0);
        const claims = claiming.map((each) => {
          const count = Math.max(0, each.replicas + each.maxSurge - totalOf(each));
          const left = each.record.filter((name) => !each.existing.has(name));
          each.record = Array.from({ length: count }, (_, i) => left[i] ?? `${each.uid}-${++made}`);
          each.wanted = count;
          return { kind, name: each.uid, uid: each.uid, names: each.record } as const;
        });
        const decision = decideNow(claims, nowMs);
        state = decision.state;
        for (const [i, each] of claiming.entries()) {
          each.granted = [...(decision.grants[i]?.granted ?? [])];
          each.grantedAtMs = nowMs;
        }
        break;
      }
      case 4: // a watcher asks whether there is room
        state = decideNow([], nowMs).state;
        break;
      case 5:
      case 6: {
        if (nowMs < owner.asleepUntilMs && pick(10) > 0) break; // the step that is under way is slow
        const name = owner.granted.shift();
        if (name !== undefined && nowMs < owner.grantedAtMs + 120_000) create(owner, name);
        break;
      }
      case 7: // a machine joins
        if (owner.starting > 0) {
          owner.starting -= 1;
          owner.running += 1;
        }
        break;
      default: // an old machine is deleted, or one that is being deleted is gone
        if (owner.deleting > 0 && pick(2) === 0) owner.deleting -= 1;
        else if (owner.running > 0 && totalOf(owner) > owner.replicas - 1) {
          owner.running -= 1;
          owner.deleting += 1;
        }
    }
    const provisioning = owners.reduce((sum, each) => sum + each.starting, 0);
    const surge = owners.reduce((sum, each) => sum + Math.max(0, totalOf(each) - each.replicas), 0);
    if (provisioning > limits.provisioning || surge > limits.surge) {
      throw new Error(`seed ${seed}, step ${step}: ${provisioning} provisioning, ${surge} surge`);
    }
  }
  return owners;
}

describe('in 50 random histories of a namespace', () => {
  it('no limit is exceeded at any step, whatever is lost, and every owner gets machines', () => {
    for (let seed = 1; seed <= 50; seed++) {
      const owners = play(seed, { surge: 1 + (seed % 6), provisioning: 1 + (seed % 5) }, 6_000);

      expect(owners.filter(({ served }) => served === 0).map(({ uid }) => `seed ${seed}: ${uid}`)).toEqual([]);
    }
  });
});
