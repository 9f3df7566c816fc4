import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { names } from '../names.ts';
import type { Machine } from './machine.ts';
import type { MachineDeployment } from './machine-deployment.ts';
import type { MachineSet } from './machine-set.ts';
import { annotations, finalizers } from './names.ts';
import { controllerOf, isLone, toCandidates, toDeploymentView, toLoneSetView } from './owner.ts';
import { newSetName, templateHash } from './template.ts';

type Meta = Machine['metadata'];

function meta(name: string, change: Partial<Meta> = {}): Meta {
  return {
    name,
    namespace: 'n',
    uid: name,
    resourceVersion: '1',
    generation: 1,
    creationTimestamp: '2026-08-19T10:00:00Z',
    ...change,
  };
}

function ownedBy(uid: string): Pick<Meta, 'ownerReferences'> {
  return { ownerReferences: [{ apiVersion: 'v1', kind: 'Owner', name: uid, uid, controller: true }] };
}

function template(className: string) {
  return { metadata: { labels: { name: 'pool' } }, spec: { class: { kind: 'MachineClass', name: className } } };
}

function deployment(change: Partial<NonNullable<MachineDeployment['spec']>> = {}): MachineDeployment {
  return {
    metadata: meta('pool', { finalizers: [finalizers.machine] }),
    spec: { replicas: 3, template: template('small'), ...change },
    status: { observedGeneration: 1 },
  };
}

function set(name: string, className: string, change: Partial<Meta> = {}): MachineSet {
  return {
    metadata: meta(name, { finalizers: [finalizers.machine], ...ownedBy('pool'), ...change }),
    spec: { replicas: 2, template: template(className) },
    status: { observedGeneration: 1 },
  };
}

function machine(name: string, setUid: string, phase = 'Running', change: Partial<Meta> = {}): Machine {
  return { metadata: meta(name, { ...ownedBy(setUid), ...change }), status: { currentStatus: { phase } } };
}

const leaving = { deletionTimestamp: '2026-08-19T11:00:00Z' };
const replaced = { ...leaving, annotations: { [names.replaced]: 'true' } };

describe('toDeploymentView', () => {
  it('takes the oldest set with the template of the deployment, and passes over those of others', () => {
    const old = set('pool-old', 'large');
    const second = set('pool-2', 'small', { creationTimestamp: '2026-08-19T12:00:00Z' });
    const first = set('pool-1', 'small', { creationTimestamp: '2026-08-19T11:00:00Z' });
    const foreign = set('foreign', 'small', ownedBy('other'));
    const view = toDeploymentView(deployment(), [second, foreign, first, old], []);
    expect(view.sets.map(({ name, current }) => [name, current])).toEqual([
      ['pool-old', false],
      ['pool-1', true],
      ['pool-2', false],
    ]);
    expect(view.template).toEqual({ setName: 'pool-1', hash: templateHash(template('small')) });
  });

  it('prefers a set that stays to an older one that somebody deleted', () => {
    const deleted = set('pool-1', 'small', leaving);
    const view = toDeploymentView(deployment(), [deleted, set('pool-2', 'small')], []);
    expect(view.sets.map(({ current, deleting }) => [current, deleting])).toEqual([
      [false, true],
      [true, false],
    ]);
    expect(toDeploymentView(deployment(), [deleted], []).sets).toMatchObject([{ current: true, deleting: true }]);
  });

  it('[mcm 82] names the set that does not exist yet, another one after each collision', () => {
    const view = toDeploymentView(deployment(), [set('pool-1', 'large')], []);
    const hash = templateHash(template('small'));
    expect(view.template).toEqual({ setName: newSetName('pool', hash), hash });
    const collided = { ...deployment(), status: { collisionCount: 1 } };
    expect(toDeploymentView(collided, [], []).template).not.toEqual(view.template);
  });

  it('[mcm 67] counts the machines of each set', () => {
    const machines = [
      machine('a', 'pool-1', 'Running'),
      machine('b', 'pool-1', 'Available'),
      machine('c', 'pool-1', 'Failed'),
      machine('d', 'pool-1', 'Failed', { annotations: { [annotations.preserve]: 'now' } }),
      machine('e', 'pool-1', 'Terminating'),
      machine('f', 'pool-1', 'Running', leaving),
      machine('g', 'pool-1', 'Failed', replaced),
      machine('h', 'pool-1', ''),
      machine('i', 'pool-0', 'Running'),
      machine('j', 'other', 'Running'),
    ];
    const view = toDeploymentView(deployment(), [set('pool-1', 'small'), set('pool-0', 'large')], machines);
    expect(view.sets).toMatchObject([
      { name: 'pool-0', total: 1, active: 1, available: 1, failed: 0, replacing: 0, replicas: 2 },
      { name: 'pool-1', total: 8, active: 5, available: 2, failed: 1, replacing: 1, replicas: 2 },
    ]);
  });

  it.each([
    [{ type: 'RollingUpdate', rollingUpdate: { maxSurge: 2 } }, 2],
    [{ type: 'RollingUpdate', rollingUpdate: { maxSurge: '25%' } }, 1],
    [{ type: 'RollingUpdate', rollingUpdate: { maxSurge: '100%' } }, 3],
    [{ type: 'RollingUpdate', rollingUpdate: { maxSurge: '0%' } }, 0],
    [{ type: 'InPlaceUpdate', inPlaceUpdate: { maxSurge: 1 }, rollingUpdate: { maxSurge: 5 } }, 1],
    [{ type: 'Recreate', rollingUpdate: { maxSurge: 5 } }, 0],
    [{ type: 'RollingUpdate' }, 0],
    [{ type: 'toString', rollingUpdate: { maxSurge: 5 } }, 0],
    [undefined, 0],
  ])('resolves the surge of %j for 3 replicas to %p', (strategy, maxSurge) => {
    const view = toDeploymentView(deployment(strategy === undefined ? {} : { strategy }), [], []);
    expect(view.maxSurge).toBe(maxSurge);
  });

  it('says whether the generation was taken note of, our finalizer is there, and what was reported', () => {
    const view = toDeploymentView(deployment(), [set('pool-1', 'small')], []);
    expect(view).toMatchObject({
      managed: true,
      observed: true,
      deleting: false,
      sets: [{ managed: true, observed: true }],
    });
    expect(view).not.toHaveProperty('progress');
    const changed: MachineDeployment = {
      metadata: meta('pool', { generation: 2, ...leaving }),
      status: { observedGeneration: 1, conditions: [{ type: 'Progressing', status: 'True', reason: 'X' }] },
    };
    expect(toDeploymentView(changed, [], [])).toMatchObject({
      managed: false,
      observed: false,
      deleting: true,
      progress: 'X',
      replicas: 0,
    });
  });
});

