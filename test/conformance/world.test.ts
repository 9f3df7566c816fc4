/** What the suite says of a provider that does not speak as Temporal and the contract ask for. */
import { describe, expect, it } from '@jest/globals';
import { ApplicationFailure } from '@temporalio/common';
import type { EnsureVmRequest } from '../../api/provider.ts';
import { type Calls, readAnswer } from './calls.ts';
import type { Case } from './case.ts';
import { runCases } from './run-cases.ts';
import { createWorld, type World } from './world.ts';

const subject = {
  ...{ namespace: 'n', providerSpec: {}, credentials: [], userData: { namespace: 'n', name: 'u', key: 'userData' } },
  ...{ canaries: new Set(['canary-1', 'a\n"canary-2"']), readSecret: async () => undefined },
  ...{ makeWrongCredentials: async () => undefined, remove: async () => {} },
};

/** A world in which `ensureVm` ends so, and everything else with answers of a provider that has made nothing. */
function worldOf(end: () => unknown): { readonly world: World; readonly sent: EnsureVmRequest[] } {
  const sent: EnsureVmRequest[] = [];
  const others = { deleteVm: { state: 'gone' }, listVms: { items: [] }, validateClass: { problems: [] } };
  const calls: Calls = {
    async start(name, request) {
      if (name === 'ensureVm') sent.push(request as EnsureVmRequest);
      return {
        isRunning: async () => true,
        cancel: async () => {},
        async outcome() {
          const ended = name === 'ensureVm' ? end() : others[name as keyof typeof others];
          if (ended instanceof ApplicationFailure) return { kind: 'refused', failure: ended, attempt: 1 };
          return { kind: 'answered', answer: readAnswer(name, ended), attempt: 1 };
        },
      };
    },
    payloads: async () => [],
    endAll: async () => {},
  };
  return { world: createWorld({ subject, calls }), sent };
}

function caseOf(run: Case['run']): Case {
  return { title: 'a case', promise: '', section: '', needs: [], run };
}

const refused: Case['run'] = async (world) => {
  await world.refusal('ensureVm', world.creation(world.newMachine()), 'InvalidArgument');
};
const create: Case['run'] = async (world) => {
  await world.ensure(world.newMachine());
};

describe('the report of a case', () => {
  it.each([
    [
      'a failure without a code',
      refused,
      () => ApplicationFailure.create({ type: 'wrapError', message: 'no' }),
      'ensureVm failed with wrapError, not InvalidArgument: fail with an ApplicationFailure whose type is the code',
    ],
    [
      'details that are two values',
      refused,
      () =>
        ApplicationFailure.create({
          type: 'InvalidArgument',
          message: 'no',
          details: ['E1', 'req-1'],
          nonRetryable: true,
        }),
      'the failure InvalidArgument has ["E1","req-1"], where details[0] is not valid: the first of the details is one object, such as',
    ],
    [
      'details with a field of another type',
      refused,
      () => ApplicationFailure.create({ type: 'InvalidArgument', message: 'no', details: [{ retryAfterMs: '30' }] }),
      'where details[0].retryAfterMs is not valid',
    ],
    [
      'a list that is null',
      create,
      () => ({ state: 'running', providerID: 'x://1', tags: null, addresses: {} }),
      'the answer of ensureVm is not valid: addresses: Invalid input: expected array, received ',
    ],
  ])('says what to do about %s', async (_, run, end, seen) => {
    const [result] = await runCases(worldOf(end).world, [caseOf(run)]);

    expect(result).toMatchObject({ state: 'failed', why: expect.stringContaining(seen) });
  });

  it('has the last calls with their answers, without what all requests share and without secrets', async () => {
    const answers = ['canary-1 a\n"canary-2"', 'again'].map((message) => ({
      state: 'failed',
      providerID: 'x://1',
      message,
    }));
    const { world } = worldOf(() => answers.shift());
    const [result] = await runCases(world, [caseOf(create)]);

    expect(result?.calls).toEqual([
      expect.stringMatching(
        /^ensureVm \{"machine":\{"uid":.*\},"token":".*-0","outcomeUnknown":false\}: it answered \{.*"message":"<secret> <secret>"/,
      ),
    ]);
  });
});

describe('an answer', () => {
  it.each([
    ['listVms', { items: null }, 'items: is null: answer [] for an empty list'],
    ['validateClass', { problems: null }, 'problems: is null: answer [] for an empty list'],
    ['validateClass', {}, 'problems: Invalid input: expected array, received undefined'],
  ] as const)('of %s that is %j is not valid', (name, answer, problem) => {
    expect(() => readAnswer(name, answer)).toThrow(`the answer of ${name} is not valid: ${problem}`);
  });
});

describe('the suite', () => {
  it('says that the outcome is unknown in every call after the first for a Machine, as Millwright does', async () => {
    const { world, sent } = worldOf(() => ({ state: 'creating', providerID: 'x://1' }));
    const machine = world.newMachine();
    await world.ensure(machine);
    await world.ensure(machine);

    expect(sent.map(({ outcomeUnknown }) => outcomeUnknown)).toEqual([false, true]);
    expect(world.deletion(machine).outcomeUnknown).toBe(true);
    expect(world.deletion(world.newMachine()).outcomeUnknown).toBe(false);
  });

  it.each([
    'Activity function ensureVm is not registered on this Worker, available activities: ["EnsureVM"]',
    'unable to find activityType=ensureVm. Supported types: [EnsureVM]',
    'Activity Type "ensureVm" is not registered with a worker. Known types are: EnsureVM',
  ])('ends with the first call if the worker says: %s', async (message) => {
    const { world, sent } = worldOf(() => ApplicationFailure.create({ message }));

    await expect(runCases(world, [caseOf(create), caseOf(create)])).rejects.toThrow(
      `${message}: register ensureVm under this name in the worker`,
    );
    expect(sent).toHaveLength(1);
  });
});
