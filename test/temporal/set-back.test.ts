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
import { type SetBackWatch, watchForSetBack } from '../../temporal/set-back.ts';
import { recordingLogger } from '../kube/setup.ts';
import { until } from '../support/until.ts';

let dir: string;
let temporal: ServerHandle;
let connection: Connection;
let client: Client;
let looks = 0;
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
  const counted: ConnectionLike = Object.create(connection, {
    withDeadline: {
      value: (...args: Parameters<Connection['withDeadline']>) => {
        looks++;
        return connection.withDeadline(...args);
      },
    },
  });
  const logger = recordingLogger();
  const options = { connection: counted, namespace: 'default', maxCachedWorkflows: 500, lookEveryMs: 100, logger };
  watch = watchForSetBack(options);
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
async function see({ workflowId, runId }: Run, ofTask = 0): Promise<void> {
  const { historyLength } = await client.workflow.getHandle(workflowId, runId).describe();
  await watch.sinks.progress.seen.fn({ workflowId, runId, historyLength: historyLength + ofTask } as WorkflowInfo);
}

/** Looks that have begun and ended from now on. */
async function untilLooked(times = 1): Promise<void> {
  const before = looks;
  const looked = until(`it has looked ${times} times`, async () => looks > before + times || undefined);
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

describe('watchForSetBack', () => {
  it('says nothing of what goes on, of a restart, of a task that failed, or of a run that was deleted', async () => {
    startWatch();
    const [going, deleted] = [await start('going'), await start('deleted')];
    await see(going);
    await untilLooked();

    await addEvents(going, 3);
    await see(going);
    await aroundServer(async () => undefined);
    await untilLooked();

    await see(going, 2);
    await untilLooked();

    await see(deleted);
    await connection.workflowService.deleteWorkflowExecution({ namespace: 'default', workflowExecution: deleted });
    await untilLooked(3);
  }, 60_000);

  it('rejects when the server was set back, also where the latest runs are younger than the copy', async () => {
    startWatch();
    const run = await start('older');
    await see(run);
    await copy();

    await addEvents(run, 3);
    await see(run);
    for (const name of ['younger', 'youngest']) await see(await start(name));
    await setBack();

    await expect(watch.noticed).rejects.toThrow(
      "Temporal was set back: this worker has seen 3 events of workflow 'older', of which there are 2 now",
    );
  }, 60_000);
});
