import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { gardener as api } from '../gardener/index.ts';
import { annotations, labels } from '../gardener/names.ts';
import { names } from '../names.ts';
import type { ObjectMeta } from '../objects.ts';
import {
  countForFreeze,
  freezeThreshold,
  isFrozen,
  isToBeFrozen,
  withFreezeLabel,
  withFrozenCondition,
} from './freeze.ts';
import type { OwnerDeployment, OwnerSet } from './objects.ts';

const limits = { safetyUp: 2, safetyDown: 1 };
const none = { count: 0, released: 0 };
const metadata = {
  name: 'pool',
  namespace: 'n',
  uid: 'u',
  resourceVersion: '1',
  creationTimestamp: '2026-08-19T09:00:00Z',
};
const setWith = (replicas: number, frozen = false): OwnerSet => ({
  metadata: { ...metadata, ...(frozen && { labels: { [labels.freeze]: 'True' } }) },
  spec: { replicas },
});
const deploymentWith = (replicas: number, strategy: object): OwnerDeployment => ({
  metadata,
  spec: { replicas, strategy },
});
const rolling = (maxSurge: number | string) => ({ type: 'RollingUpdate', rollingUpdate: { maxSurge } });

describe('freezeThreshold', () => {
  it.each([
    ['twice the replicas and safetyUp, without a deployment', 3, undefined, 8],
    ['replicas, surge and safetyUp of the deployment', 9, deploymentWith(2, rolling(2)), 6],
    ['a percentage of the surge rounds up', 9, deploymentWith(5, rolling('25%')), 9],
    [
      'the surge of an update in place',
      9,
      deploymentWith(2, { type: 'InPlaceUpdate', inPlaceUpdate: { maxSurge: 1 } }),
      5,
    ],
    ['no surge for Recreate', 9, deploymentWith(2, { type: 'Recreate' }), 4],
  ])('%s', (_title, replicas, deployment, expected) => {
    expect(freezeThreshold(api, setWith(replicas), deployment, limits)).toBe(expected);
  });
});

describe('countForFreeze', () => {
  const machine = (name: string, change: Partial<ObjectMeta> = {}) => ({ metadata: { ...metadata, name, ...change } });
  const released = (by: string, change: Partial<ObjectMeta> = {}) =>
    machine('m', { annotations: { [names.releasedBy]: by }, ...change });
  const leaving = { deletionTimestamp: '2026-08-19T10:00:00Z' };

  it.each([
    ['what it owns', [machine('a'), machine('b')], [], { count: 2, released: 0 }],
    ['what it has released', [machine('a')], [released('pool')], { count: 2, released: 1 }],
    ['nothing that another set has released, or that was made by hand', [], [released('x'), machine('a')], none],
    ['nothing that is being deleted', [machine('a', leaving)], [released('pool', leaving)], none],
  ])('counts %s', (_title, own, ownerless, expected) => {
    expect(countForFreeze(api, setWith(1), own, ownerless)).toEqual(expected);
  });
});

describe('isToBeFrozen', () => {
  it.each([
    [4, false, false],
    [5, false, false],
    [5, true, false],
    [6, false, true],
    [6, true, true],
    [7, false, true],
  ])('%d machines for 2 replicas and a surge of 2, frozen: %s', (count, frozen, expected) => {
    expect(isToBeFrozen(api, setWith(9, frozen), deploymentWith(2, rolling(2)), count, limits)).toBe(expected);
  });

  it('changes nothing of a set that is being deleted', () => {
    const deleted = (frozen: boolean): OwnerSet => {
      const set = setWith(0, frozen);
      return { ...set, metadata: { ...set.metadata, deletionTimestamp: '2026-08-19T10:00:00Z' } };
    };
    expect([false, true].map((frozen) => isToBeFrozen(api, deleted(frozen), undefined, 9, limits))).toEqual([
      false,
      true,
    ]);
  });

  it('freezes at the threshold, thaws at or below threshold minus safetyDown, and else stays as it is', () => {
    const small = fc.nat({ max: 30 });
    const bounds = fc.record({ safetyUp: small, safetyDown: small });
    fc.assert(
      fc.property(
        small,
        small,
        small,
        bounds,
        fc.boolean(),
        fc.boolean(),
        (replicas, surge, count, each, frozen, lone) => {
          const deployment = lone ? undefined : deploymentWith(replicas, rolling(surge));
          const set = setWith(replicas, frozen);
          const most = (lone ? 2 * replicas : replicas + surge) + each.safetyUp;
          const decide = (of: OwnerSet) => isToBeFrozen(api, of, deployment, count, each);
          const decided = decide(set);

          if (count >= most) expect(decided).toBe(true);
          else if (count <= most - each.safetyDown) expect(decided).toBe(false);
          else expect(decided).toBe(frozen);
          expect(decide(setWith(replicas, decided))).toBe(decided); // a second look changes nothing
        },
      ),
    );
  });
});

describe('what is written', () => {
  it('is the label, which is case sensitive', () => {
    expect(withFreezeLabel(api, setWith(1), true)).toEqual({ metadata: { labels: { freeze: 'True' } } });
    expect(withFreezeLabel(api, setWith(1, true), false)).toEqual({ metadata: { labels: { freeze: null } } });
    expect(withFreezeLabel(api, setWith(1, true), true)).toBeUndefined();
    expect(withFreezeLabel(api, setWith(1), false)).toBeUndefined();
    expect(isFrozen(api, { metadata: { ...metadata, labels: { freeze: 'true' } } })).toBe(false);
  });

  it('consumes the annotation unfreeze, also where nothing is frozen', () => {
    const asked = { metadata: { ...metadata, annotations: { [annotations.unfreeze]: '' } } };
    expect(withFreezeLabel(api, asked, false)).toEqual({ metadata: { annotations: { [annotations.unfreeze]: null } } });
  });

  it('is the condition Frozen, beside those of others; one that is True stays', () => {
    const other = { type: 'ReplicaFailure', status: 'True' };
    const now = new Date('2026-08-19T10:00:00Z');
    const wanted = { reason: 'OverShootingReplicaCount', message: 'too many' };
    const frozen = { type: 'Frozen', status: 'True', lastTransitionTime: '2026-08-19T10:00:00Z', ...wanted };

    expect(withFrozenCondition([other], wanted, now)).toEqual([other, frozen]);
    expect(withFrozenCondition([frozen, other], { reason: 'x', message: 'y' }, now)).toBeUndefined();
    expect(withFrozenCondition([frozen, other], undefined, now)).toEqual([other]);
    expect(withFrozenCondition([other], undefined, now)).toBeUndefined();
  });
});
