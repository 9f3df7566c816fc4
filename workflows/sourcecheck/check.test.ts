/** The check, with a source and a provider that the tests play. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import { ApplicationFailure } from '@temporalio/activity';
import type { ObjectRef } from '../../api/model/ref.ts';
import type { SourceSnapshot } from '../../api/model/source.ts';
import { providerTaskQueue } from '../../api/names.ts';
import type { ValidateClassRequest } from '../../api/provider.ts';
import type { Verdict } from '../../api/verdict.ts';
import { setUpWorkflows } from '../../test/support/workflows.ts';
import type { CheckResult } from './check.ts';

const ref: ObjectRef = { dialect: 'gardener', namespace: 'n', name: 'small', uid: 'uid-of-small', cluster: 'c' };
const scope = {
  origin: { kind: 'MachineClass', namespace: 'n', name: 'small', generation: 1 },
  providerSpec: { size: 'huge' },
  credentials: [{ namespace: 'n', name: 'pool' }],
};

let reading: SourceSnapshot;
let answer: () => unknown;
let asked: ValidateClassRequest[];
let written: [ObjectRef, Verdict][];
let signed: ObjectRef[];
let sign: () => void;

beforeEach(() => {
  [asked, written, signed] = [[], [], []];
  reading = { version: 'v1', cloud: { provider: 'fake', ...scope } };
  answer = () => ({ problems: [] });
  sign = () => undefined;
});

const workflows = setUpWorkflows((taskQueue) => ({
  [taskQueue]: {
    readSource: async () => reading,
    signPlaces: async (of: ObjectRef) => {
      signed.push(of);
      sign();
    },
    writeVerdict: async (...args: [ObjectRef, Verdict]) => void written.push(args),
  },
  [providerTaskQueue(taskQueue, 'fake')]: {
    validateClass: async (request: ValidateClassRequest) => {
      asked.push(request);
      return answer();
    },
  },
}));

async function check(...more: boolean[]): Promise<CheckResult> {
  const { taskQueue, temporal } = workflows;
  const workflowId = workflows.newWorkflowId();
  return temporal.execute<CheckResult>('sourceCheck', {
    ...{ taskQueue, workflowId, args: [ref, ...more] },
  });
}

describe('sourceCheck', () => {
  it('asks the provider about the source and writes what it finds', async () => {
    answer = () => ({ problems: ['size is huge', 'token is missing'], listScope: 'x' });

    expect(await check()).toEqual({ problems: ['size is huge', 'token is missing'] });
    expect(asked).toEqual([{ ...scope, cluster: 'c' }]);
    expect(written).toEqual([[ref, { version: 'v1', problems: ['size is huge', 'token is missing'] }]]);
  });

  it('writes where to ask for interruptions, if the provider says that its VMs may be taken away', async () => {
    answer = () => ({ problems: [], listScope: 'x', interruptible: true });
    await check();
    answer = () => ({ problems: [], interruptible: true });
    await check();

    const scopes = written.map(([, { interruptionScope }]) => interruptionScope);
    expect(scopes).toEqual(['x', ref.uid]);
  });

  it('adds what is wrong in the eyes of Millwright itself', async () => {
    reading = { ...reading, problem: 'there is no user data' };
    answer = () => ({ problems: ['token is missing'] });

    expect(await check()).toEqual({ problems: ['there is no user data', 'token is missing'] });
  });

  it('judges a source without a provider by itself', async () => {
    reading = { version: 'v1', problem: 'provider is empty' };
    await check();

    expect(asked).toEqual([]);
    expect(written).toMatchObject([[ref, { problems: ['provider is empty'] }]]);
  });

  it('signs the places of its Machines where some are not signed, also without an answer of the provider', async () => {
    answer = () => refused();
    await check();
    expect(signed).toEqual([]);

    await check(true);
    expect(signed).toEqual([ref]);
  });

  it('writes the verdict if not all places can be signed, and says so', async () => {
    sign = () => {
      throw ApplicationFailure.create({ type: 'FailedPrecondition', message: 'refused', nonRetryable: true });
    };
    expect(await check(true)).toMatchObject({ failure: { code: 'FailedPrecondition', message: 'refused' } });
    expect(written).toEqual([[ref, { version: 'v1', problems: [] }]]);
  });

  it.each([
    ['fails', () => refused(), { code: 'Unimplemented' }],
    ['answers null', () => null, { code: 'Internal', message: expect.stringContaining('problems undefined') }],
    ['answers with no list', () => ({ problems: 'none' }), { code: 'Internal' }],
  ])('writes no verdict if the provider %s', async (_, given, failure) => {
    answer = given;

    expect(await check()).toMatchObject({ failure });
    expect(written).toEqual([]);
  });
});

function refused(): never {
  throw ApplicationFailure.create({ type: 'Unimplemented', nonRetryable: true });
}
