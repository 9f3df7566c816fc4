/** Workers for the tests of a file. One costs a second of CPU to start, so that none is started for a single test. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach } from '@jest/globals';
import { ApplicationFailure, Context } from '@temporalio/activity';
import { Client } from '@temporalio/client';
import { type NativeConnection, Worker } from '@temporalio/worker';
import { loadWorkflowBundle } from '../../temporal/bundle.ts';
import { ensureSearchAttributes } from '../../temporal/search-attributes.ts';
import { connectWorkers } from '../../temporal/worker-connection.ts';
import { recordingLogger } from './kube.ts';
import { sinks } from './sinks.ts';

/** What is played, by task queue and name. The state that it plays with is to be new for each test. */
type ActivitiesOf = (taskQueue: string) => Readonly<Record<string, object>>;

export interface SharedWorkers {
  /** Of the workflows. */
  readonly taskQueue: string;
  /** There before the first test. */
  readonly client: Client;
  /** An id for a workflow of this test, which is terminated after it. */
  newWorkflowId(): string;
}

/** Prepares our workflows and played activities for the tests of a file. Those of workflows of earlier tests do nothing. */
export function setUpWorkers(activitiesOf: ActivitiesOf): SharedWorkers {
  const taskQueue = `test-${randomUUID()}`;
  const workflowIds = new Set<string>();
  const underWay = new Set<Promise<unknown>>();
  let connection: NativeConnection;
  let client: Client;
  let workers: Worker[];
  let runs: Promise<void>[];
  let refuse: (reason: Error) => void;
  let ended: Promise<never>;

  beforeAll(async () => {
    const address = process.env.MILLWRIGHT_TEST_TEMPORAL_ADDRESS ?? '';
    connection = await connectWorkers({ address, namespace: 'default', tls: false }, recordingLogger());
    await ensureSearchAttributes(connection, 'default');
    client = new Client({ connection });
    const workflowBundle = await loadWorkflowBundle();
    workers = await Promise.all(
      Object.entries(activitiesOf(taskQueue)).map(([queue, activities]) =>
        Worker.create({
          ...{ connection, taskQueue: queue, activities: ofThisTest(activities) },
          ...(queue === taskQueue && { workflowBundle, sinks }),
          maxHeartbeatThrottleInterval: 100, // else an activity hears up to 8 s later that it is cancelled
        }),
      ),
    );
    runs = workers.map((worker) => worker.run());
  });
  afterAll(async () => {
    for (const worker of workers) worker.shutdown();
    await Promise.all(runs);
    await connection.close();
  });

  beforeEach(() => {
    ended = new Promise((_, reject) => {
      refuse = reject;
    });
    ended.catch(() => undefined); // nothing may be under way
  });
  afterEach(async () => {
    const ids = [...workflowIds];
    workflowIds.clear();
    const terminate = (id: string) => client.workflow.getHandle(id).terminate();
    await Promise.all(ids.map((id) => terminate(id).catch(() => undefined))); // most have ended
    // Those that heartbeat hear of it.
    await Promise.race([Promise.allSettled(underWay), sleep(2_000, undefined, { ref: false })]);
    refuse(outdated());
  });

  /** Activities that refuse workflows of earlier tests, and end with their test. */
  function ofThisTest(activities: object): object {
    const wrapped = Object.entries(activities).map(([name, activity]: [string, (...args: unknown[]) => unknown]) => [
      name,
      async (...args: unknown[]) => {
        const id = Context.current().info.workflowExecution?.workflowId ?? '';
        if (!workflowIds.has(id)) throw outdated();
        const answer = Promise.race([activity(...args), ended]).finally(() => underWay.delete(answer));
        underWay.add(answer);
        return answer;
      },
    ]);
    return Object.fromEntries(wrapped);
  }

  return {
    taskQueue,
    get client() {
      return client;
    },
    newWorkflowId() {
      const id = `${taskQueue}/${randomUUID()}`;
      workflowIds.add(id);
      return id;
    },
  };
}

function outdated(): ApplicationFailure {
  return ApplicationFailure.nonRetryable('the test of this workflow has ended');
}
