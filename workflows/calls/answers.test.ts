import { describe, expect, it } from '@jest/globals';
import { readClassVerdict, readInterruptions, readVm, readVmDeletion, readVolumeIds } from './answers.ts';

const vm = { state: 'running', providerID: 'example:///vm-1', nodeName: 'node-1', addresses: [] };

describe('readVm', () => {
  it('takes a VM as it is', () => {
    expect(readVm(vm)).toEqual(vm);
  });

  it('takes null for left out, and ignores fields that it does not know', () => {
    const answer = { ...vm, nodeName: null, message: null, lastKnownState: null, flavour: 7 };

    expect(readVm(answer)).toEqual({ state: 'running', providerID: vm.providerID, addresses: [], flavour: 7 });
  });

  it('shortens texts for people to 2,000 characters', () => {
    const long = 'x'.repeat(3_000);

    expect(readVm({ ...vm, message: long })).toMatchObject({ message: expect.stringMatching(/^.{2000}$/) });
    expect(readVm({ ...vm, state: long })).toMatchObject({ message: expect.stringMatching(/^.{2000}$/) });
    expect(readClassVerdict({ problems: [long] })).toEqual({ problems: [expect.stringMatching(/^.{2000}$/)] });
  });

  it.each([
    [null, 'state undefined: expected creating, uninitialized, running, failed'],
    ['vm-1', 'state undefined'],
    [{ ...vm, state: 'RUNNING' }, 'state "RUNNING"'],
    [{ ...vm, providerID: null }, 'providerID undefined: expected a non-empty string'],
    [{ ...vm, providerID: '' }, 'providerID ""'],
    [{ ...vm, nodeName: 17 }, 'nodeName 17'],
    [{ ...vm, lastKnownState: { id: 1 } }, 'lastKnownState {"id":1}'],
  ])('[invariant 1 partly] refuses %j, after which a VM may exist', (answer, problem) => {
    expect(readVm(answer)).toMatchObject({
      code: 'Internal',
      message: expect.stringContaining(problem),
      outcomeUnknown: true,
      blockedOn: 'CloudApi',
    });
  });
});

describe('readVmDeletion', () => {
  it('takes its fields, and null for left out', () => {
    expect(readVmDeletion({ state: 'gone', nodeNames: null, untaggedVm: null })).toEqual({
      state: 'gone',
      nodeNames: [],
    });
    const found = { state: 'deleting', nodeNames: [], untaggedVm: { providerID: 'example:///vm-1', nodeName: null } };
    expect(readVmDeletion(found)).toEqual({ ...found, untaggedVm: { providerID: 'example:///vm-1' } });
  });

  it('takes a time to ask again, and ignores one that is none: it holds no deletion up', () => {
    const deleting = { state: 'deleting', nodeNames: [] };

    expect(readVmDeletion({ ...deleting, askAgainAfterSeconds: 5 })).toEqual({ ...deleting, askAgainAfterSeconds: 5 });
    for (const odd of [null, 0, -1, '5', Number.NaN])
      expect(readVmDeletion({ ...deleting, askAgainAfterSeconds: odd })).toEqual(deleting);
  });

  it.each([
    [null, 'state undefined: expected deleting, gone'],
    [{ state: 'gone', nodeNames: 'n' }, 'nodeNames "n": expected a list of strings'],
    [{ state: 'deleting', untaggedVm: 'vm-1' }, 'untaggedVm "vm-1": expected a providerID'],
    [{ state: 'deleting', untaggedVm: { providerID: '' } }, 'untaggedVm {"providerID":""}'],
    [{ state: 'deleting', untaggedVm: { providerID: 'x', nodeName: 7 } }, 'untaggedVm {"providerID":"x","nodeName":7}'],
  ])('[invariant 2 partly] refuses %j, so that nothing counts as gone', (answer, problem) => {
    expect(readVmDeletion(answer)).toMatchObject({ code: 'Internal', message: expect.stringContaining(problem) });
  });
});

describe('readClassVerdict', () => {
  it('takes its fields, and ignores the rest', () => {
    const left = { tags: null, listScope: null, interruptible: false, other: 1 };
    expect(readClassVerdict({ problems: ['a', 'b'], ...left })).toEqual({ problems: ['a', 'b'] });
    const all = { problems: [], tags: { a: 'b' }, listScope: 'x', interruptible: true };
    expect(readClassVerdict(all)).toEqual(all);
    expect(readClassVerdict({ problems: [], tags: { a: 'b' } })).toEqual({ problems: [], tags: { a: 'b' } });
  });

  it.each([
    null,
    {},
    { problems: null },
    { problems: 'a' },
    { problems: [1] },
    { problems: [], tags: 'a' },
    { problems: [], tags: { a: 1 } },
  ])('refuses %j', (answer) => {
    expect(readClassVerdict(answer)).toMatchObject({ code: 'Internal', blockedOn: 'CloudApi' });
  });
});

describe('readInterruptions', () => {
  const items = [{ providerID: 'example:///vm-1', reason: 'soon' }];

  it('takes a page', () => {
    expect(readInterruptions({ items, nextPage: 'b' }, 'a')).toEqual({ items, nextPage: 'b' });
    for (const nextPage of [undefined, null, ''])
      expect(readInterruptions({ items, nextPage }, 'a')).toEqual({ items });
  });

  it.each([
    null,
    { items: null },
    { items: [null] },
    { items: [{ providerID: 'example:///vm-1' }] },
    { items: [{ providerID: '', reason: 'soon' }] },
    { items, nextPage: 'a' },
    { items, nextPage: 1 },
  ])('refuses %j', (answer) => {
    expect(readInterruptions(answer, 'a')).toMatchObject({ code: 'Internal', blockedOn: 'CloudApi' });
  });
});

describe('readVolumeIds', () => {
  it('takes a map of strings, and nothing else', () => {
    expect(readVolumeIds({ ids: { pv: 'disk-1' }, other: 1 })).toEqual({ pv: 'disk-1' });
    for (const answer of [undefined, null, {}, { ids: null }, { ids: { pv: 1 } }]) {
      expect(readVolumeIds(answer)).toBeUndefined();
    }
  });
});
