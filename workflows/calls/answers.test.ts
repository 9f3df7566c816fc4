import { describe, expect, it } from '@jest/globals';
import { readProblems, readVm } from './answers.ts';

const vm = { state: 'running', providerID: 'example:///vm-1', nodeName: 'node-1', addresses: [] };

describe('readVm', () => {
  it('takes a VM as it is', () => {
    expect(readVm(vm)).toEqual(vm);
  });

  it('takes null for left out, and ignores fields that it does not know', () => {
    const answer = { ...vm, nodeName: null, message: null, lastKnownState: null, flavour: 7 };

    expect(readVm(answer)).toEqual({ state: 'running', providerID: vm.providerID, addresses: [], flavour: 7 });
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

describe('readProblems', () => {
  it('takes a list of strings, and nothing else', () => {
    expect(readProblems({ problems: ['a', 'b'] })).toEqual(['a', 'b']);
    for (const answer of [null, {}, { problems: null }, { problems: 'a' }, { problems: [1] }]) {
      expect(readProblems(answer)).toMatchObject({ code: 'Internal', blockedOn: 'CloudApi' });
    }
  });
});
