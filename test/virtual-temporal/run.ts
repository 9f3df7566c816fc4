/**
 * One run of a workflow: its code in the SDK's own sandbox, driven as a worker drives it. A workflow task lasts until
 * no local activity of it is under way, at most 8 s; what happens meanwhile waits for the next task.
 */
import {
  ApplicationFailure,
  defaultFailureConverter,
  defaultPayloadConverter,
  type Payload,
  TypedSearchAttributes,
} from '@temporalio/common';
import { msToTs, optionalTsToMs } from '@temporalio/common/lib/time.js';
import type { Workflow, WorkflowCreator } from '@temporalio/worker/lib/workflow/interface.js';
import { createUnsafeRandomSource } from '@temporalio/workflow/lib/random-helpers.js';
import { type PlayedActivity, VirtualActivity } from './activity.ts';
import type { VirtualClock } from './clock.ts';
import type { Activation, Command, Job } from './wire.ts';

/** As the server writes it into a history; only the attributes that somebody reads. */
export interface HistoryEvent {
  readonly eventType: string;
  readonly timerStartedEventAttributes?: Command['startTimer'];
  readonly upsertWorkflowSearchAttributesEventAttributes?: Command['upsertWorkflowSearchAttributes'];
  readonly workflowExecutionStartedEventAttributes?: {
    readonly input: { readonly payloads: readonly Payload[] };
    readonly attempt: number;
    readonly continuedFailure: Failure | undefined;
  };
  readonly workflowExecutionFailedEventAttributes?: { readonly failure: Failure };
  readonly workflowExecutionSignaledEventAttributes?: {
    readonly signalName: string;
    readonly input: { readonly payloads: readonly Payload[] };
  };
  readonly workflowTaskStartedEventAttributes?: object;
  readonly activityTaskScheduledEventAttributes?: Omit<ActivityOrder, 'activityType'> & {
    readonly activityType: { readonly name: string };
  };
}

/** An activation, and what the workflow has ordered in it. */
interface Done {
  readonly activation: Activation;
  readonly commands: readonly Command[];
}

type ActivityOrder = NonNullable<Command['scheduleActivity']>;

/** With what a run begins. */
export interface RunStart {
  readonly type: string;
  readonly workflowId: string;
  readonly runId: string;
  readonly firstRunId: string;
  readonly previousRunId?: string;
  readonly taskQueue: string;
  readonly args: readonly Payload[];
  readonly attempt: number;
  readonly startedMs: number;
  readonly searchAttributes: Readonly<Record<string, Payload>>;
  /** Of the run before, when that has failed. */
  readonly failure?: Failure;
}

export type Failure = NonNullable<NonNullable<Command['failWorkflowExecution']>['failure']>;

/** How a run has ended. */
export type RunEnd =
  | { readonly kind: 'completed'; readonly result: Payload | undefined }
  | { readonly kind: 'failed'; readonly failure: Failure }
  | { readonly kind: 'cancelled' }
  | { readonly kind: 'terminated' }
  | { readonly kind: 'continuedAsNew'; readonly type: string; readonly args: readonly Payload[] };

export interface RunDeps {
  readonly clock: VirtualClock;
  readonly creator: WorkflowCreator;
  activityOf(taskQueue: string, type: string): PlayedActivity | undefined;
  randomSeed(): number[];
  /** The run has something to do. */
  onReady(): void;
  onEnd(end: RunEnd, left: readonly Job[]): void;
  /** Sends a signal to another workflow. False when it has no open run. */
  onSignal(workflowId: string, job: Job): boolean;
  /** What workflow code should never do, and what this Temporal cannot do. */
  onBug(error: Error): void;
}

/** Names of the last events. */
const endings = {
  completed: 'COMPLETED',
  failed: 'FAILED',
  cancelled: 'CANCELED',
  terminated: 'TERMINATED',
  continuedAsNew: 'CONTINUED_AS_NEW',
} as const satisfies Record<RunEnd['kind'], string>;

/**
 * How long a task with local activities lasts before the worker asks for more time, ms: 80 % of the default timeout.
 */
const taskMs = 8_000;

