import { describe, expect, it } from '@jest/globals';
import type { MachineSnapshot, MachineStage } from './model/machine.ts';
import { names } from './names.ts';
import { isTagged, toTagChange, withUncertainVmTags, withVmTags } from './vm-tags.ts';

/** A Machine with this annotation. */
function machine(vmTags?: string) {
  const annotations = vmTags === undefined ? {} : { [names.vmTags]: vmTags };
  return {
    metadata: { namespace: 'n', name: 'm', uid: 'u', resourceVersion: '1', creationTimestamp: '', annotations },
  };
}

const tags = { team: 'b', cost: '7' };

describe('toTagChange', () => {
  const changeOf = toTagChange(tags);

  it.each([
    ['as they are', '{"cost":"7","team":"b"}', undefined],
    ['in another order', '{"team":"b","cost":"7"}', undefined],
    ['with another value', '{"team":"a","cost":"7"}', { removed: [] }],
    ['with a key less', '{"team":"b"}', { removed: [] }],
    ['with a key more', '{"team":"b","cost":"7","old":"1"}', { removed: ['old'] }],
    ['with a key that every object has', '{"team":"b","cost":"7","constructor":"1"}', { removed: ['constructor'] }],
    ['with a key that only some parts may have', '{"team":"b","cost":"7","old":null}', { removed: ['old'] }],
    ['with a value that only some parts may have', '{"team":null,"cost":"7"}', { removed: [] }],
    ['that cannot be read', '{', { removed: [] }],
    ['that are something else', '["team"]', { removed: [] }],
    ['that nobody has noted', undefined, {}],
  ])('of a VM with tags %s', (_, vmTags, change) => {
    expect(changeOf(machine(vmTags))).toEqual(change);
  });

  it('is undefined for what withVmTags has noted', () => {
    expect(changeOf(machine(withVmTags({ team: 'b', cost: '7' })[names.vmTags]))).toBeUndefined();
  });
});

describe('isTagged', () => {
  it.each<[MachineStage, boolean]>([
    ['new', false],
    ['creating', false],
    ['joining', false],
    ['running', true],
    ['unhealthy', true],
    ['failed', true],
    ['deleting', false],
  ])('of a machine that is %s: %s', (stage, expected) => {
    expect(isTagged({ stage, providerID: 'a:///b' } as MachineSnapshot)).toBe(expected);
  });

  it('is false without a VM, and for a machine that is being deleted', () => {
    expect(isTagged({ stage: 'failed' } as MachineSnapshot)).toBe(false);
    expect(isTagged({ stage: 'running', providerID: 'a:///b', deletingSince: 'now' } as MachineSnapshot)).toBe(false);
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
