/** Workflows with defects in the SDK's sandbox and in ours, against a real Temporal server. */
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Client, type WorkflowHandle } from '@temporalio/client';
import { bundleWorkflowCode, DefaultLogger, type NativeConnection, Worker } from '@temporalio/worker';
import { FastSandboxWorker, refuseUntestedSdk } from '../../temporal/fast-sandbox.ts';
import { connectWorkers } from '../../temporal/worker-connection.ts';
import { recordingLogger } from '../support/kube.ts';
import { until } from '../support/until.ts';
import { proceedSignal } from './spinning-workflows.ts';

let connection: NativeConnection;
let client: Client;
let workflowBundle: { code: string };

beforeAll(async () => {
  const address = process.env.MILLWRIGHT_TEST_TEMPORAL_ADDRESS ?? '';
  connection = await connectWorkers({ address, namespace: 'default', tls: false }, recordingLogger());
  client = new Client({ connection });
  const workflowsPath = fileURLToPath(new URL('spinning-workflows.ts', import.meta.url));
  workflowBundle = await bundleWorkflowCode({ workflowsPath, logger: new DefaultLogger('ERROR') });
});
afterAll(async () => {
  await connection.close();
});

/** The default is 5 s. The SDK does not document it as an option. */
const impatient = { isolateExecutionTimeout: '500ms' };
const timedOut = 'Script execution timed out after 500ms';
const defects: Readonly<Record<string, string>> = {
  spins: timedOut,
  spinsInPromise: timedOut,
  rejects: 'Unhandled Promise rejection: Error: nobody listens',
};

describe.each([
  { name: "the SDK's sandbox", kind: Worker, defects, stackTrace: /at waits / },
  {
    name: 'the fast sandbox',
    kind: FastSandboxWorker,
    // Its limit is for an activation, and not for each part of one.
    defects: { ...defects, spinsInParts: timedOut },
    stackTrace: /stack traces are not enabled/,
  },
])('$name', ({ kind, defects, stackTrace }) => {
  const taskQueue = `test-${randomUUID()}`;
  let worker: Worker;
  let running: Promise<void>;

  beforeAll(async () => {
    worker = await kind.create({ connection, taskQueue, workflowBundle, ...impatient });
    running = worker.run();
  });
  afterAll(async () => {
    worker.shutdown();
    await running;
  });

  const start = async (type: string) =>
    client.workflow.start(type, { taskQueue, workflowId: `${taskQueue}-${type}-${randomUUID()}` });

  it.each(Object.entries(defects))('fails the task of a workflow that %s, others go on', async (type, message) => {
    const other = await start('waits');

    const failOnce = async () => {
      const defective = await start(type);
      const failure = await until('the task has failed', async () => failureOf(defective));
      await defective.terminate();
      return failure;
    };
    const failure = await failOnce();
    // On a busy machine a task that does not spin may take longer than the limit, too.
    expect(failure === timedOut && message !== timedOut ? await failOnce() : failure).toBe(message);

    await other.signal(proceedSignal);
    expect(await other.result()).toBe('done');
    expect(worker.getState()).toBe('RUNNING');
  });

  it('answers the query for stack traces, or why it cannot', async () => {
    const waiting = await start('waits');

    const answer = await waiting.query<string>('__stack_trace').catch(String);

    expect(answer).toMatch(stackTrace);
    await waiting.terminate();
  });
});

/** Why the first workflow task has failed. */
async function failureOf(workflow: WorkflowHandle): Promise<string | undefined> {
  const { events } = await workflow.fetchHistory();
  const failed = events?.find((event) => event.workflowTaskFailedEventAttributes);
  return failed?.workflowTaskFailedEventAttributes?.failure?.message ?? undefined;
}

describe('refuseUntestedSdk', () => {
  it('names the tested and the installed version', () => {
    expect(() => refuseUntestedSdk('1.25.0')).toThrow(
      "--fast-workflow-sandbox works with version 1.24.0 of Temporal's SDK, and 1.25.0 is installed: leave the flag out",
    );
  });
});