/** The limits of Temporal, bytes. */
const maxPayloadBytes = 2 * 1024 * 1024;
const maxMessageBytes = 4 * 1024 * 1024;
const maxHistoryBytes = 50 * 1024 * 1024;

export class VirtualRun {
  readonly start: RunStart;
  readonly events: HistoryEvent[] = [];
  readonly searchAttributes: Record<string, Payload>;
  readonly activities = new Map<number, VirtualActivity>();
  end: RunEnd | undefined;
  /** Of all payloads that the workflow and its activities have sent. */
  #historyBytes = 0;
  readonly #deps: RunDeps;
  readonly #seed: number[];
  readonly #timers = new Map<number, { cancel(): void }>();
  readonly #localActivities = new Map<number, VirtualActivity>();
  readonly #updates = new Map<string, (answer: UpdateAnswer) => void>();
  /** Of the tasks that have ended, to do it all again. */
  readonly #past: Done[] = [];
  #workflow: Workflow | undefined;
  /** Of the present task: what it has done, its commands, and what is to be activated next. */
  #present: Done[] = [];
  #commands: Command[] = [];
  #jobs: Job[] = [];
  /** What has happened since the present task began. */
  #later: { readonly job: Job; readonly event: HistoryEvent }[] = [];
  /** Local activities of the present task that have ended: each is a marker in the history. */
  #localResults = 0;
  readonly #patches = new Set<string>();
  #isTaskOpen = false;
  #taskLength = 0;
  #taskAlarm: { cancel(): void } | undefined;
  /** Queries and updates. */
  #questions = 0;

  constructor(start: RunStart, deps: RunDeps) {
    this.start = start;
    this.#deps = deps;
    this.#seed = deps.randomSeed();
    this.searchAttributes = { ...start.searchAttributes };
    this.events.push({
      eventType: 'EVENT_TYPE_WORKFLOW_EXECUTION_STARTED',
      workflowExecutionStartedEventAttributes: {
        input: { payloads: start.args },
        attempt: start.attempt,
        continuedFailure: start.failure,
      },
    });
    this.#jobs.push(this.#firstJob());
    this.#note('WORKFLOW_TASK_SCHEDULED');
  }

  get isReady(): boolean {
    return this.end === undefined && this.#jobs.length > 0;
  }

  /** Whether a task is scheduled or under way. */
  get hasTask(): boolean {
    return this.isReady || this.#isTaskOpen;
  }

  /** Something has happened: the workflow hears of it in its next task. */
  deliver(job: Job, event: HistoryEvent): void {
    if (this.end !== undefined) return;
    if (this.#isTaskOpen) {
      this.#later.push({ job, event });
    } else {
      this.#add(job, event);
      this.#deps.onReady();
    }
  }

  /** Has the history look longer, as after many events. */
  lengthen(events: number): void {
    for (let count = 0; count < events; count++) this.#note('WORKFLOW_PROPERTIES_MODIFIED_EXTERNALLY');
  }

