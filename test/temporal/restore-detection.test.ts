/** A real Temporal server whose database is set back to a copy. */
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Client, Connection, type ConnectionLike } from '@temporalio/client';
import type { WorkflowInfo } from '@temporalio/workflow';
import { type ServerHandle, startServer } from '../../deploy/local/process.ts';
import { findServers } from '../../deploy/local/servers.ts';
import { startTemporal } from '../../deploy/local/stack.ts';
import { type SetBackWatch, watchForSetBack } from '../../temporal/restore-detection.ts';
import { recordingLogger } from '../support/kube.ts';
import { until } from '../support/until.ts';

let dir: string;
let temporal: ServerHandle;
let connection: Connection;
let client: Client;
/** Answers about runs, and how many of the next are those of a host that has lost its part of the database. */
let [answers, staleAnswers] = [0, 0];
let watch: SetBackWatch;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'millwright-set-back-'));
  const programs = await findServers(['temporal']);
  const start = (command: Parameters<typeof startServer>[0]) => startServer(command, new AbortController().signal);
  const started = await startTemporal(start, programs.temporal, dir, join(dir, 'temporal.db'));
  temporal = started.temporal;
  connection = await Connection.connect({ address: started.temporalAddress });
  client = new Client({ connection });
}, 60_000);

afterEach(() => watch.stop());

afterAll(async () => {
  await connection?.close();
  await temporal?.kill();
  await rm(dir, { recursive: true, force: true });
});

function startWatch(): void {
  const asked: ConnectionLike = Object.create(connection, { withDeadline: { value: ask } });
  const logger = recordingLogger();
  watch = watchForSetBack({
    connection: asked,
    namespace: 'default',
    maxCachedWorkflows: 500,
    lookEveryMs: 100,
    logger,
  });
  watch.noticed.catch(() => undefined); // a test looks at it when it has come so far
}

async function ask(...args: Parameters<Connection['withDeadline']>): Promise<unknown> {
  const answer = await connection.withDeadline(...args);
  answers++;
  if (staleAnswers === 0) return answer;
  staleAnswers--;
  return { workflowExecutionInfo: { historyLength: 1 } };
}

/** Starts a workflow, which nobody works for. */
const start = (workflowId: string) =>
  client.workflow.start('any', { workflowId, taskQueue: 'none' }).then(({ firstExecutionRunId }) => ({
    workflowId,
    runId: firstExecutionRunId,
  }));
type Run = Awaited<ReturnType<typeof start>>;

/** Events of a run, as many as told. */
async function addEvents({ workflowId }: Run, count: number): Promise<void> {
  for (let i = 0; i < count; i++) await client.workflow.getHandle(workflowId).signal('any');
}

/** A worker gets a task with all that has happened to the run, and events of the task itself. */
async function see(run: Run, ofTask = 0): Promise<void> {
  await tell(await infoOf(run, ofTask));
}
async function infoOf({ workflowId, runId }: Run, ofTask = 0): Promise<WorkflowInfo> {
  const { historyLength } = await client.workflow.getHandle(workflowId, runId).describe();
  return { workflowId, runId, historyLength: historyLength + ofTask } as WorkflowInfo;
}
const tell = (info: WorkflowInfo) => watch.sinks.progress.seen.fn(info);

/** Many looks have ended that have begun from now on. Rejects where they have found something. */
async function untilLooked(): Promise<void> {
  const enough = answers + 15;
  const looked = until('it has looked', async () => answers > enough);
  await Promise.race([looked, watch.noticed]);
}

const files = ['', '-wal', '-shm'].map((suffix) => `temporal.db${suffix}`);
async function aroundServer(change: (file: string) => Promise<void>): Promise<void> {
  await temporal.kill('SIGKILL');
  for (const file of files) await change(file);
  await temporal.restart();
}
const copy = () => aroundServer((file) => cp(join(dir, file), join(dir, `copy-${file}`)));
const setBack = () => aroundServer((file) => cp(join(dir, `copy-${file}`), join(dir, file)));

const noticed = (workflowId: string, count: number) =>
  expect(watch.noticed).rejects.toThrow(
    `Temporal was set back: this worker has seen at least ${count} events of workflow '${workflowId}', and there are fewer`,
  );

describe('watchForSetBack', () => {
  it('says nothing of what goes on, of a restart, of a task that failed, or of one answer from the past', async () => {
    startWatch();
    const going = await start('going');
    await addEvents(going, 3);
    await see(going);
    await untilLooked();

    await addEvents(going, 3);
    await see(going);
    await aroundServer(async () => undefined);
    await untilLooked();

    await see(going, 2);
    staleAnswers = 1;
    await untilLooked();
    expect(staleAnswers).toBe(0);
  }, 60_000);

  it('says nothing of a run that was deleted', async () => {
    startWatch();
    const [staying, deleted] = [await start('staying'), await start('deleted')];
    for (const run of [staying, deleted]) {
      await addEvents(run, 3);
      await see(run);
    }
    await connection.workflowService.deleteWorkflowExecution({ namespace: 'default', workflowExecution: deleted });
    const { workflowId, runId } = deleted;
    const describe = () => client.workflow.getHandle(workflowId, runId).describe();
    await until('it is deleted', () =>
      describe().then(
        () => undefined,
        () => true,
      ),
    );
    await untilLooked();
  }, 60_000);

  it('rejects when the server was set back, also where the latest runs are younger than the copy', async () => {
    startWatch();
    const run = await start('older');
    await see(run);
    await copy();

    await addEvents(run, 3);
    await see(run);
    for (let i = 0; i < 12; i++) await see(await start(`younger-${i}`));
    await setBack();

    await noticed('older', 3);
  }, 60_000);

  it('rejects where all that was seen last has as many events again', async () => {
    const runs = await Promise.all([...Array(12).keys()].map((i) => start(`run-${i}`)));
    const [, ...busy] = runs; // the first one stands still
    await copy();
    for (const run of runs) await addEvents(run, 3);
    const before = await Promise.all(runs.map((run) => infoOf(run)));
    await setBack();
    for (const run of busy) await addEvents(run, 3);

    startWatch();
    for (const info of before) await tell(info);
    for (const run of busy) await see(run);

    await noticed('run-0', 3);
  }, 60_000);
});
