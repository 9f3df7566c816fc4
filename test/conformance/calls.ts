/**
 * How the suite calls a provider: through a Temporal server (temporal-calls.ts), or in this process (local-calls.ts).
 */
import { ApplicationFailure } from '@temporalio/common';
import { z } from 'zod';
import { ClassVerdict, type ProviderActivities, Vm, VmDeletion, VmPage } from '../../api/provider.ts';
import { Breach } from './breach.ts';

/** What the answers of the activities have to look like. */
const answers = {
  ...{ ensureVm: Vm, deleteVm: VmDeletion, listVms: VmPage, validateClass: ClassVerdict },
  updateVm: z.unknown(), // it says nothing
} as const;
export type ActivityName = keyof typeof answers;
export type Answer<N extends ActivityName> = z.output<(typeof answers)[N]>;
export type Request<N extends ActivityName> = Parameters<Required<ProviderActivities>[N]>[0];

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

/** Calls of one provider. */
export interface Calls {
  /** Starts a call. @param attempts Default: `attemptsOfMillwright` */
  start<N extends ActivityName>(name: N, request: Request<N>, attempts?: number): Promise<Call<N>>;
  /** All payloads of all calls as text: inputs, results, failures, heartbeat details. */
  payloads(): Promise<string[]>;
  /** Ends the calls that nobody waits for any more. */
  endAll(): Promise<void>;
}

/** Nobody serves the task queue, or the worker lacks an activity that it must have. */
export class NobodyServes extends Error {}

export const attemptsOfMillwright = 4;

/** A failure as far as a person can see it. */
export function causesOf(error: unknown): unknown[] {
  if (!(error instanceof Error)) return [];
  const details = error instanceof ApplicationFailure ? error.details : [];
  return [error.message, error.stack, details, ...causesOf(error.cause)];
}

/**
 * Reads the answer of an activity, in which a field that is null counts as left out. Throws Breach for one that is
 * none.
 */
export function readAnswer<N extends ActivityName>(name: N, value: unknown): Answer<N> {
  const { data, error } = answers[name].safeParse(withoutNulls(value));
  if (error) {
    const problems = error.issues.map((issue) => {
      const { path, message } = issue;
      const isNoList = issue.code === 'invalid_type' && issue.expected === 'array' && valueAt(value, path) === null;
      return `${path.join('.') || 'all of it'}: ${isNoList ? 'is null: answer [] for an empty list' : message}`;
    });
    throw new Breach(`the answer of ${name} is not valid: ${problems.join('; ')}`);
  }
  return data as Answer<N>;
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>((at, key) => (Object(at) as Record<PropertyKey, unknown>)[key], value);
}

/** The outcome of a call, for people. @param longest how many characters of an answer it has at most */
export function inShort(outcome: Outcome<ActivityName>, longest = 200): string {
  if (outcome.kind === 'refused') return `${outcome.failure.type}: ${outcome.failure.message}`;
  return outcome.kind === 'cancelled'
    ? 'it was cancelled'
    : `it answered ${JSON.stringify(outcome.answer).slice(0, longest)}`;
}

function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (typeof value !== 'object' || value === null) return value;
  const present = Object.entries(value).filter(([, each]) => each !== null);
  return Object.fromEntries(present.map(([key, each]) => [key, withoutNulls(each)]));
}
