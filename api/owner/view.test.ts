import { describe, expect, it } from '@jest/globals';
import { gardener } from '../gardener/index.ts';
import { annotations, finalizers, labels } from '../gardener/names.ts';
import type { Machine } from '../gardener/schema/machine.ts';
import type { MachineDeployment } from '../gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../gardener/schema/machine-set.ts';
import { names } from '../names.ts';
import { controllerOf } from './ownership.ts';
import { newSetName, templateHash } from './template.ts';
import { isLone, toDeploymentView, toLoneSetView } from './view.ts';

const api = { ...gardener, nowMs: Date.now() };

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
    spec: {
      replicas: 3,
      selector: { matchLabels: { name: 'pool' } },
      template: template('small'),
      strategy: { type: 'Recreate' },
      ...change,
    },
    status: { observedGeneration: 1 },
  };
}

function set(name: string, className: string, change: Partial<Meta> = {}): MachineSet {
  return {
    metadata: meta(name, { finalizers: [finalizers.machine], ...ownedBy('pool'), ...change }),
    spec: { replicas: 2, selector: { matchLabels: { name: 'pool' } }, template: template(className) },
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
    const view = toDeploymentView(api, deployment(), [second, foreign, first, old], []);
    expect(view.sets.map(({ name, isNew }) => [name, isNew])).toEqual([
      ['pool-old', false],
      ['pool-1', true],
      ['pool-2', false],
    ]);
    expect(view.template).toEqual({ setName: 'pool-1', hash: templateHash(api, template('small')), revision: 1 });
  });

  it('has the revision that the set of the template has, or gets when it is the newest again', () => {
    const withRevision = (name: string, className: string, revision: string) =>
      set(name, className, { annotations: { [annotations.revision]: revision } });
    const other = withRevision('pool-2', 'large', '4');
    const revisionOf = (...own: MachineSet[]) => toDeploymentView(api, deployment(), own, []).template.revision;
    expect(revisionOf(withRevision('pool-1', 'small', '6'), other)).toBe(6);
    expect(revisionOf(withRevision('pool-1', 'small', '3'), other)).toBe(5);
    expect(revisionOf(other)).toBe(5);
    expect(revisionOf()).toBe(1);
  });

  it('prefers a set that stays to an older one that somebody deleted', () => {
    const deleted = set('pool-1', 'small', leaving);
    const view = toDeploymentView(api, deployment(), [deleted, set('pool-2', 'small')], []);
    expect(view.sets.map(({ isNew, deleting }) => [isNew, deleting])).toEqual([
      [false, true],
      [true, false],
    ]);
    expect(toDeploymentView(api, deployment(), [deleted], []).sets).toMatchObject([{ isNew: true, deleting: true }]);
  });

  it('has no progress deadline where it is missing, 0 or less', () => {
    const deadlineOf = (progressDeadlineSeconds?: number) => {
      const change = progressDeadlineSeconds === undefined ? {} : { progressDeadlineSeconds };
      return toDeploymentView(api, deployment(change), [], []).progressDeadlineSeconds;
    };
    expect([undefined, 0, -5, 1].map(deadlineOf)).toEqual([undefined, undefined, undefined, 1]);
  });

  it('[mcm 82 partly] names the set that does not exist yet, another one after each collision', () => {
    const view = toDeploymentView(api, deployment(), [set('pool-1', 'large')], []);
    const hash = templateHash(api, template('small'));
    expect(view.template).toEqual({ setName: newSetName('pool', hash), hash, revision: 1 });
    const collided = { ...deployment(), status: { collisionCount: 1 } };
    expect(toDeploymentView(api, collided, [], []).template).not.toEqual(view.template);
  });

  it('[mcm 67 partly] counts the machines of each set', () => {
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
    const view = toDeploymentView(api, deployment(), [set('pool-1', 'small'), set('pool-0', 'large')], machines);
    expect(view.sets).toMatchObject([
      { name: 'pool-0', total: 1, active: 1, available: 1, failed: 0, replacing: 0, replicas: 2 },
      { name: 'pool-1', total: 8, active: 5, available: 2, failed: 1, replacing: 1, replicas: 2 },
    ]);
  });

  it('counts a machine that names a VM and has no status as one that may have been available: it was restored so', () => {
    const restored: Machine = { metadata: machine('a', 'pool-1').metadata, spec: { providerID: 'x:///a' } };
    const created: Machine = { metadata: machine('b', 'pool-1').metadata };
    const { sets } = toDeploymentView(api, deployment(), [set('pool-1', 'small')], [restored, created]);
    expect(sets).toMatchObject([{ active: 2, available: 0, starting: 1 }]);
  });

  it('counts a machine that has joined as one that may have been available, whatever its status says', () => {
    const all = ['a', 'b'].map((name) => machine(name, 'pool-1', 'Pending'));
    const joined = new Set([all[0]!.metadata.uid]);
    const { sets } = toDeploymentView({ ...api, joined }, deployment(), [set('pool-1', 'small')], all);
    expect(sets).toMatchObject([{ active: 2, available: 0, starting: 1 }]);
  });

  it('sets aside what is preserved and not available, in any phase, until its preservation is over or it is deleted', () => {
    const until = (hours: number) => new Date(api.nowMs + hours * 3_600_000).toISOString();
    const kept = (name: string, phase: string, hours: number): Machine => {
      const { metadata } = machine(name, 'pool-1');
      return { metadata, status: { currentStatus: { phase, preserveExpiryTime: until(hours) } } };
    };
    const deleted = kept('f', 'Unknown', 1);
    const machines = [
      { ...deleted, metadata: { ...deleted.metadata, deletionTimestamp: until(0) } },
      kept('a', 'Failed', 1),
      kept('b', 'Unknown', 1),
      kept('c', 'Running', 1),
      kept('d', 'Failed', -1),
      kept('e', 'Pending', 1),
    ];
    const viewAt = (nowMs: number) =>
      toDeploymentView({ ...api, nowMs }, deployment(), [set('pool-1', 'small')], machines).sets;
    expect(viewAt(api.nowMs)).toMatchObject([
      { total: 6, active: 5, setAside: 3, starting: 0, preservedAvailable: 1, preserved: 1, failed: 1 },
    ]);
    expect(viewAt(api.nowMs + 2 * 3_600_000)).toMatchObject([{ failed: 2, starting: 1 }]);
  });

  it.each([
    [undefined, 'never'],
    ['TerminationStarted', 'never'],
    ['TerminationComplete', 'inRollouts'],
  ])('says whether machines that are being deleted count, where the policy is %s', (policy, expected) => {
    const { metadata, ...rest } = deployment();
    const annotated = { ...metadata, ...(policy && { annotations: { [names.replacementPolicy]: policy } }) };
    expect(toDeploymentView(api, { ...rest, metadata: annotated }, [], []).countsLeaving).toBe(expected);
  });

  it('counts the marked machines of each set, and the available ones without a mark', () => {
    const marked = { annotations: { [annotations.priority]: '1' } };
    const machines = [
      machine('a', 'pool-1', 'Running', marked),
      machine('b', 'pool-1', 'Unknown', marked),
      machine('c', 'pool-1', 'Failed', marked),
      machine('d', 'pool-1', 'Running', { ...marked, ...leaving }),
      machine('e', 'pool-1', 'Running'),
      machine('f', 'pool-1', 'Pending'),
    ];
    const [view] = toDeploymentView(api, deployment(), [set('pool-1', 'small')], machines).sets;
    expect(view).toMatchObject({ available: 2, marked: 2, unmarked: 1 });
    const [plain] = toDeploymentView(api, deployment(), [set('pool-1', 'small')], machines.slice(4)).sets;
    expect(plain).not.toHaveProperty('marked');
    expect(plain).not.toHaveProperty('unmarked');
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
    const view = toDeploymentView(api, deployment(strategy === undefined ? {} : { strategy }), [], []);
    expect(view.maxSurge).toBe(maxSurge);
  });

  it('says whether the generation is recorded, our finalizer is there, and what was reported', () => {
    const view = toDeploymentView(api, deployment(), [set('pool-1', 'small')], []);
    expect(view).toMatchObject({
      hasOurFinalizer: true,
      outdated: [],
      deleting: false,
      sets: [{ hasOurFinalizer: true, outdated: ['annotations'] }],
    });
    expect(view).not.toHaveProperty('progress');
    const changed: MachineDeployment = {
      metadata: meta('pool', { generation: 2, ...leaving }),
      status: { observedGeneration: 1, conditions: [{ type: 'Progressing', status: 'True', reason: 'X' }] },
    };
    expect(toDeploymentView(api, changed, [], [])).toMatchObject({
      hasOurFinalizer: false,
      outdated: ['status'],
      deleting: true,
      progress: 'other',
      replicas: 0,
    });
  });
});

