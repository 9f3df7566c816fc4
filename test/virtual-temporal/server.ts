/**
 * A Temporal for the tests of workflows: it runs their code in the SDK's sandbox in this process, with a clock that
 * only waiting moves. As soon as nothing else is left to do, the next timer fires.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { WorkflowFailedError, WorkflowUpdateFailedError } from '@temporalio/client';
import {
  CancelledFailure,
  defaultPayloadConverter,
  type QueryDefinition,
  type RetryPolicy,
  type SearchAttributePair,
  type SignalDefinition,
  TerminatedFailure,
  type UpdateDefinition,
  WorkflowExecutionAlreadyStartedError,
  WorkflowNotFoundError,
} from '@temporalio/common';
import {
  decodeSearchAttributes,
  decodeTypedSearchAttributes,
  encodeUnifiedSearchAttributes,
} from '@temporalio/common/lib/converter/payload-search-attributes.js';
import { type Duration, msToNumber } from '@temporalio/common/lib/time.js';
import { parseWorkflowCode } from '@temporalio/worker/lib/worker.js';
import { ReusableVMWorkflowCreator } from '@temporalio/worker/lib/workflow/reusable-vm.js';
import { globalHandlers } from '@temporalio/worker/lib/workflow/vm-shared.js';
import { loadWorkflowBundle } from '../../temporal/bundle.ts';
import { seenText } from '../support/until.ts';
import type { PlayedActivity } from './activity.ts';
import { VirtualClock } from './clock.ts';
import { errorOf, type HistoryEvent, type RunEnd, type RunStart, type UpdateAnswer, VirtualRun } from './run.ts';
import type { Job } from './wire.ts';

interface StartOptions {
  readonly taskQueue: string;
  readonly workflowId: string;
  readonly args: readonly unknown[];
  readonly retry?: RetryPolicy;
  readonly typedSearchAttributes?: readonly SearchAttributePair[];
}

/**
 * What one wait may take: virtual time, ms, and alarms. What comes later is late, or a test lets time pass until then.
 */
const longestWaitMs = 60_000;
const mostAlarms = 20_000;

/** Activations at one time of the clock, after which workflows count as spinning. */
const mostActivations = 5_000;

/** One sandbox for all: building it takes longer than a test. */
let sandbox: Promise<ReusableVMWorkflowCreator> | undefined;
/** Of all activities that tests of this process play: the sandbox refuses others. */
const activityNames = new Set<string>();

async function createSandbox(): Promise<ReusableVMWorkflowCreator> {
  // No stack trace of each promise, and no limit of time for each call: together they cost more than the workflows.
  // And stack traces of tests stay those of jest.
  Object.assign(globalHandlers, { setPromiseHook: () => undefined, overridePrepareStackTrace: () => undefined });
  const { code } = await loadWorkflowBundle();
  const noLimit = undefined as unknown as number;
  return ReusableVMWorkflowCreator.create(parseWorkflowCode(code), noLimit, activityNames);
}

/** Runs of one workflow ID, the newest one last. */
interface Chain {
  readonly runs: VirtualRun[];
  readonly retry: RetryPolicy | undefined;
}

export class VirtualTemporal {
  readonly clock = new VirtualClock();
  readonly #sandbox: ReusableVMWorkflowCreator;
  readonly #activities: Readonly<Record<string, object>>;
  readonly #chains = new Map<string, Chain>();
  readonly #ready = new Set<VirtualRun>();
  #runs = 0;
  #random = 1;
  /** The work under way: nobody else enters the sandbox. */
  #working: Promise<void> | undefined;
  /** How many wait until nothing is left to do. */
  #settling = 0;
  #bug: Error | undefined;

  /** @param activities by task queue and name */
  private constructor(creator: ReusableVMWorkflowCreator, activities: Readonly<Record<string, object>>) {
    this.#sandbox = creator;
    this.#activities = activities;
  }

  static async create(activities: Readonly<Record<string, object>>): Promise<VirtualTemporal> {
    for (const played of Object.values(activities)) for (const name of Object.keys(played)) activityNames.add(name);
    sandbox ??= createSandbox();
    return new VirtualTemporal(await sandbox, activities);
  }

