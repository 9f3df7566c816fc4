/** What goes with every workflow: what it reports to the worker that runs it, and its cluster with each activity. */
import { defaultPayloadConverter } from '@temporalio/common';
import {
  type ActivityInput,
  type LocalActivityInput,
  proxySinks,
  type Sinks,
  type WorkflowInterceptors,
  workflowInfo,
} from '@temporalio/workflow';
import { clusterHeader } from '../api/names.ts';

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
  let cluster: string | undefined;
  return {
    inbound: [
      {
        execute(input, next) {
          ({ cluster } = Object(input.args[0]));
          return next(input);
        },
      },
    ],
    outbound: [
      {
        scheduleActivity: (input, next) => next(ofCluster(withRequest(input, cluster), cluster)),
        scheduleLocalActivity: (input, next) => next(ofCluster(input, cluster)),
      },
    ],
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

/** Whoever runs the activity is to serve the cluster of the object. */
function ofCluster<I extends ActivityInput | LocalActivityInput>(input: I, cluster: string | undefined): I {
  if (cluster === undefined) return input;
  return { ...input, headers: { ...input.headers, [clusterHeader]: defaultPayloadConverter.toPayload(cluster) } };
}

/** Requests to providers say so themselves: these may be in any language. */
function withRequest(input: ActivityInput, cluster: string | undefined): ActivityInput {
  const [request, ...others] = input.args;
  if (cluster === undefined || input.options.taskQueue === undefined) return input;
  return { ...input, args: [{ ...Object(request), cluster }, ...others] };
}
