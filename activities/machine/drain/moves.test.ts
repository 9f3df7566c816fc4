import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type Claimant, type Moves, mayLeave, nextMoves, sharedVolumes } from './moves.ts';

const timeouts = { detachMs: 120_000, reattachMs: 90_000 };
const none: ReadonlySet<string> = new Set();

function volume(name: string, driver = 'disk') {
  return { name, driver, spec: {} };
}

function pod(name: string, change: Partial<Claimant> = {}): Claimant {
  return { uid: name, name, priority: 0, graceMs: 30_000, volumes: [volume(`of-${name}`)], ...change };
}

describe('nextMoves', () => {
  const a = volume('of-a');
  const look = (
    before: Moves,
    facts: { nowMs: number; claimants?: Claimant[]; attached?: boolean; elsewhere?: boolean },
  ) =>
    nextMoves(
      before,
      {
        nowMs: facts.nowMs,
        claimants: facts.claimants ?? [],
        attached: facts.attached ? [a] : [],
        isAttachedElsewhere: () => facts.elsewhere === true,
      },
      none,
      timeouts,
    );
  const said = (moves: Moves) => [...moves.values()].map(({ waitsFor, untilMs }) => [waitsFor, untilMs]);

  it('[mcm 51 partly] waits for a volume until it is detached, grace and 2 min at most, and attached again, 90 s at most', () => {
    let moves = look(new Map(), { nowMs: 0, claimants: [pod('a')], attached: true });
    expect(said(moves)).toEqual([]);
    moves = look(moves, { nowMs: 1_000, claimants: [pod('a', { leavingSinceMs: 1_000 })], attached: true });
    expect(said(moves)).toEqual([['pod', 151_000]]);
    moves = look(moves, { nowMs: 20_000, attached: true });
    expect(said(moves)).toEqual([['detach', 151_000]]);
    moves = look(moves, { nowMs: 30_000 });
    expect(said(moves)).toEqual([['reattach', 120_000]]);
    moves = look(moves, { nowMs: 40_000 });
    expect(said(moves)).toEqual([['reattach', 120_000]]);
    expect(said(look(moves, { nowMs: 50_000, elsewhere: true }))).toEqual([]);
  });

  it('waits for none that is not attached when its pod leaves: that of a pod that has finished', () => {
    const moves = look(new Map(), { nowMs: 0, claimants: [pod('a', { leavingSinceMs: 0 })] });
    expect(said(moves)).toEqual([]);
    expect(said(look(moves, { nowMs: 1_000 }))).toEqual([]);
  });

  it('waits 2 min for one whose pod left before', () => {
    expect(said(look(new Map(), { nowMs: 5_000, attached: true }))).toEqual([['detach', 125_000]]);
  });

  it('[mcm 52 partly] waits for none that several pods use', () => {
    const claimants = ['a', 'b'].map((name) => pod(name, { volumes: [a], leavingSinceMs: 0 }));
    const shared = new Set(sharedVolumes(claimants));
    expect(shared).toEqual(new Set(['of-a']));
    const facts = { nowMs: 0, claimants, attached: [a], isAttachedElsewhere: () => false };
    expect(said(nextMoves(new Map(), facts, shared, timeouts))).toEqual([]);
  });
});

describe('mayLeave', () => {
  const names = (pods: readonly Claimant[]) => pods.map(({ name }) => name);
  const parallel = (room: number) => ({ beside: () => room, isSerial: false });
  const three = [pod('low', { priority: -5 }), pod('high', { priority: 10 }), pod('none')];

  it('[mcm 51 partly] lets one pod go at a time when it is serial, in the order of priority, when nothing moves any more', () => {
    const serial = { beside: () => Number.POSITIVE_INFINITY, isSerial: true };
    expect(names(mayLeave(three, [], [], serial))).toEqual(['high']);
    expect(names(mayLeave(three, [pod('leaving', { volumes: [] })], [], serial))).toEqual([]);
    expect(names(mayLeave(three, [], [volume('moving')], serial))).toEqual([]);
  });

  it('lets as many go at once as others have room for, in the order of priority', () => {
    expect(names(mayLeave(three, [], [], parallel(Number.POSITIVE_INFINITY)))).toEqual(['high', 'none', 'low']);
    expect(names(mayLeave(three, [], [], parallel(2)))).toEqual(['high', 'none']);
    expect(names(mayLeave(three, [], [volume('moving')], parallel(2)))).toEqual(['high']);
    expect(names(mayLeave(three, [], [volume('moving')], parallel(1)))).toEqual([]);
  });

  it('lets one go at a time where nobody has room', () => {
    expect(names(mayLeave(three, [], [], parallel(0)))).toEqual(['high']);
  });

  it('lets no pod overtake one of the same driver, and each of another', () => {
    const big = pod('big', { priority: 5, volumes: [volume('1'), volume('2'), volume('3')] });
    const other = pod('other', { volumes: [volume('4', 'files')] });
    const room = { beside: (driver: string) => (driver === 'disk' ? 2 : 9), isSerial: false };
    expect(names(mayLeave([pod('small'), big, other], [], [volume('moving')], room))).toEqual(['other']);
  });

  it('asks for the room of a driver once, however many pods there are', () => {
    const asked: string[] = [];
    const beside = (driver: string) => asked.push(driver) + 8;
    mayLeave([...three, pod('more')], [], [], { beside, isSerial: false });
    expect(asked).toEqual(['disk']);
  });

  it('lets pods that share a volume go one after the other', () => {
    const shared = ['a', 'b', 'c'].map((name) => pod(name, { volumes: [volume('shared')] }));
    expect(names(mayLeave(shared, [], [], parallel(9)))).toEqual(['a']);
    expect(names(mayLeave(shared.slice(1), shared.slice(0, 1), [], parallel(9)))).toEqual([]);
  });

  it('always lets one go when nothing moves, and never more than there is room for', () => {
    const pods = fc.array(
      fc.record({ priority: fc.nat(3), volumes: fc.nat(4), driver: fc.constantFrom('disk', 'files') }),
      {
        minLength: 1,
      },
    );
    fc.assert(
      fc.property(pods, fc.nat(8), fc.nat(3), (all, room, moving) => {
        const due = all.map(({ priority, volumes, driver }, index) =>
          pod(`p${index}`, {
            priority,
            volumes: Array.from({ length: volumes }, (_, each) => volume(`${index}-${each}`, driver)),
          }),
        );
        const underWay = Array.from({ length: moving }, (_, index) => volume(`m${index}`));
        const allowed = mayLeave(due, [], underWay, parallel(room));
        if (moving === 0) expect(allowed.length).toBeGreaterThan(0);
        for (const driver of ['disk', 'files']) {
          const before = underWay.filter((each) => each.driver === driver).length;
          const leave = allowed.filter(({ volumes }) => volumes.some((each) => each.driver === driver));
          const more = leave.reduce((sum, { volumes }) => sum + volumes.length, 0);
          if (before > 0 || leave.length > 1) expect(before + more).toBeLessThanOrEqual(Math.max(room, before));
        }
      }),
    );
  });
});
