import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { gardener } from '../gardener/index.ts';
import { annotations } from '../gardener/names.ts';
import type { Machine } from '../gardener/schema/machine.ts';
import type { MachineDeployment } from '../gardener/schema/machine-deployment.ts';
import { toOrder } from '../in-place-order.ts';
import type { OwnerView, SetView } from '../model/owner.ts';
import { inPlaceOrders, names } from '../names.ts';
import { toCandidates } from './candidates.ts';

const api = { ...gardener, nowMs: Date.now() };

function machine(name: string, setUid: string, phase = 'Running', change: Partial<Machine['metadata']> = {}): Machine {
  return {
    metadata: {
      name,
      uid: name,
      resourceVersion: '1',
      creationTimestamp: '2026-08-19T10:00:00Z',
      ownerReferences: [{ apiVersion: 'v1', kind: 'MachineSet', name: setUid, uid: setUid, controller: true }],
      ...change,
    },
    status: { currentStatus: { phase } },
  };
}

function set(uid: string, change: Partial<SetView> = {}): SetView {
  return {
    name: uid,
    uid,
    resourceVersion: '1',
    generation: 1,
    isNew: false,
    hasOurFinalizer: true,
    deleting: false,
    outdated: [],
    closed: false,
    replicas: 0,
    total: 0,
    active: 0,
    available: 0,
    starting: 0,
    failed: 0,
    replacing: 0,
    ...change,
  };
}

function owner(replicas: number, sets: SetView[], change: Partial<OwnerView> = {}): OwnerView {
  return {
    kind: 'MachineDeployment',
    uid: 'pool',
    resourceVersion: '1',
    generation: 1,
    hasOurFinalizer: true,
    deleting: false,
    outdated: [],
    paused: false,
    replicas,
    strategy: 'RollingUpdate',
    maxSurge: 0,
    maxUnavailable: 0,
    countsLeaving: 'never',
    template: { setName: 'pool-1', hash: '1' },
    sets,
    ...change,
  };
}

const pool: MachineDeployment = {
  metadata: { name: 'pool', uid: 'pool', resourceVersion: '1', creationTimestamp: '2026-08-19T10:00:00Z' },
};

