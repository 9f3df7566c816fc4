/**
 * A worker whose workflows run faster: without the SDK's stack trace of every promise, and with one time limit for each
 * activation instead of one for each call into the sandbox. It relies on internals of one version of the SDK.
 */
import { createRequire } from 'node:module';
import { Worker as Thread } from 'node:worker_threads';
import { Worker } from '@temporalio/worker';
import { ThreadedVMWorkflowCreator, WorkerThreadClient } from '@temporalio/worker/lib/workflow/threaded-vm.js';

/** The version that the thread was written and tested for. */
const testedSdk = '1.24.0';

const { version } = createRequire(import.meta.url)('@temporalio/worker/package.json') as { version: string };

/** Throws when the sandbox is not known to work with this version of the SDK. */
export function refuseUntestedSdk(installed: string): void {
  if (installed === testedSdk) return;
  const problem = `--fast-workflow-sandbox works with version ${testedSdk} of Temporal's SDK, and ${installed} is installed`;
  throw new Error(`${problem}: leave the flag out`);
}

export class FastSandboxWorker extends Worker {
  protected static override async createWorkflowCreator(
    ...[workflowBundle, { activities, isolateExecutionTimeoutMs }, logger]: Parameters<
      (typeof Worker)['createWorkflowCreator']
    >
  ): ReturnType<(typeof Worker)['createWorkflowCreator']> {
    refuseUntestedSdk(version);
    const workerData = { timeoutMs: isolateExecutionTimeoutMs };
    const thread = new Thread(new URL('./fast-sandbox-thread.ts', import.meta.url), { workerData });
    const client = new WorkerThreadClient(thread, logger);
    await client.send({
      type: 'init',
      workflowBundle,
      isolateExecutionTimeoutMs: undefined as unknown as number, // no limits of its own
      reuseV8Context: true,
      registeredActivityNames: new Set(activities.keys()),
      hasPatchActivationCallback: false,
    });
    return new ThreadedVMWorkflowCreator([client]);
  }
}
