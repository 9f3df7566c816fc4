/** Calls of a provider in this process: its activities with the boundary of a worker, and no server in between. */
import { setTimeout as sleep } from 'node:timers/promises';
import { ApplicationFailure, asyncLocalStorage, CancelledFailure, type Context } from '@temporalio/activity';
import { boundary } from '../../activities/boundary.ts';
import type { ProviderActivities } from '../../api/provider.ts';
import { type ActivityName, attemptsOfMillwright, type Calls, causesOf, type Outcome, readAnswer } from './calls.ts';

/** Short, so that a call has soon sent a heartbeat, ms. */
export const heartbeatTimeoutMs = 200;
/** Between two attempts, unless the failure says another, ms. */
const pauseMs = 100;
/** Longest pause that a failure may ask for, ms. Those of production would stop a case for minutes. */
const longestPauseMs = 2_000;

export function createLocalCalls(activities: ProviderActivities): Calls {
  const texts: string[] = [];
  const started: { readonly cancelling: AbortController; readonly outcome: Promise<unknown> }[] = [];

  /** As it is after a way through JSON, as each payload has. */
  function recorded(value: unknown): unknown {
    const text = JSON.stringify(value) ?? 'null';
    texts.push(text);
    return JSON.parse(text);
  }

  function attemptOf(name: ActivityName, request: unknown, attempt: number, signal: AbortSignal): Promise<unknown> {
    const info = { attempt, heartbeatTimeoutMs, isLocal: false };
    const context = { info, cancellationSignal: signal, heartbeat: recorded } as unknown as Context;
    const act = activities[name] as (request: unknown) => Promise<unknown>;
    const next = ({ args }: { readonly args: readonly unknown[] }) => act(args[0]);
    return asyncLocalStorage.run(context, () =>
      boundary(context).inbound.execute({ args: [recorded(request)], headers: {} }, next),
    );
  }

  async function run<N extends ActivityName>(
    name: N,
    request: unknown,
    attempts: number,
    signal: AbortSignal,
  ): Promise<Outcome<N>> {
    for (let attempt = 1; ; attempt++) {
      try {
        const answer = recorded(await attemptOf(name, request, attempt, signal));
        return { kind: 'answered', answer: readAnswer(name, answer), attempt };
      } catch (error) {
        if (error instanceof CancelledFailure) return { kind: 'cancelled', attempt };
        if (!(error instanceof ApplicationFailure)) throw error;
        recorded(causesOf(error));
        if (error.nonRetryable || attempt >= attempts) return { kind: 'refused', failure: error, attempt };
        await sleep(Math.min(Number(error.nextRetryDelay ?? pauseMs), longestPauseMs), undefined, { signal }).catch(
          () => undefined,
        );
        if (signal.aborted) return { kind: 'cancelled', attempt };
      }
    }
  }

  return {
    async start(name, request, attempts = attemptsOfMillwright) {
      const cancelling = new AbortController();
      const outcome = run(name, request, attempts, cancelling.signal);
      outcome.catch(() => undefined); // nobody may wait for it
      started.push({ cancelling, outcome });
      return {
        isRunning: async () => true,
        cancel: async () => cancelling.abort(new CancelledFailure('conformance')),
        outcome: () => outcome,
      };
    },

    payloads: async () => texts,

    async endAll() {
      for (const { cancelling } of started) cancelling.abort(new CancelledFailure('the case has ended'));
      await Promise.allSettled(started.splice(0).map(({ outcome }) => outcome));
    },
  };
}
