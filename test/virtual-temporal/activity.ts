/** An activity that a workflow has scheduled: attempts, timeouts and cancellation, as Temporal defines them. */
import { asyncLocalStorage, Context, type Info } from '@temporalio/activity';
import {
  ActivityFailure,
  type ApplicationFailure,
  CancelledFailure,
  defaultFailureConverter,
  defaultPayloadConverter,
  ensureApplicationFailure,
  noopMetricMeter,
  type RetryState,
  TimeoutFailure,
  type TimeoutType,
} from '@temporalio/common';
import { optionalTsToMs } from '@temporalio/common/lib/time.js';
import type { VirtualClock } from './clock.ts';
import type { ActivityCommand, ActivityResult } from './wire.ts';

/** An activity as a test plays it. */
export type PlayedActivity = (...args: never[]) => unknown;

/** What Temporal passes to an activity in the details of a cancellation before any worker has taken it. */
const notStarted = 'ACTIVITY_ID_NOT_STARTED';

const silent = { log() {}, trace() {}, debug() {}, info() {}, warn() {}, error() {} };

export interface ActivityDeps {
  readonly clock: VirtualClock;
  /** undefined: no worker has an activity of this name on this task queue. */
  readonly played: PlayedActivity | undefined;
  readonly isLocal: boolean;
  readonly workflow: { readonly workflowId: string; readonly runId: string };
  /** Called once, with what the workflow gets. */
  onResult(result: ActivityResult): void;
}

export class VirtualActivity {
  readonly #command: ActivityCommand;
  readonly #deps: ActivityDeps;
  readonly #alarms = new Set<{ cancel(): void }>();
  #attempts = 0;
  #isUnderWay = false;
  #isOver = false;
  #isCancelRequested = false;
  /** Has the attempt hear that it is cancelled. */
  #cancelAttempt: (() => void) | undefined;

  constructor(command: ActivityCommand, deps: ActivityDeps) {
    this.#command = command;
    this.#deps = deps;
    const { scheduleToCloseTimeout } = command;
    this.#limit(scheduleToCloseTimeout, () => this.#timeOut('SCHEDULE_TO_CLOSE', 'NON_RETRYABLE_FAILURE'));
    this.#schedule();
  }

  get type(): string {
    return this.#command.activityType ?? '';
  }

  /** As `describe` of a workflow has it: PENDING_ACTIVITY_STATE_SCHEDULED, _STARTED or _CANCEL_REQUESTED. */
  get state(): 1 | 2 | 3 {
    if (this.#isCancelRequested) return 3;
    return this.#isUnderWay ? 2 : 1;
  }

  /**
   * The workflow wants no result any more. An ordinary attempt hears of it with its next heartbeat, a local one at
   * once.
   */
  cancel(): void {
    this.#isCancelRequested = true;
    if (!this.#isUnderWay)
      this.#end({ cancelled: { failure: this.#failureOf(new CancelledFailure('', [notStarted])) } });
    else if (this.#deps.isLocal) this.#cancelAttempt?.();
  }

  /** Nobody waits for it any more: its workflow has ended. */
  abandon(): void {
    this.#isOver = true;
    this.#clearAlarms();
    this.#cancelAttempt?.();
  }

  #schedule(): void {
    const { scheduleToStartTimeout } = this.#command;
    if (this.#deps.played !== undefined) this.#attempt(this.#deps.played);
    else this.#limit(scheduleToStartTimeout, () => this.#timeOut('SCHEDULE_TO_START', 'NON_RETRYABLE_FAILURE'));
  }

  #attempt(played: PlayedActivity): void {
    const attempt = ++this.#attempts;
    const { startToCloseTimeout, arguments: payloads, activityId } = this.#command;
    const { workflow, isLocal } = this.#deps;
    const isCurrent = () => attempt === this.#attempts && this.#isUnderWay && !this.#isOver;
    this.#isUnderWay = true;
    const aborts = new AbortController();
    const cancelled = new Promise<never>((_, reject) => {
      this.#cancelAttempt = () => {
        aborts.abort();
        reject(new CancelledFailure('CANCELLED'));
      };
    });
    cancelled.catch(() => undefined); // not everybody listens
    const cancelAttempt = this.#cancelAttempt;
    const startAlarm = this.#limit(startToCloseTimeout, () => this.#timeOutAttempt('START_TO_CLOSE'));
    let heartbeatAlarm = this.#expectHeartbeat();
    const heartbeat = () => {
      if (heartbeatAlarm !== undefined) this.#drop(heartbeatAlarm);
      if (isCurrent()) heartbeatAlarm = this.#expectHeartbeat();
      if (!isCurrent() || this.#isCancelRequested) cancelAttempt?.();
    };
    const info = {
      ...{ activityId: activityId ?? '', activityType: this.type, attempt, isLocal },
      workflowExecution: workflow,
    } as Partial<Info> as Info;
    const args = (payloads ?? []).map((payload) => defaultPayloadConverter.fromPayload(payload));
    const context = new Context(info, cancelled, aborts.signal, heartbeat, undefined, silent, noopMetricMeter, {});
    const close = (end: () => void) => {
      if (!isCurrent()) return; // its time was over before
      for (const alarm of [startAlarm, heartbeatAlarm]) if (alarm !== undefined) this.#drop(alarm);
      end();
    };
    const call = async (): Promise<unknown> => Reflect.apply(played, undefined, args);
    asyncLocalStorage.run(context, call).then(
      (answer) => close(() => this.#end({ completed: { result: defaultPayloadConverter.toPayload(answer) } })),
      (error: unknown) => close(() => this.#fail(error)),
    );
  }

  #fail(error: unknown): void {
    if (error instanceof CancelledFailure && this.#isCancelRequested) {
      this.#end({ cancelled: { failure: this.#failureOf(error) } });
      return;
    }
    const failure = ensureApplicationFailure(error);
    const { nonRetryable, type, nextRetryDelay } = failure;
    const isFinal = nonRetryable === true || this.#command.retryPolicy?.nonRetryableErrorTypes?.includes(type ?? '');
    const delayMs = typeof nextRetryDelay === 'number' ? nextRetryDelay : undefined;
    this.#isUnderWay = false;
    this.#retryOrEnd(failure, isFinal ? 'NON_RETRYABLE_FAILURE' : undefined, delayMs);
  }

  #timeOutAttempt(type: TimeoutType): void {
    this.#isUnderWay = false;
    this.#retryOrEnd(new TimeoutFailure('activity timeout', undefined, type));
  }

  #timeOut(type: TimeoutType, retryState: RetryState): void {
    this.#end({
      failed: { failure: this.#failureOf(new TimeoutFailure('activity timeout', undefined, type), retryState) },
    });
  }

