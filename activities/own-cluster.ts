/** Keeps a worker from what is asked for another cluster, whose objects it would take for gone. */
import { ApplicationFailure } from '@temporalio/activity';
import { defaultPayloadConverter } from '@temporalio/common';
import type { ActivityExecuteInput, ActivityInterceptorsFactory } from '@temporalio/worker';
import { type FailureCode, failures } from '../api/failures.ts';
import { clusterHeader } from '../api/names.ts';

const code: FailureCode = 'Unavailable';

/**
 * Activity interceptor: refuses with a failure that workflows wait for. What does not say for which cluster it is, and
 * a worker that does not know its own, are as they are.
 * @param own UID of the watched namespace
 */
export function refuseOtherClusters(own: string | undefined): ActivityInterceptorsFactory {
  return () => ({
    inbound: {
      async execute(input, next) {
        const asked = clusterOf(input);
        if (own === undefined || asked === undefined || asked === own) return next(input);
        const message =
          `this worker serves the cluster with namespace UID ${own}, but the call is for UID ${asked}. If two clusters ` +
          'share an installation name, give each its own --installation. If the installation moved, terminate its old ' +
          'workflows';
        throw ApplicationFailure.create({ type: code, message, nonRetryable: !failures[code].transient });
      },
    },
  });
}

/** By the header that our workflows send with every activity, else by the request, as the provider contract has it. */
function clusterOf({ headers, args: [request] }: ActivityExecuteInput): string | undefined {
  const header = headers[clusterHeader];
  if (header !== undefined) return defaultPayloadConverter.fromPayload<string>(header);
  const { cluster }: { cluster?: string } = Object(request);
  return cluster;
}
