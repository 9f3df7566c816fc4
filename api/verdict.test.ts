import { describe, expect, it } from '@jest/globals';
import { names } from './names.ts';
import { tagChangeOf, vmTagsDuring } from './verdict.ts';

/** A source object with these annotations. */
function source(verdict: object, vmTags?: object) {
  const annotations: Record<string, string> = {
    [names.verdict]: JSON.stringify(verdict),
    ...(vmTags && { [names.vmTags]: JSON.stringify(vmTags) }),
  };
  return {
    metadata: { namespace: 'n', name: 'small', uid: 'u', resourceVersion: '1', creationTimestamp: '', annotations },
  };
}

const accepted = { version: 'v', problems: [], tags: { team: 'b', cost: '7' } };

describe('tagChangeOf', () => {
  it.each([
    ['as they are', { team: 'b', cost: '7' }, undefined],
    ['with another value', { team: 'a', cost: '7' }, []],
    ['with a key less', { team: 'b' }, []],
    ['with a key more', { team: 'b', cost: '7', old: '1' }, ['old']],
    ['with a key that only some may have', { team: 'b', cost: '7', old: null }, ['old']],
    ['with a value that only some may have', { team: null, cost: '7' }, []],
  ])('of VMs %s', (_, vmTags, removedTags) => {
    const expected = removedTags && { tags: accepted.tags, removedTags };

    expect(tagChangeOf(source(accepted, vmTags))).toEqual(expected);
  });

  it.each([
    ['is not known which tags they have', source(accepted)],
    ['is no verdict', source({}, { team: 'a' })],
    ['is a refusal', source({ ...accepted, problems: ['no'] }, { team: 'a' })],
    ['is a provider that changes none', source({ version: 'v', problems: [] }, { team: 'a' })],
  ])('is none where there %s', (_, object) => {
    expect(tagChangeOf(object)).toBeUndefined();
  });
});

describe('vmTagsDuring', () => {
  it('is certain of nothing but what stays', () => {
    const { [names.vmTags]: text = '' } = vmTagsDuring(source({}, { team: 'a', cost: '7', old: '1' }), accepted.tags);

    expect(JSON.parse(text)).toEqual({ team: null, cost: '7', old: null });
  });
});