  #retryOrEnd(failure: ApplicationFailure | TimeoutFailure, final?: RetryState, delayMs?: number): void {
    const { retryPolicy } = this.#command;
    const most = retryPolicy?.maximumAttempts ?? 0;
    const isLast = most > 0 && this.#attempts >= most;
    const end = final ?? (isLast ? 'MAXIMUM_ATTEMPTS_REACHED' : undefined);
    if (end !== undefined) this.#end({ failed: { failure: this.#failureOf(failure, end) } });
    else if (this.#isCancelRequested) this.cancel();
    else this.#after(delayMs ?? this.#backoffMs(), () => this.#schedule());
  }

  #backoffMs(): number {
    const { initialInterval, backoffCoefficient, maximumInterval } = this.#command.retryPolicy ?? {};
    const firstMs = optionalTsToMs(initialInterval) ?? 1_000;
    const mostMs = optionalTsToMs(maximumInterval) || 100 * firstMs;
    return Math.min(mostMs, firstMs * (backoffCoefficient || 2) ** (this.#attempts - 1));
  }

  #expectHeartbeat() {
    if (!('heartbeatTimeout' in this.#command)) return undefined;
    return this.#limit(this.#command.heartbeatTimeout, () => this.#timeOutAttempt('HEARTBEAT'));
  }

  #limit(timeout: Parameters<typeof optionalTsToMs>[0], ring: () => void) {
    const ms = optionalTsToMs(timeout) ?? 0;
    return ms > 0 ? this.#after(ms, ring) : undefined;
  }

  #after(ms: number, ring: () => void): { cancel(): void } {
    const alarm = this.#deps.clock.setAlarm(ms, () => {
      this.#alarms.delete(alarm);
      if (!this.#isOver) ring();
    });
    this.#alarms.add(alarm);
    return alarm;
  }

  #drop(alarm: { cancel(): void }): void {
    alarm.cancel();
    this.#alarms.delete(alarm);
  }

  #clearAlarms(): void {
    for (const alarm of this.#alarms) alarm.cancel();
    this.#alarms.clear();
  }

  #end(result: ActivityResult): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#clearAlarms();
    this.#deps.onResult(result);
  }

  /** An ordinary activity fails with an ActivityFailure around the cause, a local one with the bare cause. */
  #failureOf(cause: ApplicationFailure | TimeoutFailure | CancelledFailure, retryState?: RetryState) {
    const { isLocal } = this.#deps;
    const state = retryState ?? 'NON_RETRYABLE_FAILURE';
    const id = this.#command.activityId ?? '';
    const error = isLocal ? cause : new ActivityFailure('Activity task failed', this.type, id, state, 'virtual', cause);
    return defaultFailureConverter.errorToFailure(error, defaultPayloadConverter);
  }
}
