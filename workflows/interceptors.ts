/** What a workflow tells the worker that runs it beside its commands. */
import { proxySinks, type Sinks, type WorkflowInterceptors, workflowInfo } from '@temporalio/workflow';

export interface ProgressSinks extends Sinks {
  readonly progress: {
    /** The worker was given events that are new to the workflow; `historyLength` of its info counts them. */
    seen(): void;
  };
}

const { progress } = proxySinks<ProgressSinks>();

/** Called for each run by the SDK. */
export function interceptors(): WorkflowInterceptors {
  let told = 0;
  const tell = () => {
    const { historyLength, unsafe } = workflowInfo();
    if (unsafe.isReplaying || historyLength === told) return; // an activation more of the same task
    told = historyLength;
    progress.seen();
  };
  return {
    internals: [
      {
        concludeActivation(input, next) {
          tell();
          return next(input);
        },
      },
    ],
  };
}
