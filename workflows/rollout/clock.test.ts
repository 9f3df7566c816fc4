import { describe, expect, it } from '@jest/globals';
import type { OwnerView, SetView } from '../../api/model/owner.ts';
import { afterOutage, isDue, isReportedLate, tick, tickForward, withNewDeadline } from './clock.ts';

const set: SetView = {
  ...{
    name: 'new',
    uid: 'new',
    resourceVersion: '1',
    generation: 1,
    isNew: true,
    hasOurFinalizer: true,
    deleting: false,
  },
  ...{ outdated: [], closed: false, replicas: 3, total: 1, active: 1, available: 0 },
  ...{ starting: 1, failed: 0, replacing: 0 },
};
const old: SetView = {
  ...set,
  name: 'old',
  uid: 'old',
  isNew: false,
  total: 3,
  active: 3,
  available: 3,
  starting: 0,
};
const rolling: OwnerView = {
  ...{
    kind: 'MachineDeployment',
    uid: 'owner',
    resourceVersion: '1',
    generation: 1,
    hasOurFinalizer: true,
    deleting: false,
  },
  ...{
    outdated: [],
    paused: false,
    replicas: 3,
    strategy: 'RollingUpdate',
    maxSurge: 1,
    maxUnavailable: 0,
    countsLeaving: 'never',
  },
  ...{ progress: 'updated', progressDeadlineSeconds: 10 },
  template: { setName: 'new', hash: '1' },
  sets: [old, set],
};

/** The clock after these views, one a second. */
function after(...views: readonly OwnerView[]) {
  return views.reduce<ReturnType<typeof tick>>((clock, view, second) => tick(clock, view, second * 1_000), undefined);
}
const sinceMs = (...views: readonly OwnerView[]) => after(...views)?.sinceMs;
const withNew = (change: Partial<SetView>): OwnerView => ({ ...rolling, sets: [old, { ...set, ...change }] });

describe('the clock of a rollout', () => {
  it.each<[string, OwnerView]>([
    ['a machine more of the template', withNew({ active: 2, total: 2 })],
    ['one more of them that is available', withNew({ available: 1, starting: 0 })],
    ['a machine less of an older template', { ...rolling, sets: [{ ...old, total: 2, active: 2 }, set] }],
    ['another template', { ...rolling, template: { setName: 'newer', hash: '2' } }],
    ['other replicas', { ...rolling, replicas: 4 }],
  ])('[mcm 80 partly] counts %s as progress', (_name, view) => {
    expect([sinceMs(rolling, view), sinceMs(rolling, view, view)]).toEqual([1_000, 1_000]);
  });

  it('[mcm 80 partly] counts nothing else, nor what was there before', () => {
    const replaced = withNew({ active: 0, total: 1, failed: 0, replacing: 1 });
    const busy = { ...rolling, sets: [{ ...old, active: 2, available: 2 }, set], resourceVersion: '9', maxSurge: 2 };
    expect(sinceMs(rolling, replaced, rolling, busy)).toBe(0);
  });

  it.each<[string, Partial<OwnerView>]>([
    ['complete', { progress: 'complete', sets: [{ ...set, total: 3, active: 2, available: 2 }] }],
    ['paused', { paused: true }],
    ['an in-place update of machines that people select', { strategy: 'InPlace', selectsManually: true }],
    ['not valid', { problem: 'spec.selector is missing' }],
    ['being deleted', { deleting: true }],
    ['of a set alone', { kind: 'MachineSet' }],
  ])('stands still for one that is %s', (_name, change) => {
    expect(after(rolling, { ...rolling, ...change })).toBeUndefined();
  });

  it('[mcm 80 partly] is due once its time is over, which is 15 minutes without a deadline', () => {
    const clock = tick(undefined, rolling, 5_000);
    const { progressDeadlineSeconds: _, ...patient } = rolling;
    if (clock === undefined) throw new Error('no clock');
    expect([14_999, 15_000].map((now) => isDue(clock, rolling, now))).toEqual([false, true]);
    expect([904_999, 905_000].map((now) => isDue(clock, patient, now))).toEqual([false, true]);
    expect(isDue({ ...clock, isLate: true }, rolling, 99_000)).toBe(false);
    expect([rolling, patient].map((view) => isReportedLate({ ...clock, isLate: true }, view))).toEqual([true, false]);
  });

  it('[mcm 80 partly] is late until there is progress, also where only the status says so', () => {
    const reported: OwnerView = { ...rolling, progress: 'late' };
    const late = after(reported, reported);
    expect(late).toMatchObject({ isLate: true });
    expect(tick(late, withNew({ available: 1 }), 7_000)).toMatchObject({ isLate: false, sinceMs: 7_000 });
    const another = { ...reported, template: { setName: 'newer', hash: '2' } };
    expect(tick(late, another, 7_000)).toMatchObject({ isLate: false, sinceMs: 7_000 });
  });

  it('is not late for a template that has no set yet, whatever the status says of the one before', () => {
    const reported: OwnerView = { ...rolling, progress: 'late', sets: [old] };
    expect(tick(undefined, reported, 7_000)).toMatchObject({ isLate: false, sinceMs: 7_000 });
  });

  it('starts again when a rollout that was late without a deadline gets one', () => {
    const late = { ...after(rolling)!, isLate: true };
    const { progressDeadlineSeconds: _, ...patient } = rolling;
    expect(withNewDeadline(late, rolling, 7_000)).toEqual({ ...late, isLate: false, sinceMs: 7_000 });
    expect(withNewDeadline(late, patient, 7_000)).toBe(late);
    expect(withNewDeadline(late, { ...rolling, progress: 'late' }, 7_000)).toBe(late);
    expect(withNewDeadline(after(rolling), rolling, 7_000)).toEqual(after(rolling));
  });

  it('[invariant 6 partly] starts again after an outage', () => {
    expect(afterOutage(after(rolling), 8_000)).toEqual({ ...after(rolling), sinceMs: 8_000 });
    expect(afterOutage(undefined, 8_000)).toBeUndefined();
  });

  it('takes from a cache, which may be behind, progress alone', () => {
    const clock = after(rolling);
    const before = { ...rolling, template: { setName: 'older', hash: '0' } };
    expect(tickForward(clock, before, 3_000)).toBe(clock);
    expect(tickForward(clock, { ...rolling, progress: 'complete', sets: [set] }, 3_000)).toBe(clock);
    expect(tickForward(clock, withNew({ available: 1 }), 3_000)).toMatchObject({ available: 1, sinceMs: 3_000 });
    expect(tickForward(undefined, rolling, 3_000)).toBeUndefined();
  });
});