describe('toLoneSetView', () => {
  it('sees a set as the owner of itself', () => {
    const { ownerReferences: _, ...metadata } = meta('lone', { finalizers: [finalizers.machine] });
    const lone: MachineSet = { metadata, spec: { replicas: 2 }, status: { observedGeneration: 1 } };
    const view = toLoneSetView(lone, [machine('a', 'lone'), machine('b', 'other')]);
    expect(view).toMatchObject({
      kind: 'MachineSet',
      replicas: 2,
      maxSurge: 0,
      managed: true,
      observed: true,
      sets: [{ name: 'lone', current: true, replicas: 2, total: 1, available: 1 }],
    });
  });
});

describe('isLone', () => {
  it('holds for a set that nothing controls, and for one whose deployment is gone or another', () => {
    const owned = set('pool-1', 'small');
    expect(isLone({ metadata: meta('lone') }, undefined)).toBe(true);
    expect(isLone(owned, undefined)).toBe(true);
    expect(isLone(owned, { metadata: meta('pool', { uid: 'made again' }) })).toBe(true);
    expect(isLone(owned, deployment())).toBe(false);
  });
});

describe('controllerOf', () => {
  it('is the owner that controls, whatever other owners there are', () => {
    const other = { apiVersion: 'v1', kind: 'Other', name: 'o', uid: 'o' };
    const ownerReferences = [other, { ...other, uid: 'c', controller: true }];
    expect(controllerOf({ metadata: { uid: 'u', ownerReferences } })).toBe('c');
    expect(controllerOf({ metadata: { uid: 'u', ownerReferences: [other] } })).toBeUndefined();
    expect(controllerOf({ metadata: { uid: 'u' } })).toBeUndefined();
  });
});

describe('toCandidates', () => {
  const sets = [set('pool-0', 'large'), set('pool-1', 'small')];

  it('leaves out machines that are on their way out and those of others', () => {
    const machines = [
      machine('a', 'pool-1'),
      machine('b', 'pool-1', 'Terminating'),
      machine('c', 'pool-1', 'Running', leaving),
      machine('d', 'other'),
    ];
    const view = toDeploymentView(deployment(), sets, machines);
    expect(toCandidates(view, machines, 100)).toEqual([
      { name: 'a', uid: 'a', resourceVersion: '1', set: 'pool-1', failed: false },
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
        const view = toDeploymentView(deployment(), sets, machines);
        const all = toCandidates(view, machines, 1_000);
        const some = toCandidates(view, machines, limit);
        expect(all).toHaveLength(machines.length);
        expect(some).toEqual(all.slice(0, limit));

        const failed = all.filter((candidate) => candidate.failed);
        expect(some.slice(0, failed.length)).toEqual(failed.slice(0, limit));
        if (failed.length > limit - 2) return;
        for (const { name } of sets.map(({ metadata }) => metadata)) {
          const [first] = all.filter((candidate) => !candidate.failed && candidate.set === name);
          if (first !== undefined) expect(some).toContainEqual(first);
        }
      }),
    );
  });
});
