/** A real Temporal server whose database is restored from a copy. */
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Client, type Connection, type ConnectionLike } from '@temporalio/client';
import type { WorkflowInfo } from '@temporalio/workflow';
import { type ServerHandle, startServer } from '../../deploy/local/process.ts';
import { findServers } from '../../deploy/local/servers.ts';
import { startTemporal } from '../../deploy/local/stack.ts';
import { detectRestore, type RestoreDetection } from '../../temporal/restore-detection.ts';
import { recordingLogger } from '../support/kube.ts';
import { connectTemporal } from '../support/temporal.ts';
import { until } from '../support/until.ts';

let dir: string;
let temporal: ServerHandle;
let connection: Connection;
let client: Client;
/** Answers about runs, and how many of the next ones come from a host that has lost its part of the database. */
let [answers, staleAnswers] = [0, 0];
let detection: RestoreDetection;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'millwright-restored-'));
  const programs = await findServers(['temporal']);
  const start = (command: Parameters<typeof startServer>[0]) => startServer(command, new AbortController().signal);
  const started = await startTemporal(start, programs.temporal, dir, { dbFile: join(dir, 'temporal.db') });
  temporal = started.temporal;
  connection = await connectTemporal(started.temporalAddress);
  client = new Client({ connection });
});

afterEach(() => detection.stop());

afterAll(async () => {
  await connection?.close();
  await temporal?.kill();
  await rm(dir, { recursive: true, force: true });
});

function startDetection(): void {
  const asked: ConnectionLike = Object.create(connection, { withDeadline: { value: ask } });
  const logger = recordingLogger();
  detection = detectRestore({
    connection: asked,
    namespace: 'default',
    maxCachedWorkflows: 500,
    checkEveryMs: 100,
    logger,
  });
  detection.detected.catch(() => undefined); // its test awaits it later
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

/** Adds this many events to a run. */
async function addEvents({ workflowId }: Run, count: number): Promise<void> {
  for (let i = 0; i < count; i++) await client.workflow.getHandle(workflowId).signal('any');
}

/** A worker gets a task with all events of the run, and with events of the task itself. */
async function see(run: Run, ofTask = 0): Promise<void> {
  await report(await infoOf(run, ofTask));
}
async function infoOf({ workflowId, runId }: Run, ofTask = 0): Promise<WorkflowInfo> {
  const { historyLength } = await client.workflow.getHandle(workflowId, runId).describe();
  return { workflowId, runId, historyLength: historyLength + ofTask } as WorkflowInfo;
}
const report = (info: WorkflowInfo) => detection.sinks.progress.seen.fn(info);

/** Resolves after several checks that have started from now on. Rejects where they have found something. */
async function untilChecked(): Promise<void> {
  const enough = answers + 15;
  const checked = until('it has checked', async () => answers > enough);
  await Promise.race([checked, detection.detected]);
}

const files = ['', '-wal', '-shm'].map((suffix) => `temporal.db${suffix}`);
async function aroundServer(change: (file: string) => Promise<void>): Promise<void> {
  await temporal.kill('SIGKILL');
  for (const file of files) await change(file);
  await temporal.restart();
}
const copy = () => aroundServer((file) => cp(join(dir, file), join(dir, `copy-${file}`)));
const restore = () => aroundServer((file) => cp(join(dir, `copy-${file}`), join(dir, file)));

const expectDetected = (workflowId: string, count: number) =>
  expect(detection.detected).rejects.toThrow(
    `Temporal was restored from a backup: this worker has seen at least ${count} events of workflow '${workflowId}', and the server has fewer`,
  );

describe('detectRestore', () => {
  it('ignores progress, a restart, a task that failed, and one stale answer', async () => {
    startDetection();
    const going = await start('going');
    await addEvents(going, 3);
    await see(going);
    await untilChecked();

    await addEvents(going, 3);
    await see(going);
    await aroundServer(async () => undefined);
    await untilChecked();

    await see(going, 2);
    staleAnswers = 1;
    await untilChecked();
    expect(staleAnswers).toBe(0);
  });

  it('ignores a run that was deleted', async () => {
    startDetection();
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
    await untilChecked();
  });

  it('rejects when the server was restored, also where the latest runs are younger than the backup', async () => {
    startDetection();
    const run = await start('older');
    await see(run);
    await copy();

    await addEvents(run, 3);
    await see(run);
    for (let i = 0; i < 12; i++) await see(await start(`younger-${i}`));
    await restore();

    await expectDetected('older', 3);
  });

  it('rejects where all runs that were seen last have as many events again', async () => {
    const runs = await Promise.all([...Array(12).keys()].map((i) => start(`run-${i}`)));
    const [, ...busy] = runs; // the first one stands still
    await copy();
    for (const run of runs) await addEvents(run, 3);
    const before = await Promise.all(runs.map((run) => infoOf(run)));
    await restore();
    for (const run of busy) await addEvents(run, 3);

    startDetection();
    for (const info of before) await report(info);
    for (const run of busy) await see(run);

    await expectDetected('run-0', 3);
  });
});
