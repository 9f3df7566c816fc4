/** How fast the machine is at the moment: what workflows that do nothing cost on the same Temporal server. */
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import type { Client } from '@temporalio/client';
import { Worker } from '@temporalio/worker';
import { connectWorkers } from '../../temporal/worker-connection.ts';
import { recordingLogger } from '../support/kube.ts';
import type { bare } from './bare-workflow.ts';

/** Enough for a figure that repeats, and few beside any scenario. */
const count = 200;

/** Runs workflows that do nothing, all at once, and resolves with their number when all have ended. */
export async function runBareWorkflows(client: Client, address: string): Promise<number> {
  const connection = await connectWorkers({ address, namespace: 'default', tls: false }, recordingLogger());
  const taskQueue = `probe-${randomUUID()}`;
  const worker = await Worker.create({
    connection,
    taskQueue,
    workflowsPath: fileURLToPath(new URL('bare-workflow.ts', import.meta.url)),
  });
  await worker.runUntil(async () => {
    const run = () =>
      client.workflow.execute<typeof bare>('bare', { taskQueue, workflowId: `${taskQueue}-${randomUUID()}` });
    await Promise.all(Array.from({ length: count }, run));
  });
  await connection.close();
  return count;
}
