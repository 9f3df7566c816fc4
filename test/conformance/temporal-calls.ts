/** Calls of a provider through Temporal: activities without a workflow, with the options that Millwright uses. */
import { randomUUID } from 'node:crypto';
import {
  ActivityExecutionFailedError,
  type ActivityHandle,
  ApplicationFailure,
  CancelledFailure,
  type Client,
  TimeoutFailure,
} from '@temporalio/client';
import { grpcCodeOf, grpcCodes } from '../../temporal/connection.ts';
import { Breach } from './breach.ts';
import { type ActivityName, attemptsOfMillwright, type Calls, causesOf, NobodyServes, readAnswer } from './calls.ts';

/** How long a call may take to end after its cancellation, ms. */
const endsWithinMs = 30_000;

/** @param taskQueue of the provider */
export function createTemporalCalls(client: Client, taskQueue: string): Calls {
  const run = randomUUID().slice(0, 8);
  const handles: ActivityHandle[] = [];
  const open = new Set<ActivityHandle>();
  let number = 0;

  return {
    async start(name, request, attempts = attemptsOfMillwright) {
      const handle = await client.activity.start<unknown>(name, {
        id: `conformance-${run}-${number++}-${name}`,
        taskQueue,
        args: [request],
        scheduleToStartTimeout: '1 minute',
        startToCloseTimeout: '5 minutes',
        heartbeatTimeout: '10 seconds',
        retry: { initialInterval: '1 second', maximumInterval: '10 seconds', maximumAttempts: attempts },
      });
      handles.push(handle);
      open.add(handle);
      return {
        isRunning: async () => (await handle.describe()).lastStartedTime !== undefined,
        cancel: () =>
          handle.cancel('conformance').catch((error: unknown) => {
            if (grpcCodeOf(error) !== grpcCodes.failedPrecondition) throw error; // it has ended
          }),
        async outcome() {
          const result = await handle.result().then(
            (value): { value: unknown } => ({ value }),
            (error: unknown): { error: unknown } => ({ error }),
          );
          open.delete(handle);
          const { attempt } = await handle.describe();
          if ('value' in result) return { kind: 'answered', answer: readAnswer(name, result.value), attempt };
          return { ...endOf(name, taskQueue, result.error), attempt };
        },
      };
    },

    payloads: () => Promise.all(handles.map(payloadsOf)),

    async endAll() {
      await Promise.all(
        [...open].map(async (handle) => {
          await handle.cancel('the case has ended').catch(() => undefined);
          const late = setTimeout(() => void handle.terminate('it does not end').catch(() => undefined), endsWithinMs);
          await handle.result().catch(() => undefined);
          clearTimeout(late);
          open.delete(handle);
        }),
      );
    },
  };
}

const everything = {
  includeInput: true,
  includeHeartbeatDetails: true,
  includeLastFailure: true,
  includeOutcome: true,
};

async function payloadsOf(handle: ActivityHandle): Promise<string> {
  const execution = await handle.describe(everything);
  const failures = [await execution.getOutcomeFailure(), await execution.getLastFailure()].flatMap(causesOf);
  const details: unknown = await execution.getHeartbeatDetails();
  return JSON.stringify([await execution.getInput(), await execution.getResult(), details, ...failures]);
}

function endOf(name: ActivityName, taskQueue: string, error: unknown) {
  if (!(error instanceof ActivityExecutionFailedError)) throw error;
  const { cause } = error;
  if (cause instanceof ApplicationFailure) return { kind: 'refused', failure: cause } as const;
  if (cause instanceof CancelledFailure) return { kind: 'cancelled' } as const;
  if (cause instanceof TimeoutFailure && cause.timeoutType === 'SCHEDULE_TO_START')
    throw new NobodyServes(`no worker polls the task queue ${taskQueue}: start one, or give --worker`);
  throw new Breach(`${name} ended with ${cause?.message ?? String(cause)}`);
}
