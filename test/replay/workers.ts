/** Workers that replay histories. They differ in what runs the code of the workflows. */
import { Worker } from '@temporalio/worker';
import { globalHandlers } from '@temporalio/worker/lib/workflow/vm-shared.js';

type CreatorArguments = Parameters<(typeof Worker)['createWorkflowCreator']>;

// The SDK traces the promises of a whole thread, and never stops: here also those of every later test file.
Object.assign(globalHandlers, { install: () => undefined });

/** The cheapest: in this thread, without stack traces, and without time limits, each of which starts a thread. */
export class LeanWorker extends Worker {
  protected static override async createWorkflowCreator(...[bundle, options, logger]: CreatorArguments) {
    const noLimit = { isolateExecutionTimeoutMs: undefined as unknown as number };
    return super.createWorkflowCreator(bundle, { ...options, ...noLimit }, logger);
  }
}

/**
 * As workers of an installation run workflows by default: in a thread of their own, with time limits and stack traces.
 */
export class DefaultWorker extends Worker {
  protected static override async createWorkflowCreator(...[bundle, options, logger]: CreatorArguments) {
    return super.createWorkflowCreator(bundle, { ...options, debugMode: false }, logger);
  }
}
