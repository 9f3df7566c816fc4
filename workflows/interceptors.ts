/**
 * What every workflow does: it reports its progress to the worker, sends its cluster with each activity, and says of an
 * exception whether a replay has thrown it.
 */
import { defaultPayloadConverter } from '@temporalio/common';
import {
  type ActivityInput,
  ContinueAsNew,
  DeterminismViolationError,
  type LocalActivityInput,
  proxySinks,
  type Sinks,
  TemporalFailure,
  type WorkflowInterceptors,
  workflowInfo,
} from '@temporalio/workflow';
import { clusterHeader, throwsInReplayMark } from '../api/names.ts';

export interface ProgressSinks extends Sinks {
  readonly progress: {
    /** The workflow has got new events; `historyLength` of its info counts them. */
    seen(): void;
  };
}

const { progress } = proxySinks<ProgressSinks>();

/** Called for each run by the SDK. */
export function interceptors(): WorkflowInterceptors {
  let reported = 0;
  const report = () => {
    const { historyLength, unsafe } = workflowInfo();
    if (unsafe.isReplaying || historyLength === reported) return; // another activation of the same task
    reported = historyLength;
    progress.seen();
  };
  let cluster: string | undefined;
  return {
    inbound: [
      {
        execute(input, next) {
          ({ cluster } = Object(input.args[0]));
          return next(input).catch((error: unknown) => {
            throw ofReplay(error);
          });
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
          report();
          return next(input);
        },
      },
    ],
  };
}

/**
 * An exception that fails the workflow task, with a mark if the history goes on after it: then history and code
 * disagree, although the SDK reports an exception like any other.
 */
function ofReplay(error: unknown): unknown {
  const endsRun = [TemporalFailure, ContinueAsNew, DeterminismViolationError].some((type) => error instanceof type);
  if (endsRun || !workflowInfo().unsafe.isReplaying) return error;
  return new Error(`${throwsInReplayMark}: ${String(error)}`, { cause: error });
}

/** The worker that runs the activity has to serve the cluster of the object. */
function ofCluster<I extends ActivityInput | LocalActivityInput>(input: I, cluster: string | undefined): I {
  if (cluster === undefined) return input;
  return { ...input, headers: { ...input.headers, [clusterHeader]: defaultPayloadConverter.toPayload(cluster) } };
}

/** Requests to providers have it as a field: their workers may be in any language. */
function withRequest(input: ActivityInput, cluster: string | undefined): ActivityInput {
  const [request, ...others] = input.args;
  if (cluster === undefined || input.options.taskQueue === undefined) return input;
  return { ...input, args: [{ ...Object(request), cluster }, ...others] };
}
