import { describe, expect, it } from '@jest/globals';
import type { OwnerView, SetView } from '../../api/model/owner.ts';
import type { RolloutStep } from '../../temporal/rollout-steps.ts';
import type { OwnerState } from '../owner-state.ts';
import { maxNames, maxRolloutSteps, toRollout } from './rollout.ts';

const set = (name: string, isNew: boolean, total: number, available = total) =>
  ({ name, isNew, total, active: total, available }) as SetView;

/** The state of a deployment with three replicas, and one machine more and one less during a rollout. */
const stateOf = (...sets: SetView[]): OwnerState => ({
  view: { replicas: 3, maxSurge: 1, maxUnavailable: 1, sets } as unknown as OwnerView,
  ...{ needs: [], waitsFor: undefined, blockedBy: undefined },
});

const step = (more: Partial<RolloutStep> = {}): RolloutStep => ({
  ...{ at: '2026-11-23T10:00:00Z', old: 3, updated: 0, available: 3, replicas: 3 },
  ...{ created: [], deleted: [], selected: [], ...more },
});

const none = { runs: [], steps: [] };
const nowMs = Date.parse('2026-11-23T10:10:00Z');

describe('a rollout', () => {
  it('has its bounds and machines on one scale', () => {
    const state = stateOf(set('old', false, 2), set('empty', false, 0), set('new', true, 2, 1));
    const machines = new Map([
      ['old', ['a', 'b']],
      ['new', ['c', 'd']],
    ]);
    expect(toRollout(state, machines, none, nowMs)).toMatchObject({
      ...{ replicas: 3, most: 4, mostShare: 1, least: 2, leastShare: 0.5 },
      now: { old: 2, updated: 2, available: 3, oldShare: 0.5, updatedShare: 0.5, availableShare: 0.75 },
      sets: [
        { name: 'old', isNew: false, machines: ['a', 'b'] },
        { name: 'new', isNew: true, machines: ['c', 'd'] },
      ],
    });
  });

  it('has a scale on which also a step with more machines than the bound fits', () => {
    const { steps, mostShare } = toRollout(stateOf(), new Map(), { runs: [], steps: [step({ old: 8 })] }, nowMs);
    expect([steps[0]?.oldShare, mostShare]).toEqual([1, 0.5]);
  });

  it('has the machines that block it, and how many more there are', () => {
    const machines = [{ name: 'c', reason: 'Pending' }];
    const blockedBy = { count: 3, machines, problem: 'too many', blockedOn: 'NodeJoin' as const };
    const { blockers, moreBlockers, problem } = toRollout({ ...stateOf(), blockedBy }, new Map(), none, nowMs);
    expect([blockers, moreBlockers, problem]).toEqual([machines, 2, 'too many']);
  });

  it('says what each step did, with the first names', () => {
    const created = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
    const steps = [step({ created, deleted: ['x'] }), step({ selected: ['y'] }), step()];
    expect(toRollout(stateOf(), new Map(), { runs: [], steps }, nowMs).steps.map(({ notes }) => notes)).toEqual([
      ['creates a, b, c, d, e and 2 more', 'deletes x'],
      ['updates in place y'],
      [],
    ]);
  });

  it('has its runs with the time that each took, so far or in all, the reason of a failure, and whether it was paused', () => {
    const of = { workflowId: 'w', set: 'new' };
    const runs = [
      { ...of, runId: '2', start: '2026-11-23T10:00:00Z', outcome: 'running' as const },
      {
        ...of,
        runId: '1',
        start: '2026-11-23T09:00:00Z',
        end: '2026-11-23T09:01:00Z',
        outcome: 'failed' as const,
        failure: 'late',
      },
      {
        ...of,
        ...{ runId: '0', start: '2026-11-23T08:00:00Z', end: '2026-11-23T08:01:00Z' },
        ...{ outcome: 'completed' as const, paused: true as const },
      },
    ];
    expect(toRollout(stateOf(), new Map(), { runs, steps: [] }, nowMs).runs).toMatchObject([
      { outcome: 'running', took: '10 min' },
      { outcome: 'failed', took: '1 min', failure: 'late' },
      { outcome: 'completed', paused: true },
    ]);
  });

  it('is limited', () => {
    const many = Array.from({ length: maxNames + 1 }, (_, i) => `m-${i}`);
    const steps = Array.from({ length: maxRolloutSteps + 1 }, () => step());
    const drawn = toRollout(stateOf(set('new', true, 201)), new Map([['new', many]]), { runs: [], steps }, nowMs);
    expect([drawn.steps.length, drawn.sets[0]?.machines.length]).toEqual([maxRolloutSteps, maxNames]);
  });
});