  /** Runs the code until it waits. */
  async advance(): Promise<void> {
    const workflow = (this.#workflow ??= await this.#create());
    if (!this.#isTaskOpen) this.#openTask();
    const activation = this.#activationOf(this.#jobs.splice(0));
    const commands = await this.#activate(workflow, activation);
    if (commands === undefined) return;
    this.#present.push({ activation, commands });
    this.#commands.push(...commands);
    for (const { scheduleLocalActivity, requestCancelLocalActivity } of commands) {
      if (scheduleLocalActivity) this.#startLocalActivity(scheduleLocalActivity);
      if (requestCancelLocalActivity) this.#localActivities.get(requestCancelLocalActivity.seq ?? 0)?.cancel();
    }
    this.#answerUpdates(commands);
    if (this.#localActivities.size === 0 && this.#jobs.length === 0) await this.#closeTask();
  }

  /** Throws what the workflow answers with. */
  async query(name: string, args: readonly unknown[]): Promise<unknown> {
    const workflow = (this.#workflow ??= await this.#create());
    const queryId = `query-${++this.#questions}`;
    const payloads = args.map((arg) => defaultPayloadConverter.toPayload(arg));
    const job = { queryWorkflow: { queryId, queryType: name, arguments: payloads } };
    const query = { runId: this.start.runId, jobs: [Object.assign(job, { variant: 'queryWorkflow' as const })] };
    const { successful, failed } = await workflow.activate(query);
    if (failed?.failure) throw errorOf(failed.failure);
    const answer = successful?.commands?.[0]?.respondToQuery;
    if (answer?.failed) throw errorOf(answer.failed);
    this.#checkSize(answer);
    return defaultPayloadConverter.fromPayload(answer?.succeeded?.response ?? {});
  }

  /** Resolves when the workflow has completed or rejected the update. */
  async update(name: string, args: readonly unknown[]): Promise<UpdateAnswer> {
    const id = `update-${++this.#questions}`;
    const input = args.map((arg) => defaultPayloadConverter.toPayload(arg));
    const answered = new Promise<UpdateAnswer>((resolve) => {
      this.#updates.set(id, resolve);
    });
    this.deliver(
      { doUpdate: { id, protocolInstanceId: id, name, input, runValidator: true, meta: { updateId: id } } },
      { eventType: 'EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED' },
    );
    return answered;
  }

  /** Ends it from outside. */
  terminate(): void {
    if (this.end === undefined) this.#finish({ kind: 'terminated' });
  }

  /** Frees the sandbox. The run answers no more queries. */
  async dispose(): Promise<void> {
    this.terminate();
    await this.#workflow?.dispose();
    this.#workflow = undefined;
  }

  /** Forgets what the worker knows: the code does everything again. Throws when it does something else. */
  async replay(): Promise<void> {
    await this.#workflow?.dispose();
    const workflow = await this.#create();
    this.#workflow = workflow;
    const known = [...this.#patches].map((patchId): Job => ({ notifyHasPatch: { patchId } }));
    for (const [i, { activation, commands }] of this.#past.entries()) {
      const jobs = [...(i === 0 ? known : []), ...(activation.jobs ?? [])];
      await this.#repeat(workflow, { activation: { ...activation, jobs, isReplaying: true }, commands });
    }
    for (const done of this.#present) await this.#repeat(workflow, done);
  }

  async #repeat(workflow: Workflow, { activation, commands }: Done): Promise<void> {
    const again = await this.#activate(workflow, activation);
    if (again === undefined || textOf(again) === textOf(commands)) return;
    const difference = `first: ${textOf(commands)}\nagain: ${textOf(again)}`;
    this.#deps.onBug(new Error(`a replay of ${this.start.workflowId} has done something else\n${difference}`));
  }

  #firstJob(): Job {
    const { start } = this;
    return {
      initializeWorkflow: {
        workflowType: start.type,
        workflowId: start.workflowId,
        arguments: [...start.args],
        firstExecutionRunId: start.firstRunId,
        attempt: start.attempt,
        startTime: msToTs(start.startedMs),
        searchAttributes: { indexedFields: { ...start.searchAttributes } },
        ...(start.failure && { continuedFailure: start.failure }),
      },
    };
  }

  async #create(): Promise<Workflow> {
    const { workflowId, runId, type, taskQueue, firstRunId, previousRunId, attempt, startedMs } = this.start;
    return this.#deps.creator.createWorkflow({
      info: {
        ...{ workflowId, runId, workflowType: type, taskQueue, namespace: 'default', attempt },
        ...{ searchAttributes: {}, typedSearchAttributes: new TypedSearchAttributes() },
        ...{ firstExecutionRunId: firstRunId, originalExecutionRunId: runId },
        ...(previousRunId !== undefined && { continuedFromExecutionRunId: previousRunId }),
        ...{ startTime: new Date(startedMs), runStartTime: new Date(startedMs), taskTimeoutMs: 10_000 },
        ...{ historyLength: 0, historySize: 0, continueAsNewSuggested: false },
        ...{ targetWorkerDeploymentVersionChanged: false, currentBuildId: '' },
        unsafe: {
          now: () => Date.now(),
          isReplaying: false,
          isReplayingHistoryEvents: false,
          random: createUnsafeRandomSource(Math.random),
        },
      },
      randomnessSeed: this.#seed,
      now: startedMs,
      showStackTraceSources: false,
    });
  }

  #note(type: string, attributes: Omit<HistoryEvent, 'eventType'> = {}): void {
    this.events.push({ eventType: `EVENT_TYPE_${type}`, ...attributes });
  }

