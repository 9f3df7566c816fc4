/**
 * When runs whose history and code disagree are ended. That another run goes on is in
 * test/temporal/broken-runs.test.ts.
 */
import { afterEach, beforeEach, expect, it, jest } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { gardener } from '../api/gardener/index.ts';
import type { EventRecord } from '../kube/events.ts';
import { recordingLogger } from '../test/support/kube.ts';
import { createBrokenRunController } from './broken-runs.ts';
import type { Controller } from './controller.ts';

const resyncMs = 60_000;
const problems = ['category=WorkflowTaskFailed', 'cause=WorkflowTaskFailedCauseBadCancelTimerAttributes'];

/** Names of the machines whose newest run is broken, with how many runs each has had. */
let broken: Map<string, number>;
/** Names of those that were ended, and Events. */
let ended: string[];
let events: EventRecord[];
let counted: string[];
let controller: Controller;
let logger: ReturnType<typeof recordingLogger>;
/** What each call to the server about a run begins with. */
let meet: (call: string, workflowId: string) => Promise<void>;

const nameIn = (workflowId: string) => workflowId.split('/').at(-2) ?? '';
const workflow = {
  async *list() {
    for (const [name, runs] of broken)
      yield { workflowId: `i/machine/n/${name}/${name}-uid`, runId: `${name}-${runs}`, type: 'machine' };
  },
  getHandle: (workflowId: string) => ({
    async describe() {
      await meet('describe', workflowId);
      return { searchAttributes: { TemporalReportedProblems: problems } };
    },
    async terminate() {
      await meet('terminate', workflowId);
      const name = nameIn(workflowId);
      ended.push(name);
      broken.set(name, (broken.get(name) ?? 0) + 1); // the next one breaks as well
    },
  }),
};
const workflowService = {
  async getWorkflowExecutionHistory({ execution }: { execution: { workflowId: string } }) {
    await meet('read', execution.workflowId);
    return { history: { events: [{ workflowExecutionStartedEventAttributes: {} }] } };
  },
  startWorkflowExecution: ({ workflowId }: { workflowId: string }) => meet('start', workflowId),
};

beforeEach(() => {
  jest.useFakeTimers();
  [broken, ended, events, counted, logger] = [new Map(), [], [], [], recordingLogger()];
  meet = async () => undefined;
  const client = {
    workflow,
    connection: { workflowService },
    options: {},
    withDeadline: (untilMs: number, ask: () => unknown) => Promise.race([ask(), failAt(untilMs)]),
  };
  controller = createBrokenRunController({
    installation: { client: client as unknown as Client, name: 'i' },
    dialect: gardener,
    events: { record: (event) => events.push(event), flush: async () => undefined },
    logger,
    resyncMs,
    onRunReplaced: (type) => counted.push(type),
  });
});
afterEach(() => {
  jest.useRealTimers();
});

async function failAt(ms: number): Promise<never> {
  await new Promise((resolve) => setTimeout(resolve, ms - Date.now()));
  throw new Error('deadline exceeded');
}

/** Numbers of the resyncs at which a run was ended. */
async function resync(times: number): Promise<number[]> {
  const found: number[] = [];
  for (let number = 0; number < times; number++) {
    const before = ended.length;
    await controller.resync?.('broken runs');
    if (ended.length > before) found.push(number);
    jest.advanceTimersByTime(resyncMs);
  }
  return found;
}

it('a broken run is ended when two resyncs in a row have found it, and an Event and a count say so', async () => {
  broken.set('a', 1);

  expect(await resync(2)).toEqual([1]);

  expect(counted).toEqual(['machine']);
  expect(events).toMatchObject([
    { reason: 'RunFailed', regarding: { kind: 'Machine', namespace: 'n', name: 'a', uid: 'a-uid' } },
  ]);
});

it('one that has gone on by itself is left alone', async () => {
  broken.set('a', 1);
  await resync(1);
  broken.delete('a');
  await resync(1);
  broken.set('a', 1);

  expect(await resync(1)).toEqual([]);
});

it('runs of one workflow are ended again only after pauses that grow to an hour', async () => {
  broken.set('a', 1);

  expect(await resync(250)).toEqual([1, 3, 7, 15, 31, 63, 123, 183, 243]);
});

it.each([-3_600_000, 3_600_000])('a step of the clock by %d ms changes no pause', async (ms) => {
  broken.set('a', 1);
  await resync(2);
  jest.setSystemTime(Date.now() + ms);

  expect(await resync(6)).toEqual([1, 5]);
});

it('a workflow that was well for long is treated like any other', async () => {
  broken.set('a', 1);
  await resync(2);
  broken.delete('a');
  await resync(63);
  broken.set('a', 9);

  expect(await resync(2)).toEqual([1]);
  expect(await resync(4)).toEqual([1]);
});

it('many are ended 20 at a time', async () => {
  for (let i = 0; i < 50; i++) broken.set(`m-${i}`, 1);

  await resync(2);

  expect(ended).toHaveLength(20);
});

const isBad = (name: string) => name.startsWith('bad');

it('runs that cannot be ended are logged, keep no other from being ended, and are tried again after a pause', async () => {
  for (let i = 0; i < 30; i++) broken.set(`bad-${i}`, 1);
  broken.set('a', 1);
  let isRefusing = true;
  meet = async (_, id) => {
    if (isRefusing && isBad(nameIn(id))) throw new Error('refused');
  };

  expect(await resync(3)).toEqual([2]);
  expect(ended).toEqual(['a']);
  expect(logger.lines.filter(({ message }) => message.startsWith('ending a run'))).toHaveLength(30);

  isRefusing = false;
  expect(await resync(2)).toEqual([0, 1]);
  expect(ended.filter(isBad)).toHaveLength(30);
});

it('an Event says that a run was ended also if the next one cannot be started at once', async () => {
  broken.set('a', 1);
  meet = async (call) => {
    if (call === 'start') throw new Error('refused');
  };

  expect(await resync(2)).toEqual([1]);
  expect(events).toMatchObject([{ reason: 'RunFailed' }]);
});

it.each(['describe', 'read', 'terminate', 'start'])(
  'a run whose call to %s is not answered keeps no other from being ended',
  async (hanging) => {
    broken.set('bad', 1).set('a', 1);
    meet = async (call, id) => {
      if (call === hanging && isBad(nameIn(id))) await new Promise(() => undefined);
    };
    await resync(1);

    void controller.resync?.('broken runs');
    await jest.advanceTimersByTimeAsync(resyncMs);

    expect(ended).toContain('a');
  },
);
