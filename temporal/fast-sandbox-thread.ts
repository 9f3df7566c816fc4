/** The SDK's thread for workflows, changed before it starts: see fast-sandbox.ts. */
import { Script } from 'node:vm';
import { workerData } from 'node:worker_threads';
import { ReusableVMWorkflow, ReusableVMWorkflowCreator } from '@temporalio/worker/lib/workflow/reusable-vm.js';
import { globalHandlers } from '@temporalio/worker/lib/workflow/vm-shared.js';

const { timeoutMs: timeout } = workerData as { timeoutMs: number };
const script = new Script('enterSandbox()');

/**
 * The SDK sets a time limit for each call into the sandbox, and each limit starts a thread. Here one limit covers all.
 */
function limited<T>(call: () => T): T {
  Object.assign(globalThis, { enterSandbox: call });
  return script.runInThisContext({ timeout }) as T;
}

// The SDK's own way where the runtime has no promise hooks. The query `__stack_trace` says that it is not enabled.
Object.assign(globalHandlers, { setPromiseHook: () => undefined });

const { createWorkflow } = ReusableVMWorkflowCreator.prototype;
const { activate, dispose } = ReusableVMWorkflow.prototype;

ReusableVMWorkflowCreator.prototype.createWorkflow = function (options) {
  return limited(() => createWorkflow.call(this, options));
};
ReusableVMWorkflow.prototype.activate = async function (activation) {
  try {
    return await limited(() => activate.call(this, activation));
  } catch (error) {
    // As the SDK answers when a limit of its own has passed.
    return { runId: this.runId, failed: { failure: this['activator'].errorToFailure(error) } };
  }
};
ReusableVMWorkflow.prototype.dispose = function () {
  return limited(() => dispose.call(this));
};

await import('@temporalio/worker/lib/workflow/workflow-worker-thread.js');