describe('what a view says of an owner that is deleted with --cascade=orphan', () => {
  const orphaning = (change: Partial<Meta>) => ({ finalizers: [finalizers.machine, 'orphan'], ...change });

  it.each<[string, Partial<Meta>, boolean]>([
    ['that what it owns stays', orphaning(leaving), true],
    ['nothing of it before it is deleted', orphaning({}), false],
    ['nothing of it once all is released', { finalizers: [finalizers.machine], ...leaving }, false],
  ])('is %s', (_name, change, orphans) => {
    const { metadata, ...rest } = deployment();
    const deleted = toDeploymentView(api, { ...rest, metadata: { ...metadata, ...change } }, [], []);
    const [ofDeployment] = toDeploymentView(api, deployment(), [set('pool-1', 'small', change)], []).sets;
    const lone = toLoneSetView(api, set('lone', 'small', change), []);
    expect([deleted, ofDeployment, lone, lone.sets[0]].map((one) => one?.orphans === true)).toEqual(
      Array.from({ length: 4 }, () => orphans),
    );
  });
});

describe('what a view says of the owner itself', () => {
  const current = (change: Partial<Meta> = {}) =>
    set('pool-1', 'small', { annotations: { [annotations.revision]: '7' }, ...change });

  it('is up to date once the deployment has the revision of its set', () => {
    const bare = deployment();
    expect(toDeploymentView(api, bare, [current()], []).outdated).toEqual(['status']);
    const metadata = { ...bare.metadata, annotations: { [annotations.revision]: '7' } };
    expect(toDeploymentView(api, { ...bare, metadata }, [current()], []).outdated).toEqual([]);
  });

  it('names the problem, and is up to date once the status reports that and nothing else', () => {
    const wrong = deployment({ selector: {} });
    const { problem, outdated } = toDeploymentView(api, wrong, [], []);
    expect([problem, outdated]).toEqual([expect.stringContaining('spec.selector'), ['status']]);
    const told = { type: 'Progressing', status: 'False', reason: 'InvalidSpec', message: problem ?? '' };
    const status = { observedGeneration: 1, conditions: [told] };
    expect(toDeploymentView(api, { ...wrong, status }, [], [])).toMatchObject({ problem, outdated: [] });
    const mended = toDeploymentView(api, { ...deployment(), status }, [], []);
    expect(mended.outdated).toEqual(['status']);
    expect(mended).not.toHaveProperty('problem');
    expect(mended).not.toHaveProperty('progress');
  });

  it.each<[string, Partial<Meta>, Partial<Meta>, boolean]>([
    ['nothing', {}, {}, false],
    ['the label of the deployment', { labels: { freeze: 'True' } }, {}, true],
    ['the label of the set', {}, { labels: { freeze: 'True' } }, true],
    ['a label that says something else', { labels: { freeze: 'true' } }, { labels: { freeze: 'yes' } }, false],
    ['an update in place', {}, { labels: { [labels.scaleUpDisabled]: '' } }, true],
  ])('a set is closed to new machines by %s: %j %j', (_name, owner, own, closed) => {
    const { metadata, ...rest } = deployment();
    const view = toDeploymentView(api, { ...rest, metadata: { ...metadata, ...owner } }, [current(own)], []);
    expect(view.sets).toMatchObject([{ closed }]);
    expect(toLoneSetView(api, current(own), []).sets).toMatchObject([{ closed: closed && own.labels !== undefined }]);
  });

  it('a set knows what is asked for by its annotations, unless it is old and empty', () => {
    const told = { [annotations.desiredReplicas]: '3', [annotations.maxReplicas]: '3' };
    const stale = { ...told, [annotations.desiredReplicas]: '2' };
    const old = set('pool-0', 'large', { annotations: stale });
    const annotated = (one: MachineSet) =>
      !toDeploymentView(api, deployment(), [one], []).sets[0]?.outdated.includes('annotations');
    expect(annotated(current({ annotations: told }))).toBe(true);
    expect(annotated(current({ annotations: stale }))).toBe(false);
    expect(annotated(old)).toBe(false);
    expect(annotated({ ...old, spec: { ...old.spec, replicas: 0 } })).toBe(true);
  });
});

describe('toLoneSetView', () => {
  it('sees a set as the owner of itself', () => {
    const { ownerReferences: _, ...metadata } = meta('lone', { finalizers: [finalizers.machine] });
    const lone: MachineSet = { ...set('lone', 'small'), metadata };
    const view = toLoneSetView(api, lone, [machine('a', 'lone'), machine('b', 'other')]);
    expect(view).toMatchObject({
      kind: 'MachineSet',
      replicas: 2,
      maxSurge: 0,
      hasOurFinalizer: true,
      outdated: [],
      sets: [{ name: 'lone', isNew: true, replicas: 2, total: 1, available: 1 }],
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
