/**
 * A worker that outlives a restore of Temporal may break the run that grants the limits of a namespace: then another
 * goes on.
 */
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { WorkflowHandle } from '@temporalio/client';
import { names } from '../../api/names.ts';
import { limitsWorkflowId } from '../../api/workflow-id.ts';
import { type Stack, startStack } from '../../deploy/local/stack.ts';
import { loadKubeconfig } from '../../kube/config.ts';
import { installationKey } from '../../temporal/workflows.ts';
import { startControllersHere } from '../support/controllers.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { type Supervised, supervise } from '../support/supervised.ts';
import { until } from '../support/until.ts';

const resyncMs = 5_000;
/** A restore breaks the run if a command for a timer was under way when the server died: about every fifth. */
const mostRestores = 30;

let dir: string;
let stack: Stack;
let millwright: Installation;
let worker: Supervised;
let stopControllers: () => Promise<void>;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'millwright-limits-'));
  stack = await startStack({ dir, temporal: { dbFile: join(dir, 'temporal.db') } });
  const { kubeconfig, temporalAddress } = stack;
  millwright = await startInstallation({ kubeconfig, temporalAddress, isStopped: true });
});
afterAll(async () => {
  await stopControllers?.();
  await worker?.stop();
  millwright?.processes.splice(0); // its logs say that history and code disagree: that is what is tested
  await millwright?.stop();
  await stack?.stop();
  await rm(dir, { recursive: true, force: true });
});

/** Stops the server, copies its files, and starts it again. */
async function aroundTemporal(from: string, to: string): Promise<void> {
  await stack.temporal.kill('SIGKILL');
  for (const suffix of ['', '-wal', '-shm']) {
    await rm(join(dir, to + suffix), { force: true });
    await cp(join(dir, from + suffix), join(dir, to + suffix)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
    });
  }
  await stack.temporal.restart();
}

const eventsOf = async (run: WorkflowHandle) => (await run.fetchHistory()).events ?? [];

it('the controllers end the run that cannot go on, and machines are created again', async () => {
  const { namespace, temporal, cloud } = millwright;
  const workflowId = limitsWorkflowId(namespace, namespace);
  const { firstExecutionRunId: runId } = await temporal.workflow.start('machineLimits', {
    taskQueue: namespace,
    workflowId,
    args: [{ dialect: 'gardener', namespace }],
    typedSearchAttributes: [{ key: installationKey, value: namespace }],
  });
  const granting = temporal.workflow.getHandle(workflowId);
  const backedUp = temporal.workflow.getHandle(workflowId, runId);
  await aroundTemporal('temporal.db', 'copy.db');
  worker = await supervise(() => millwright.start('worker'));
  stopControllers = startControllersHere(millwright, loadKubeconfig(stack.kubeconfig), resyncMs);
  await cloud.setFaults({ kind: 'capacity' });
  const metadata = { annotations: { [names.maxProvisioning]: '1' } };
  for (const name of ['one', 'two']) {
    await millwright.createDeployment(name, 0);
    await millwright.changeDeployment(name, { metadata, spec: { replicas: 1 } });
  }

  /** The first timer of its history is one that a replay starts much later. */
  const isBroken = async () => {
    const events = await eventsOf(backedUp);
    const timers = events.flatMap(({ timerStartedEventAttributes: timer }) => timer?.timerId ?? []);
    return Number(timers[0]) > 5;
  };
  let restores = 0;
  do {
    restores += 1;
    expect(restores).toBeLessThanOrEqual(mostRestores);
    for (let change = 0; change < 8; change++) {
      const before = await granting.describe();
      await millwright.scale('one', 1 + (change % 3));
      await until('it claims', async (see) => {
        const { runId, historyLength } = see(await granting.describe());
        return runId !== before.runId || historyLength > before.historyLength;
      });
    }
    await aroundTemporal('copy.db', 'temporal.db');
    await until('a task of the run is completed', async () =>
      (await eventsOf(backedUp)).some((event) => event.workflowTaskCompletedEventAttributes),
    );
    const { starts } = worker;
    await worker.kill(); // if it has not noticed the restore yet
    await until('another worker has started', async () => worker.starts > starts);
  } while (!(await isBroken()));
  await cloud.setFaults();

  await until('the broken run is ended', async (see) => see((await backedUp.describe()).status.name) === 'TERMINATED');
  await until('all machines run', async (see) => {
    const machines = see(await millwright.machines());
    return machines.length >= 2 && machines.every(({ status }) => status?.currentStatus?.phase === 'Running');
  });
}, 600_000);
