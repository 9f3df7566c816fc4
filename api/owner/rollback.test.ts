import { describe, expect, it } from '@jest/globals';
import { gardener as api } from '../gardener/index.ts';
import { annotations as keys, labels } from '../gardener/names.ts';
import { names } from '../names.ts';
import type { OwnerDeployment, OwnerSet } from './objects.ts';
import { askedRollback, lateRollback, problemOfRollback, rollbacksOf, takenBackSet } from './rollback.ts';
import { templateHash } from './template.ts';

const metadata = { uid: 'u', resourceVersion: '1', creationTimestamp: '2030-01-01T00:00:00Z' };
const templateOf = (name: string) => ({ metadata: { labels: { name: 'pool' } }, spec: { class: { name } } });

function setOf(name: string, revision: number, ofSet: Record<string, string> = {}): OwnerSet {
  const { metadata: meta, spec } = templateOf(name);
  const hashed = { ...meta.labels, [labels.templateHash]: '1' };
  return {
    metadata: { ...metadata, name, annotations: { ...ofSet, [keys.revision]: String(revision) } },
    spec: { template: { metadata: { labels: hashed }, spec } },
  };
}

function deploymentOf(name: string, revision?: number, own: Record<string, string> = {}): OwnerDeployment {
  const rollbackTo = revision === undefined ? {} : { rollbackTo: { revision } };
  return {
    metadata: { ...metadata, name: 'pool', annotations: own },
    spec: { template: templateOf(name), ...rollbackTo },
  };
}

describe('a rollback that is asked for', () => {
  const sets = [setOf('a', 1, { note: 'first', [names.completed]: 'x' }), setOf('c', 3), setOf('b', 2)];

  it('[mcm 79 partly] takes template and annotations of the revision, and leaves those of our own', () => {
    const deployment = deploymentOf('c', 1, { added: 'later', [names.rollbackWhenLate]: 'true' });
    const { kind, note, patch } = askedRollback(api, deployment, sets);
    expect([kind, note]).toEqual(['done', 'Rolled back deployment "pool" to revision 1']);
    expect(patch).toEqual({
      metadata: { annotations: { added: null, note: 'first' } },
      spec: { rollbackTo: null, template: { spec: { class: { name: 'a' } } } },
    });
  });

  it.each([
    [0, 'done', 'Rolled back deployment "pool" to revision 2'],
    [9, 'revisionNotFound', 'Unable to find the revision to rollback to.'],
    [3, 'templateUnchanged', 'The rollback revision contains the same template as current deployment "pool"'],
  ])('[mcm 79 partly] to revision %d is %s', (revision, kind, note) => {
    const found = askedRollback(api, deploymentOf('c', revision), sets);
    expect(found).toMatchObject({ kind, note, patch: { spec: { rollbackTo: null } } });
  });

  it('finds no last revision where there is one template', () => {
    const { kind, note } = askedRollback(api, deploymentOf('a', 0), [setOf('a', 1)]);
    expect([kind, note]).toEqual(['revisionNotFound', 'Unable to find last revision.']);
  });
});

describe('a rollout that is late', () => {
  const completed = (revision: string) => ({ [names.completed]: revision });
  // 'a' was complete again as revision 3; 'b' is wanted for the second time as revision 5, and was complete as revision
  // 2.
  const sets = [setOf('a', 3, completed('3')), setOf('b', 5, completed('2')), setOf('d', 4), setOf('c', 6)];
  const wanted = { [names.rollbackWhenLate]: 'true' };

  it('goes back to the revision that was complete last', () => {
    const hash = templateHash(api, templateOf('c'));
    expect(lateRollback(api, deploymentOf('c', undefined, wanted), sets)).toMatchObject({
      kind: 'done',
      patch: {
        metadata: { annotations: { [names.rolledBack]: hash } },
        spec: { template: { spec: { class: { name: 'a' } } } },
      },
    });
  });

  it.each<[string, OwnerDeployment, OwnerSet[]]>([
    ['nobody wants that', deploymentOf('c'), sets],
    ['no revision was complete', deploymentOf('c', undefined, wanted), [setOf('c', 4), setOf('d', 3)]],
    ['its own was', deploymentOf('b', undefined, wanted), sets],
    [
      'its template was rolled back before',
      deploymentOf('c', undefined, { ...wanted, [names.rolledBack]: templateHash(api, templateOf('c')) }),
      sets,
    ],
    [
      'its template was rolled back before, and a person has removed the annotation',
      deploymentOf('c', undefined, wanted),
      [setOf('a', 7, { ...completed('7'), [names.rolledBack]: templateHash(api, templateOf('c')) }), setOf('c', 6)],
    ],
  ])('stays when %s', (_, deployment, own) => {
    expect(lateRollback(api, deployment, own)).toBeUndefined();
  });

  it('is recorded as complete once for each revision of its set', () => {
    const isLacking = (set: OwnerSet) => rollbacksOf(api, deploymentOf('a', undefined, wanted), set).lacksCompletion;
    expect([setOf('a', 3, completed('3')), setOf('a', 3, completed('1')), setOf('a', 3)].map(isLacking)).toEqual([
      undefined,
      true,
      true,
    ]);
  });

  it('is not recorded for a set without a revision, which somebody has removed', () => {
    const { metadata: meta, ...rest } = setOf('a', 1);
    const set = { ...rest, metadata: { ...meta, annotations: completed('1') } };
    expect(rollbacksOf(api, deploymentOf('a', undefined, wanted), set)).not.toHaveProperty('lacksCompletion');
  });

  it('is refused with another value than true', () => {
    expect(problemOfRollback(deploymentOf('c', undefined, { [names.rollbackWhenLate]: 'yes' }))).toBe(
      "metadata.annotations['millwright.dev/rollback-when-late'] is 'yes': set it to true, or remove it",
    );
    expect(problemOfRollback(deploymentOf('c', undefined, wanted))).toBeUndefined();
  });
});

describe('the set that a deployment went back from', () => {
  const taken = (name: string) => ({ [names.rolledBack]: templateHash(api, templateOf(name)) });
  const back = deploymentOf('a', undefined, taken('b'));

  it('is the newest one besides that of the template, if its template was rolled back', () => {
    const b = setOf('b', 2);
    expect(takenBackSet(api, back, [setOf('a', 1), b])).toBe(b);
    const again = { ...taken('b'), [keys.revisionHistory]: '1' };
    expect(takenBackSet(api, back, [setOf('a', 3, again), b])).toBe(b);
  });

  it.each<[string, OwnerDeployment, OwnerSet[]]>([
    ['nothing was rolled back', deploymentOf('a'), [setOf('a', 3), setOf('b', 2)]],
    ['the rollout came after it', deploymentOf('c', undefined, taken('b')), [setOf('a', 3), setOf('b', 2)]],
    [
      'another template came right after it',
      deploymentOf('c', undefined, taken('b')),
      [setOf('a', 1), setOf('b', 2), setOf('c', 3)],
    ],
    ['a later template was undone', back, [setOf('a', 5, taken('b')), setOf('b', 2), setOf('c', 4)]],
    ['it was applied again and undone', back, [setOf('a', 5, taken('b')), setOf('b', 4, taken('b'))]],
    ['it was applied again', deploymentOf('b', undefined, taken('b')), [setOf('a', 3), setOf('b', 4)]],
    ['it does not exist any more', back, [setOf('a', 3, taken('b'))]],
  ])('is none when %s', (_, deployment, own) => {
    expect(takenBackSet(api, deployment, own)).toBeUndefined();
  });
});
