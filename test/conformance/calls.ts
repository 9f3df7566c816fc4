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
import { z } from 'zod';
import { ClassVerdict, type ProviderActivities, Vm, VmDeletion, VmPage } from '../../api/provider.ts';
import { grpcCodeOf, grpcCodes } from '../../temporal/connection.ts';
import { Breach } from './breach.ts';

/** What the answers of the activities have to look like. */
const answers = {
  ...{ ensureVm: Vm, deleteVm: VmDeletion, listVms: VmPage, validateClass: ClassVerdict },
  updateVm: z.unknown(), // it says nothing
} as const;
export type ActivityName = keyof typeof answers;
export type Answer<N extends ActivityName> = z.output<(typeof answers)[N]>;
type Request<N extends ActivityName> = Parameters<Required<ProviderActivities>[N]>[0];

/** How a call has ended. `attempt` is the number of its last attempt. */
export type Outcome<N extends ActivityName> =
  | { readonly kind: 'answered'; readonly answer: Answer<N>; readonly attempt: number }
  | { readonly kind: 'refused'; readonly failure: ApplicationFailure; readonly attempt: number }
  | { readonly kind: 'cancelled'; readonly attempt: number };

/** A call that was started. */
export interface Call<N extends ActivityName> {
  /** Whether a worker has it. */
  isRunning(): Promise<boolean>;
  cancel(): Promise<void>;
  /** Throws Breach when it ends by a timeout, or with an answer that is none. */
  outcome(): Promise<Outcome<N>>;
}

export type Calls = ReturnType<typeof createCalls>;

/** Nobody serves the task queue. */
export class NobodyServes extends Error {}

const attemptsOfMillwright = 4;
/** How long a call may take to end after its cancellation, ms. */
const endsWithinMs = 30_000;

/** @param taskQueue of the provider */
export function createCalls(client: Client, taskQueue: string) {
  const run = randomUUID().slice(0, 8);
  const handles: ActivityHandle[] = [];
  const open = new Set<ActivityHandle>();
  let number = 0;

  return {
    /** Starts a call. @param attempts Default: as many as Millwright makes */
    async start<N extends ActivityName>(
      name: N,
      request: Request<N>,
      attempts = attemptsOfMillwright,
    ): Promise<Call<N>> {
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
          if ('value' in result) return { kind: 'answered', answer: read(name, result.value), attempt };
          return { ...endOf(name, taskQueue, result.error), attempt };
        },
      };
    },

    /** All payloads of all calls as text: inputs, results, failures, heartbeat details. */
    payloads: () => Promise.all(handles.map(payloadsOf)),

    /** Ends the calls that nobody waits for any more. */
    async endAll(): Promise<void> {
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

/** A failure as far as a person can see it. */
function causesOf(error: unknown): unknown[] {
  if (!(error instanceof Error)) return [];
  const details = error instanceof ApplicationFailure ? error.details : [];
  return [error.message, error.stack, details, ...causesOf(error.cause)];
}

/** A field that is null counts as left out. */
function read<N extends ActivityName>(name: N, value: unknown): Answer<N> {
  const { data, error } = answers[name].safeParse(withoutNulls(value));
  if (error) {
    const problems = error.issues.map(({ path, message }) => `${path.join('.') || 'all of it'}: ${message}`);
    throw new Breach(`the answer of ${name} is not valid: ${problems.join('; ')}`);
  }
  return data as Answer<N>;
}

function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (typeof value !== 'object' || value === null) return value;
  const present = Object.entries(value).filter(([, each]) => each !== null);
  return Object.fromEntries(present.map(([key, each]) => [key, withoutNulls(each)]));
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