  #add(job: Job, event: HistoryEvent): void {
    this.events.push(event);
    if (this.#jobs.length === 0) this.#note('WORKFLOW_TASK_SCHEDULED');
    this.#jobs.push(job);
  }

  #openTask(): void {
    this.#note('WORKFLOW_TASK_STARTED', { workflowTaskStartedEventAttributes: {} });
    this.#isTaskOpen = true;
    this.#taskLength = this.events.length;
    this.#taskAlarm = this.#deps.clock.setAlarm(taskMs, () => this.#prolongTask());
  }

  #activationOf(jobs: Job[]): Activation {
    const isHeardFirst = ({ initializeWorkflow, signalWorkflow, doUpdate }: Job) =>
      Boolean(initializeWorkflow ?? signalWorkflow ?? doUpdate);
    const first = jobs.filter(({ initializeWorkflow }) => initializeWorkflow);
    const heard = jobs.filter((job) => isHeardFirst(job) && !job.initializeWorkflow);
    return {
      runId: this.start.runId,
      timestamp: msToTs(this.#deps.clock.nowMs),
      isReplaying: false,
      historyLength: this.#taskLength,
      jobs: [...first, ...heard, ...jobs.filter((job) => !isHeardFirst(job))],
    };
  }

  async #activate(workflow: Workflow, activation: Activation): Promise<Command[] | undefined> {
    const { successful, failed } = await workflow.activate(activation);
    await workflow.getAndResetSinkCalls();
    if (failed) {
      this.#deps.onBug(errorOf(failed.failure ?? {}));
      return undefined;
    }
    return successful?.commands ?? [];
  }

  #startLocalActivity(command: NonNullable<Command['scheduleLocalActivity']>): void {
    const seq = command.seq ?? 0;
    const activity = new VirtualActivity(command, {
      ...this.#activityDeps(this.start.taskQueue, command.activityType ?? ''),
      isLocal: true,
      onResult: (result) => {
        this.#localActivities.delete(seq);
        if (this.end !== undefined) return;
        this.#localResults += 1;
        this.#checkSize(result);
        this.#jobs.push({ resolveActivity: { seq, result, isLocal: true } });
        this.#deps.onReady();
      },
    });
    this.#localActivities.set(seq, activity);
  }

  #activityDeps(taskQueue: string, type: string) {
    const { clock } = this.#deps;
    const { workflowId, runId } = this.start;
    return { clock, played: this.#deps.activityOf(taskQueue, type), workflow: { workflowId, runId } };
  }

  /** The worker asks for more time: what has happened meanwhile reaches the workflow. */
  #prolongTask(): void {
    if (!this.#isTaskOpen || this.end !== undefined) return;
    this.#note('WORKFLOW_TASK_COMPLETED');
    this.#apply(this.#commands.splice(0));
    this.#takeLater();
    this.#note('WORKFLOW_TASK_SCHEDULED');
    this.#openTask();
    if (this.#jobs.length > 0) this.#deps.onReady();
  }

  #takeLater(): void {
    for (const { job, event } of this.#later.splice(0)) {
      this.events.push(event);
      this.#jobs.push(job);
    }
  }

  async #closeTask(): Promise<void> {
    const isEnd = this.#commands.some((command) => endOf(command) !== undefined);
    if (isEnd && this.#later.length > 0) {
      await this.#repeatTask();
      return;
    }
    this.#taskAlarm?.cancel();
    this.#isTaskOpen = false;
    this.#past.push(...this.#present.splice(0));
    this.#note('WORKFLOW_TASK_COMPLETED');
    this.#apply(this.#commands.splice(0));
    if (this.end !== undefined) return;
    for (const { job, event } of this.#later.splice(0)) this.#add(job, event);
    if (this.#jobs.length > 0) this.#deps.onReady();
  }

  /** The server accepts no end while the workflow has not heard of everything: the worker does the task again. */
  async #repeatTask(): Promise<void> {
    this.#taskAlarm?.cancel();
    this.#commands.length = 0;
    this.#localResults = 0;
    const jobs = this.#present.splice(0).flatMap(({ activation }) => activation.jobs ?? []);
    this.#isTaskOpen = false;
    this.#note('WORKFLOW_TASK_FAILED');
    await this.replay();
    this.#jobs.push(...jobs.filter(({ resolveActivity }) => resolveActivity?.isLocal !== true));
    this.#takeLater();
    this.#note('WORKFLOW_TASK_SCHEDULED');
    this.#deps.onReady();
  }

  /** Temporal refuses larger payloads, larger messages, and longer histories. */
  #checkSize(sent: unknown): void {
    const sizes = payloadSizes(sent);
    const largest = Math.max(0, ...sizes);
    const all = sizes.reduce((sum, size) => sum + size, 0);
    this.#historyBytes += all;
    if (largest <= maxPayloadBytes && all <= maxMessageBytes && this.#historyBytes <= maxHistoryBytes) return;
    const what = `a payload of ${largest} bytes in a message of ${all} and a history of ${this.#historyBytes}`;
    this.#deps.onBug(new Error(`${this.start.workflowId}: Temporal refuses ${what}`));
  }

  #apply(commands: readonly Command[]): void {
    for (; this.#localResults > 0; this.#localResults--) this.#note('MARKER_RECORDED');
    this.#checkSize(commands.filter(({ scheduleLocalActivity }) => !scheduleLocalActivity));
    for (const command of commands) {
      this.#applyOne(command);
      const end = endOf(command);
      if (end !== undefined) this.#finish(end);
    }
  }

  #applyOne(command: Command): void {
    const { startTimer, cancelTimer, scheduleActivity, requestCancelActivity } = command;
    if (startTimer) this.#startTimer(startTimer);
    if (cancelTimer) {
      this.#note('TIMER_CANCELED');
      this.#timers.get(cancelTimer.seq ?? 0)?.cancel();
      this.#timers.delete(cancelTimer.seq ?? 0);
    }
    if (scheduleActivity) this.#startActivity(scheduleActivity);
    if (requestCancelActivity) {
      this.#note('ACTIVITY_TASK_CANCEL_REQUESTED');
      this.activities.get(requestCancelActivity.seq ?? 0)?.cancel();
    }
    if (command.signalExternalWorkflowExecution) this.#signal(command.signalExternalWorkflowExecution);
    if (command.setPatchMarker) {
      this.#note('MARKER_RECORDED');
      this.#patches.add(command.setPatchMarker.patchId ?? '');
    }
    if (command.startChildWorkflowExecution) this.#deps.onBug(new Error('child workflows are not supported here'));
    if (command.upsertWorkflowSearchAttributes) {
      const attributes = command.upsertWorkflowSearchAttributes;
      Object.assign(this.searchAttributes, attributes.searchAttributes?.indexedFields);
      this.#note('UPSERT_WORKFLOW_SEARCH_ATTRIBUTES', { upsertWorkflowSearchAttributesEventAttributes: attributes });
    }
  }

  #startTimer(command: NonNullable<Command['startTimer']>): void {
    this.#note('TIMER_STARTED', { timerStartedEventAttributes: command });
    const seq = command.seq ?? 0;
    const ring = () => {
      this.#timers.delete(seq);
      this.deliver({ fireTimer: { seq } }, { eventType: 'EVENT_TYPE_TIMER_FIRED' });
    };
    this.#timers.set(seq, this.#deps.clock.setAlarm(optionalTsToMs(command.startToFireTimeout) ?? 0, ring));
  }

  #startActivity(command: ActivityOrder): void {
    this.#note('ACTIVITY_TASK_SCHEDULED', {
      activityTaskScheduledEventAttributes: { ...command, activityType: { name: command.activityType ?? '' } },
    });
    const seq = command.seq ?? 0;
    const activity = new VirtualActivity(command, {
      ...this.#activityDeps(command.taskQueue ?? this.start.taskQueue, command.activityType ?? ''),
      isLocal: false,
      onResult: (result) => {
        this.activities.delete(seq);
        if (this.end !== undefined) return;
        if (!this.#isTaskOpen) this.#note('ACTIVITY_TASK_STARTED');
        this.#checkSize(result);
        this.deliver({ resolveActivity: { seq, result } }, { eventType: 'EVENT_TYPE_ACTIVITY_TASK_COMPLETED' });
      },
    });
    if (this.end === undefined) this.activities.set(seq, activity);
  }

  #signal(command: NonNullable<Command['signalExternalWorkflowExecution']>): void {
    this.#note('SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED');
    const { seq, workflowExecution, signalName, args } = command;
    const job: Job = { signalWorkflow: { signalName: signalName ?? '', input: args ?? [], headers: {} } };
    const isSent = this.#deps.onSignal(workflowExecution?.workflowId ?? '', job);
    const missing = ApplicationFailure.nonRetryable('Unable to signal external workflow because it was not found');
    const failure = defaultFailureConverter.errorToFailure(missing, defaultPayloadConverter);
    this.deliver(
      { resolveSignalExternalWorkflow: { seq: seq ?? 0, ...(!isSent && { failure }) } },
      {
        eventType: `EVENT_TYPE_${isSent ? 'EXTERNAL_WORKFLOW_EXECUTION_SIGNALED' : 'SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED'}`,
      },
    );
  }

  #answerUpdates(commands: readonly Command[]): void {
    for (const { updateResponse } of commands) {
      const { protocolInstanceId = '', completed, rejected } = updateResponse ?? {};
      if (!completed && !rejected) continue;
      const answer = rejected
        ? { error: errorOf(rejected) }
        : { value: defaultPayloadConverter.fromPayload(completed ?? {}) };
      this.#updates.get(protocolInstanceId ?? '')?.(answer);
      this.#updates.delete(protocolInstanceId ?? '');
    }
  }

  #finish(end: RunEnd): void {
    this.end = end;
    this.#taskAlarm?.cancel();
    for (const timer of this.#timers.values()) timer.cancel();
    for (const activity of [...this.activities.values(), ...this.#localActivities.values()]) activity.abandon();
    this.activities.clear();
    const failed = end.kind === 'failed' && { workflowExecutionFailedEventAttributes: { failure: end.failure } };
    this.#note(`WORKFLOW_EXECUTION_${endings[end.kind]}`, { ...failed });
    const left = [...this.#jobs.splice(0), ...this.#later.splice(0).map(({ job }) => job)];
    this.#deps.onEnd(end, left);
  }
}

export type UpdateAnswer = { readonly value: unknown } | { readonly error: Error };

function endOf(command: Command): RunEnd | undefined {
  if (command.completeWorkflowExecution)
    return { kind: 'completed', result: command.completeWorkflowExecution.result ?? undefined };
  if (command.failWorkflowExecution) return { kind: 'failed', failure: command.failWorkflowExecution.failure ?? {} };
  if (command.cancelWorkflowExecution) return { kind: 'cancelled' };
  const next = command.continueAsNewWorkflowExecution;
  return next ? { kind: 'continuedAsNew', type: next.workflowType ?? '', args: next.arguments ?? [] } : undefined;
}

/** Long numbers of protobuf are objects, or bigint. */
function textOf(commands: readonly Command[]): string {
  return JSON.stringify(commands, (_, value: unknown) => (typeof value === 'bigint' ? `${value}` : value));
}

/** Bytes of each payload, wherever it is. */
function payloadSizes(sent: unknown): number[] {
  if (typeof sent !== 'object' || sent === null || ArrayBuffer.isView(sent)) return [];
  if ('data' in sent && ArrayBuffer.isView(sent.data)) return [sent.data.byteLength];
  return Object.values(sent).flatMap(payloadSizes);
}

export function errorOf(failure: Failure): Error {
  return defaultFailureConverter.failureToError(failure, defaultPayloadConverter);
}
