import { describe, expect, it } from '@jest/globals';
import { names } from './names.ts';
import { tagsToRemove, withUncertainVmTags, withVmTags } from './vm-tags.ts';

/** A Machine with this annotation. */
function machine(vmTags?: string) {
  const annotations = vmTags === undefined ? {} : { [names.vmTags]: vmTags };
  return {
    metadata: { namespace: 'n', name: 'm', uid: 'u', resourceVersion: '1', creationTimestamp: '', annotations },
  };
}

const tags = { team: 'b', cost: '7' };

describe('tagsToRemove', () => {
  it.each([
    ['as they are', { team: 'b', cost: '7' }, undefined],
    ['in another order', { cost: '7', team: 'b' }, undefined],
    ['with another value', { team: 'a', cost: '7' }, []],
    ['with a key less', { team: 'b' }, []],
    ['with a key more', { team: 'b', cost: '7', old: '1' }, ['old']],
    ['with a key that only some parts may have', { team: 'b', cost: '7', old: null }, ['old']],
    ['with a value that only some parts may have', { team: null, cost: '7' }, []],
  ])('of a VM with tags %s', (_, vmTags, removedTags) => {
    expect(tagsToRemove(machine(withVmTags(vmTags)[names.vmTags]), tags)).toEqual(removedTags);
  });

  it.each([
    ['nothing', undefined],
    ['nothing that can be read', '{'],
    ['something else', '["team"]'],
  ])('is unknown where the Machine says %s', (_, annotation) => {
    expect(tagsToRemove(machine(annotation), tags)).toBe('unknown');
  });
});

describe('withUncertainVmTags', () => {
  it('is certain of nothing but what stays', () => {
    const before = machine('{"team":"a","cost":"7","old":"1"}');

    expect(withUncertainVmTags(before, { ...tags, added: '1' })).toEqual(
      withVmTags({ team: null, cost: '7', old: null, added: null }),
    );
  });
});