describe('toCandidates', () => {
  const three = ['a', 'b', 'c'].map((name) => machine(name, 'pool-1'));
  const full = set('pool-1', { isNew: true, active: 3 });
  const namesOf = (view: OwnerView, machines: readonly Machine[] = three) =>
    toCandidates(api, pool, view, machines, 100).map(({ name }) => name);

  it('are as many as will be deleted: none, the excess, or all of a deleted owner or set', () => {
    expect(namesOf(owner(3, [full]))).toEqual([]);
    expect(namesOf(owner(9, [full]))).toEqual([]);
    expect(namesOf(owner(1, [full]))).toEqual(['a', 'b']);
    expect(namesOf(owner(3, [full], { deleting: true }))).toEqual(['a', 'b', 'c']);
    expect(namesOf(owner(3, [{ ...full, deleting: true }]))).toEqual(['a', 'b', 'c']);
  });

  it('brings none of an owner or a set that is deleted and whose machines stay, not even Failed ones', () => {
    const machines = [...three.slice(0, 2), machine('c', 'pool-1', 'Failed')];
    const orphaning = { deleting: true, orphans: true } as const;
    expect(namesOf(owner(1, [{ ...full, failed: 1 }], orphaning), machines)).toEqual([]);
    const released = { ...full, failed: 1, ...orphaning };
    for (const change of [{}, { deleting: true }]) expect(namesOf(owner(1, [released], change), machines)).toEqual([]);
    const other = set('pool-2', { isNew: true, active: 1 });
    expect(namesOf(owner(0, [released, other]), [...machines, machine('d', 'pool-2')])).toEqual(['d']);
  });

  it('brings Failed ones, and no other for their sake', () => {
    const machines = [...three.slice(0, 2), machine('c', 'pool-1', 'Failed')];
    expect(namesOf(owner(3, [{ ...full, failed: 1 }]), machines)).toEqual(['c']);
  });

  it('[invariant 7 partly] brings what the autoscaler has scaled down besides the Failed ones, and no other', () => {
    const marked = { [annotations.priority]: '1', [annotations.markedForDeletionTime]: '2026-08-19T11:00:00Z' };
    const machines = [
      three[0]!,
      machine('b', 'pool-1', 'Failed'),
      machine('c', 'pool-1', 'Running', { annotations: marked }),
    ];
    const view = owner(2, [{ ...full, failed: 1, unneeded: 1 }]);
    const scaledAt = (time: string): MachineDeployment => ({
      metadata: { ...pool.metadata, annotations: { [annotations.lastReplicaChangeByScalerTime]: time } },
    });
    const found = toCandidates(api, scaledAt('2026-08-19T11:00:00Z'), view, machines, 100);
    expect(found).toMatchObject([
      { name: 'c', failed: false, unneeded: true },
      { name: 'b', failed: true },
    ]);
  });

  it('brings what is preserved last, even if the autoscaler has scaled it down', () => {
    const marked = { [annotations.priority]: '1', [annotations.markedForDeletionTime]: '2026-08-19T11:00:00Z' };
    const { metadata } = machine('a', 'pool-1', 'Running', { annotations: marked });
    const preserveExpiryTime = new Date(api.nowMs + 3_600_000).toISOString();
    const kept = { metadata, status: { currentStatus: { phase: 'Running', preserveExpiryTime } } };
    const change = { [annotations.lastReplicaChangeByScalerTime]: '2026-08-19T11:00:00Z' };
    const scaled = { metadata: { ...pool.metadata, annotations: change } };
    const found = toCandidates(api, scaled, owner(1, [full]), [kept, ...three.slice(1)], 100);
    expect(found.map(({ name }) => name)).toEqual(['b', 'c']);
  });

  it('brings none of an owner that is not valid, unless it is deleted', () => {
    const wrong = { problem: 'spec.selector is missing' };
    expect(namesOf(owner(1, [{ ...full, failed: 1 }], wrong))).toEqual([]);
    expect(namesOf(owner(1, [full], { ...wrong, deleting: true }))).toEqual(['a', 'b', 'c']);
  });

  it('leaves out machines that are on their way out and those of others', () => {
    const machines = [
      machine('a', 'pool-1'),
      machine('b', 'pool-1', 'Terminating'),
      machine('c', 'pool-1', 'Running', { deletionTimestamp: '2026-08-19T11:00:00Z' }),
      machine('d', 'other'),
    ];
    const view = owner(0, [set('pool-1', { isNew: true, active: 1 })]);
    expect(toCandidates(api, pool, view, machines, 100)).toEqual([
      { name: 'a', uid: 'a', resourceVersion: '1', set: 'pool-1', failed: false },
    ]);
  });

  it('brings of an old set first what works least and what is preserved last, whatever else is to go first', () => {
    const marked = { annotations: { [annotations.priority]: '1' } };
    const kept = machine('kept', 'pool-1', 'Failed', { annotations: { [annotations.preserve]: 'now' } });
    const working = machine('working', 'pool-1', 'Running', marked);
    const updating = machine('updating', 'pool-1', 'Running', {
      annotations: { [names.inPlaceUpdate]: toOrder(inPlaceOrders.selected, 'pool-1') },
    });
    const preserveExpiryTime = new Date(api.nowMs + 3_600_000).toISOString();
    const keptIn = (phase: string) => ({
      ...machine(phase, 'pool-1'),
      status: { currentStatus: { phase, preserveExpiryTime } },
    });
    const others = [machine('unknown', 'pool-1', 'Unknown'), machine('new', 'pool-1', '')];
    const machines = [kept, keptIn('Pending'), keptIn('Running'), working, updating, ...others];
    const old = set('pool-1', { active: 7, available: 3 });
    const all = (view: OwnerView) => namesOf(view, machines);
    expect(all(owner(0, [old]))).toEqual(['new', 'unknown', 'updating', 'working', 'Running', 'Pending', 'kept']);
    expect(all(owner(0, [{ ...old, isNew: true }]))).toEqual([
      'working',
      'new',
      'unknown',
      'updating',
      'Pending',
      'Running',
      'kept',
    ]);
  });

  const anyMachine = fc.record({
    setUid: fc.constantFrom('pool-0', 'pool-1'),
    phase: fc.constantFrom('Running', 'Pending', 'Failed', 'Unknown'),
    priority: fc.constantFrom('1', '3'),
  });

  it('brings every Failed machine and of each set the ones that go first, however few it may bring', () => {
    fc.assert(
      fc.property(fc.array(anyMachine, { maxLength: 20 }), fc.integer({ min: 2, max: 20 }), (traits, limit) => {
        const machines = traits.map(({ setUid, phase, priority }, i) =>
          machine(`m-${i}`, setUid, phase, { annotations: { [annotations.priority]: priority } }),
        );
        const sets = ['pool-0', 'pool-1'].map((uid) => {
          const own = traits.filter(({ setUid }) => setUid === uid);
          const failed = own.filter(({ phase }) => phase === 'Failed').length;
          return set(uid, { isNew: uid === 'pool-1', active: own.length, failed });
        });
        const view = owner(0, sets);
        const all = toCandidates(api, pool, view, machines, 1_000);
        const some = toCandidates(api, pool, view, machines, limit);
        expect(all).toHaveLength(machines.length);
        expect(some).toEqual(all.slice(0, limit));

        const failed = all.filter((candidate) => candidate.failed);
        expect(some.slice(0, failed.length)).toEqual(failed.slice(0, limit));
        if (failed.length > limit - 2) return;
        for (const { name } of sets) {
          const [first] = all.filter((candidate) => !candidate.failed && candidate.set === name);
          if (first !== undefined) expect(some).toContainEqual(first);
        }
      }),
    );
  });
});