  /** As a client's `workflow.start`. */
  async start(type: string, options: StartOptions): Promise<VirtualHandle & { readonly firstExecutionRunId: string }> {
    const { workflowId, taskQueue, args, retry, typedSearchAttributes = [] } = options;
    const open = this.#chains.get(workflowId)?.runs.at(-1);
    if (open !== undefined && open.end === undefined)
      throw new WorkflowExecutionAlreadyStartedError('Workflow execution already started', workflowId, type);
    const runId = this.#nextRunId();
    const chain: Chain = { runs: this.#chains.get(workflowId)?.runs ?? [], retry };
    this.#chains.set(workflowId, chain);
    this.#begin(chain, {
      ...{ type, workflowId, runId, firstRunId: runId, taskQueue, attempt: 1, startedMs: this.clock.nowMs },
      args: args.map((arg) => defaultPayloadConverter.toPayload(arg)),
      searchAttributes: encodeUnifiedSearchAttributes(undefined, [...typedSearchAttributes]),
    });
    await this.settle();
    return Object.assign(this.handle(workflowId), { firstExecutionRunId: runId });
  }

  /** As a client's `workflow.execute`. */
  async execute<T>(type: string, options: StartOptions): Promise<T> {
    return (await (await this.start(type, options)).result()) as T;
  }

  /** As a client's `workflow.getHandle`. */
  handle(workflowId: string, runId?: string): VirtualHandle {
    return new VirtualHandle(this, workflowId, runId);
  }

  /** The newest run of a workflow ID, or the one with this run ID. */
  runOf(workflowId: string, runId?: string): VirtualRun {
    const runs = this.#chains.get(workflowId)?.runs ?? [];
    const run = runId === undefined ? runs.at(-1) : runs.find(({ start }) => start.runId === runId);
    if (run === undefined) throw new WorkflowNotFoundError('workflow not found', workflowId, runId);
    return run;
  }

  /** The run that has followed this one, if any. */
  runAfter({ start: { workflowId, runId } }: VirtualRun): VirtualRun | undefined {
    return this.#chains.get(workflowId)?.runs.find(({ start }) => start.previousRunId === runId);
  }

  /** Resolves when nothing is left to do without the clock. Throws what workflow code should never throw. */
  async settle(): Promise<void> {
    this.#settling += 1;
    try {
      do {
        await (this.#working ??= this.#work());
        await nextTurn(); // what somebody does after this work may be work again
      } while (this.#ready.size > 0);
    } finally {
      this.#settling -= 1;
    }
    if (this.#bug !== undefined) throw this.#bug;
  }

  /** The same, also for activities that wait for it. */
  async #settleAll(): Promise<void> {
    do {
      await this.settle();
      await nextTurn();
    } while (this.#settling > 0 || this.#ready.size > 0);
  }

  /** Calls it while no workflow runs. */
  async whileIdle<T>(call: () => Promise<T>): Promise<T> {
    while (this.#working !== undefined) await this.#working;
    let done = () => {};
    this.#working = new Promise((resolve) => {
      done = resolve;
    });
    try {
      return await call();
    } finally {
      this.#working = undefined;
      done();
    }
  }

  /** Lets time pass: everything that is due within it happens at its time. */
  async advance(ms: number): Promise<void> {
    await this.#settleAll();
    const untilMs = this.clock.nowMs + ms;
    while ((this.clock.nextMs ?? Infinity) <= untilMs) {
      this.clock.ringNext();
      await this.#settleAll();
    }
    this.clock.moveTo(untilMs);
  }

  /** Temporal is down for so long: what is due meanwhile happens when it is back. */
  async beDown(ms: number): Promise<void> {
    await this.#settleAll();
    this.clock.moveTo(this.clock.nowMs + ms);
    await this.advance(0);
  }

  /** Moves the clock, no further than needed, until the check holds. A check that throws does not hold yet. */
  async advanceUntil(what: string, check: () => unknown): Promise<void> {
    const sinceMs = this.clock.nowMs;
    let seen: unknown;
    for (let alarms = 0; ; alarms++) {
      await this.#settleAll();
      try {
        seen = await check();
        if (seen !== false && seen !== undefined) return;
      } catch (error) {
        if (this.#bug !== undefined) throw this.#bug;
        seen = error;
      }
      const passedMs = this.clock.nowMs - sinceMs;
      const isOver = alarms >= mostAlarms || (this.clock.nextMs ?? sinceMs) - sinceMs > longestWaitMs;
      if (!isOver && this.clock.ringNext()) continue;
      const why = isOver ? 'and more would be too long' : 'and nothing is left that could happen';
      const cause = seen instanceof Error ? { cause: seen } : {};
      const waited = `waited ${passedMs / 1000} s of virtual time in vain until ${what}, ${why}`;
      throw new Error(`${waited}\n${seenText(seen)}`, cause);
    }
  }

  /** Ends all runs, and frees what they have taken. */
  async reset(): Promise<void> {
    await this.whileIdle(async () => {
      for (const { runs } of this.#chains.values()) for (const run of runs) await run.dispose();
    });
    this.#chains.clear();
    this.#ready.clear();
    this.clock.clear();
    this.#bug = undefined;
  }

  #nextRunId(): string {
    this.#runs += 1;
    return `run-${this.#runs}`;
  }

  #begin(chain: Chain, start: RunStart, delayMs = 0): VirtualRun {
    const run = new VirtualRun(start, {
      clock: this.clock,
      creator: this.#sandbox,
      activityOf: (taskQueue, type) => {
        const played: Partial<Record<string, PlayedActivity>> = Object(this.#activities[taskQueue]);
        return played[type];
      },
      randomSeed: () => Array.from({ length: 8 }, () => (this.#random = (this.#random * 48_271) % 2_147_483_647) % 256),
      onReady: () => this.#ready.add(run),
      onEnd: (end, left) => this.#follow(chain, run, end, left),
      onSignal: (workflowId, job) => {
        const to = this.#chains.get(workflowId)?.runs.at(-1);
        to?.deliver(job, signalEvent(job));
        return to !== undefined && to.end === undefined;
      },
      onBug: (error) => {
        this.#bug ??= error;
      },
    });
    chain.runs.push(run);
    if (delayMs === 0) this.#ready.add(run);
    else this.clock.setAlarm(delayMs, () => this.#ready.add(run));
    return run;
  }

  /** Starts the run that follows a new start of a workflow by itself, or a failure with a retry policy. */
  #follow(chain: Chain, { start, searchAttributes }: VirtualRun, end: RunEnd, left: readonly Job[]): void {
    const next = { ...start, runId: this.#nextRunId(), previousRunId: start.runId, searchAttributes };
    if (end.kind === 'continuedAsNew') {
      const { type, args } = end;
      const { failure: _, ...first } = next;
      const run = this.#begin(chain, {
        ...first,
        type: type || start.type,
        args,
        attempt: 1,
        startedMs: this.clock.nowMs,
      });
      for (const job of left) if (job.signalWorkflow) run.deliver(job, signalEvent(job));
    } else if (end.kind === 'failed' && chain.retry !== undefined && !isFinal(end.failure)) {
      const { initialInterval = 1_000, backoffCoefficient = 2 } = chain.retry;
      const delayMs = msToNumber(initialInterval as Duration) * backoffCoefficient ** (start.attempt - 1);
      const { failure } = end;
      this.#begin(chain, { ...next, failure, attempt: start.attempt + 1, startedMs: this.clock.nowMs }, delayMs);
    }
  }

  async #work(): Promise<void> {
    let activations = 0;
    try {
      do {
        await nextTurn(); // what comes together is heard together
        for (const run of this.#ready) {
          this.#ready.delete(run);
          if (run.isReady) await run.advance();
          activations += 1;
        }
        if (activations > mostActivations) {
          this.#bug ??= new Error('workflows go on and on without waiting for a timer or a signal');
          this.#ready.clear();
        }
      } while (this.#ready.size > 0);
    } finally {
      this.#working = undefined;
    }
  }
}

function isFinal({ applicationFailureInfo }: Extract<RunEnd, { kind: 'failed' }>['failure']): boolean {
  return applicationFailureInfo?.nonRetryable === true;
}

function signalEvent({ signalWorkflow }: Job): HistoryEvent {
  const { signalName = '', input } = signalWorkflow ?? {};
  return {
    eventType: 'EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED',
    workflowExecutionSignaledEventAttributes: { signalName: signalName ?? '', input: { payloads: input ?? [] } },
  };
}

const statuses = {
  completed: 'COMPLETED',
  failed: 'FAILED',
  cancelled: 'CANCELLED',
  terminated: 'TERMINATED',
  continuedAsNew: 'CONTINUED_AS_NEW',
} as const satisfies Record<RunEnd['kind'], string>;

/** As a handle of Temporal's client, with what the tests use of it. */
export class VirtualHandle {
  readonly #temporal: VirtualTemporal;
  readonly workflowId: string;
  readonly #runId: string | undefined;

  constructor(temporal: VirtualTemporal, workflowId: string, runId: string | undefined) {
    this.#temporal = temporal;
    this.workflowId = workflowId;
    this.#runId = runId;
  }

  get #run(): VirtualRun {
    return this.#temporal.runOf(this.workflowId, this.#runId);
  }

  get #openRun(): VirtualRun {
    const run = this.#run;
    if (run.end === undefined) return run;
    throw new WorkflowNotFoundError('workflow execution already completed', this.workflowId, this.#runId);
  }

  /** Resolves when the workflow has done what it can about it without the clock. */
  async signal<A extends unknown[]>(message: SignalDefinition<A> | string, ...args: A): Promise<void> {
    const signalName = nameOf(message);
    const input = args.map((arg) => defaultPayloadConverter.toPayload(arg));
    const job: Job = { signalWorkflow: { signalName, input, identity: 'test', headers: {} } };
    this.#openRun.deliver(job, signalEvent(job));
    await this.#temporal.settle();
  }

  async query<R, A extends unknown[]>(message: QueryDefinition<R, A> | string, ...args: A): Promise<R> {
    await this.#temporal.settle();
    return this.#temporal.whileIdle(async () => (await this.#run.query(nameOf(message), args)) as R);
  }

  async executeUpdate<R, A extends unknown[]>(message: UpdateDefinition<R, A>, { args }: { args: A }): Promise<R> {
    let answer: UpdateAnswer | undefined;
    void this.#openRun.update(message.name, args).then((given) => {
      answer = given;
    });
    await this.#temporal.advanceUntil(`the update ${message.name} is answered`, () => answer);
    if (answer !== undefined && 'value' in answer) return answer.value as R;
    throw new WorkflowUpdateFailedError('Workflow Update failed', answer?.error);
  }

  /** Moves the clock until the workflow has ended, in whichever run. */
  async result(): Promise<unknown> {
    let run = this.#run;
    const isOver = () => {
      const { end } = run;
      if (end === undefined) return false;
      const next = this.#temporal.runAfter(run);
      if (next === undefined) return true;
      run = next;
      return isOver();
    };
    await this.#temporal.advanceUntil(`${this.workflowId} has ended`, isOver);
    const { end } = run;
    if (end?.kind === 'completed') return end.result && defaultPayloadConverter.fromPayload(end.result);
    const fail = (message: string, cause: Error) => new WorkflowFailedError(message, cause, 'RETRY_POLICY_NOT_SET');
    if (end?.kind === 'failed') throw fail('Workflow execution failed', errorOf(end.failure));
    if (end?.kind === 'cancelled') throw fail('Workflow execution cancelled', new CancelledFailure('cancelled'));
    throw fail('Workflow execution terminated', new TerminatedFailure('terminated'));
  }

  async terminate(): Promise<void> {
    this.#openRun.terminate();
    await this.#temporal.settle();
  }

  async describe() {
    await this.#temporal.settle();
    const run = this.#run;
    return {
      runId: run.start.runId,
      status: { name: run.end === undefined ? ('RUNNING' as const) : statuses[run.end.kind] },
      historyLength: run.events.length,
      searchAttributes: decodeSearchAttributes(run.searchAttributes),
      typedSearchAttributes: decodeTypedSearchAttributes(run.searchAttributes),
      raw: {
        pendingActivities: [...run.activities.values()].map(({ type, state }) => ({
          activityType: { name: type },
          state,
        })),
        pendingWorkflowTask: run.hasTask ? {} : undefined,
      },
    };
  }

  async fetchHistory(): Promise<{ readonly events: readonly HistoryEvent[] }> {
    await this.#temporal.settle();
    return { events: [...this.#run.events] };
  }

  /** Has the worker forget the run, and do everything again. Throws when the code does something else. */
  async replay(): Promise<void> {
    await this.#temporal.settle();
    await this.#temporal.whileIdle(() => this.#run.replay());
    await this.#temporal.settle();
  }

  /** Has the history of the present run look as long as after this many more events. */
  lengthen(events: number): void {
    this.#run.lengthen(events);
  }
}

function nameOf(message: { readonly name: string } | string): string {
  return typeof message === 'string' ? message : message.name;
}
