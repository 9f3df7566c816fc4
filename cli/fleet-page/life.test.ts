import { describe, expect, it } from '@jest/globals';
import { maxSteps, toLife, toScale } from './life.ts';

const at = (seconds: number) => new Date(Date.parse('2026-11-23T10:00:00Z') + seconds * 1_000).toISOString();
const msAt = (seconds: number) => Date.parse(at(seconds));
const stretch = (start: number, end: number, isRest = false) => ({ startMs: msAt(start), endMs: msAt(end), isRest });
const none = { failures: [], blockedOn: [], signals: [] };

describe('the scale of a life', () => {
  it('has the same length for the same time', () => {
    const { positionOf } = toScale([stretch(0, 10), stretch(10, 40)]);
    expect([0, 5, 10, 25, 40].map((seconds) => positionOf(msAt(seconds)))).toEqual([0, 0.125, 0.25, 0.625, 1]);
  });

  it('cuts a rest that is longer than a quarter of all else', () => {
    const week = 7 * 86_400;
    const all = [
      stretch(0, 80),
      stretch(80, week, true),
      stretch(week, week + 20),
      stretch(week + 20, week + 30, true),
    ];
    const { positionOf, isCut } = toScale(all);
    expect(all.map(isCut)).toEqual([false, true, false, false]);
    // 80 s, a rest of 25 s on the scale, 20 s, and a rest of 10 s
    const ends = [80, week, week + 20, week + 30].map((seconds) => positionOf(msAt(seconds)));
    expect(ends.map((each) => Math.round(each * 135))).toEqual([80, 105, 125, 135]);
  });

  it('is all rest where nothing else is known', () => {
    const { positionOf, isCut } = toScale([stretch(0, 1_000, true)]);
    expect([isCut(stretch(0, 1_000, true)), positionOf(msAt(500))]).toEqual([false, 0.5]);
  });

  it('has a place for what is before, after, or without length', () => {
    const { positionOf } = toScale([stretch(0, 0), stretch(0, 10)]);
    expect([-5, 0, 15].map((seconds) => positionOf(msAt(seconds)))).toEqual([0, 0, 1]);
    expect(toScale([]).positionOf(msAt(3))).toBe(0);
  });
});

describe('the life of a machine', () => {
  const noRoom = { code: 'ResourceExhausted', message: 'no room' };
  const timeline: Parameters<typeof toLife>[0] = {
    steps: [
      {
        ...{ step: 'provision', start: at(0), end: at(40), blockedOn: ['CloudCapacity'], signals: ['retryNow'] },
        failures: [{ ...noRoom, times: 1 }],
      },
      { ...none, step: 'join', start: at(40) },
    ],
    calls: [
      { activity: 'ensureVm', start: at(0), end: at(2), attempts: 1, failure: noRoom },
      { activity: 'ensureVm', start: at(38), end: at(40), attempts: 2 },
      { activity: 'ensureVm', start: at(40), attempts: 1 },
    ],
    waits: [{ blockedOn: 'CloudCapacity', start: at(2), end: at(50) }],
    ...{ isGone: false, isLost: false, omittedRuns: 0 },
  };

  it('has each call in the step in which it began, and each wait in every step that it has lasted into', () => {
    const { steps } = toLife(timeline, msAt(80));
    expect(steps).toMatchObject([
      {
        ...{ step: 'provision', from: 0, to: 0.5, took: '40 s', isOpen: false, isCut: false },
        notes: [
          'ensureVm 2 times, 1 failed',
          'ResourceExhausted: no room',
          'signals retryNow',
          'blocked on CloudCapacity for 38 s: the cloud has no capacity or the quota is used up',
        ],
        calls: [
          { activity: 'ensureVm', from: 0, to: 0.025, took: '2.0 s', failure: noRoom },
          { from: 0.475, to: 0.5, attempts: 2 },
        ],
        waits: [{ blockedOn: 'CloudCapacity', from: 0.025, to: 0.5, took: '38 s', isOpen: false }],
      },
      {
        ...{ step: 'join', from: 0.5, to: 1, took: '40 s', isOpen: true },
        calls: [{ from: 0.5, to: 1, isOpen: true }],
        waits: [{ from: 0.5, to: 0.625, took: '10 s' }],
      },
    ]);
  });

  it('says first why the machine was deleted', () => {
    const cause = 'scale-down of MachineDeployment pool';
    const calls = [{ activity: 'drainNode', start: at(0), attempts: 1 }];
    const drained = { ...none, step: 'drain' as const, start: at(0), cause };
    const { steps } = toLife({ ...timeline, steps: [drained], calls, waits: [] }, msAt(80));
    expect(steps.map(({ notes }) => notes)).toEqual([[cause, 'drainNode']]);
  });

  it('has lines that are equally far apart', () => {
    expect(toLife(timeline, msAt(80))).toMatchObject({
      ...{ distance: '10 s', isLimited: false },
      lines: [0.125, 0.25, 0.375, 0.625, 0.75, 0.875],
    });
  });

  it('is limited to its newest steps', () => {
    const steps = Array.from({ length: maxSteps + 5 }, (_, i) => ({
      ...{ ...none, start: at(i), end: at(i + 1) },
      step: i % 2 === 0 ? ('run' as const) : ('unhealthy' as const),
    }));
    const life = toLife({ steps, calls: [], waits: [], isGone: true, isLost: true, omittedRuns: 0 }, msAt(1_000));
    expect([life.isLimited, life.steps.length, life.steps[0]?.start]).toEqual([true, maxSteps, at(5)]);
    expect([life.isGone, life.isLost]).toEqual([true, true]);
    expect(toLife({ ...timeline, omittedRuns: 1 }, msAt(80)).isLimited).toBe(true);
  });
});
