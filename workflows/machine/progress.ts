/** What people see of a running workflow: the query `describe`, the details in the Temporal UI, search attributes. */
import { defineSearchAttributeKey, SearchAttributeType, type SearchAttributeUpdatePair } from '@temporalio/common';
import { patched, setCurrentDetails, upsertSearchAttributes, workflowInfo } from '@temporalio/workflow';
import { blockers, searchAttributes } from '../../api/names.ts';
import { type Failure, isSameError } from '../calls/failure.ts';
import { failedRunText } from '../failed-run.ts';
import type { MachineDescription } from './messages.ts';
import { type MachineState, now, type Progress } from './state.ts';

const keyword = (name: string) => defineSearchAttributeKey(name, SearchAttributeType.KEYWORD);
const phaseKey = keyword(searchAttributes.phase);
const blockedOnKey = keyword(searchAttributes.blockedOn);
const providerKey = keyword(searchAttributes.provider);
const deploymentKey = keyword(searchAttributes.deployment);

type LastError = NonNullable<MachineDescription['lastError']>;

/** What the workflow does now. What it leaves out is no longer true, except the last error. */
export type Activity = Omit<Progress, 'since' | 'lastError'> & {
  readonly error?: ShownError;
  /** Since when; left out: since it is shown. */
  readonly since?: string;
};

type ShownError = Pick<Failure, 'code' | 'message' | 'requestId'>;

/** Shows what is being done, in `describe` and in the details of the Temporal UI. Adds no event to the history. */
export function show(state: MachineState, { error, since, ...activity }: Activity): void {
  const { doing, since: shownSince, lastError: before } = state.progress;
  const lastError = error === undefined ? before : countError(error, before);
  state.progress = {
    ...activity,
    ...(lastError !== undefined && { lastError }),
    since: since ?? (doing === activity.doing ? shownSince : now()),
  };
  showDetails(state);
}

/** Shows again what was shown before. */
export function restoreProgress(state: MachineState, progress: Progress): void {
  state.progress = progress;
  showDetails(state);
}

/** The same for another attempt. What blocked the last one still does, as far as anybody knows, and since then. */
export function showRetry(state: MachineState, activity: Activity): void {
  const { blockedOn, unblock, lastError, since } = state.progress;
  const isRetry = blockedOn !== undefined && (lastError !== undefined || blockedOn === 'NodeJoin');
  show(state, { ...activity, ...(isRetry && { blockedOn, since, ...(unblock !== undefined && { unblock }) }) });
}

/**
 * Shows what is waited for. A wait that goes on after a try in the same stage has begun before the try. Adds an event
 * when the search attributes change.
 */
export function showWait(state: MachineState, activity: Activity): void {
  const { wait, machine } = state;
  const { stageSince } = machine;
  const { doing } = activity;
  const goesOn = wait?.doing === doing && wait.stageSince === stageSince;
  show(state, goesOn ? { ...activity, since: wait.since } : activity);
  state.wait = { doing, stageSince, since: state.progress.since };
  showSearchAttributes(state);
}

/** The last error is past: what failed has succeeded, or is not wanted any more. */
export function forgetError(state: MachineState): void {
  const { lastError: _, ...rest } = state.progress;
  state.progress = rest;
}

function countError({ code, message, requestId }: ShownError, before: LastError | undefined): LastError {
  const at = now();
  const isSame = before !== undefined && isSameError({ code, message }, before);
  const count = { since: isSame ? before.since : at, times: isSame ? before.times + 1 : 1 };
  return { code, message, ...(requestId !== undefined && { requestId }), at, ...count };
}

/** Answer of the query `describe`. */
export function describe({ machine, progress, failedRun }: MachineState): MachineDescription {
  const { stage, phase, providerID, nodeName, preservedUntil } = machine;
  const { lastError, ...rest } = progress;
  return {
    phase,
    ...rest,
    ...(lastError !== undefined && stage !== 'running' && { lastError }),
    ...(providerID !== undefined && { providerID }),
    ...(nodeName !== undefined && { nodeName }),
    ...(preservedUntil !== undefined && { preservedUntil }),
    ...(failedRun !== undefined && { failedRun }),
  };
}

function showDetails(state: MachineState): void {
  setCurrentDetails(toMarkdown(describe(state)));
}

/** Temporal refuses summaries of more than 400 bytes. */
const maxSummaryLength = 120;

/** Why the workflow waits, in one line for a timer in the Temporal UI. */
export function waitSummary({ doing, waitingFor = doing, blockedOn, lastError }: Progress): string {
  if (blockedOn !== undefined && lastError !== undefined) return `next try after ${lastError.code}`;
  return waitingFor.length > maxSummaryLength ? `${waitingFor.slice(0, maxSummaryLength - 1)}…` : waitingFor;
}

/** Updates the search attributes: one event when the phase or the blocker has changed, else none. */
export function showSearchAttributes(state: MachineState): void {
  showDetails(state);
  const { phase } = state.machine;
  const { blockedOn } = state.progress;
  const shown = workflowInfo().typedSearchAttributes;
  if (shown.get(phaseKey) === phase && shown.get(blockedOnKey) === blockedOn) return;
  const provider = state.reading?.cloud?.provider; // a run at rest reads no source
  const pairs: SearchAttributeUpdatePair[] = [
    { key: phaseKey, value: phase },
    { key: blockedOnKey, value: blockedOn ?? null },
    ...(provider === undefined ? [] : [{ key: providerKey, value: provider }]),
  ];
  upsertSearchAttributes(pairs);
}

/** Notes the deployment that a watcher has seen. Adds an event unless the workflow was started with it. */
export function showDeployment(state: MachineState, deployment: string): void {
  if (state.deployment === deployment) return;
  state.deployment = deployment;
  const isShown = workflowInfo().typedSearchAttributes.get(deploymentKey) === deployment;
  if (!isShown && patched('deployment-in-observation')) {
    upsertSearchAttributes([{ key: deploymentKey, value: deployment }]);
  }
}

/** A machine that its set has released belongs to no deployment. */
export function forgetDeployment(state: MachineState): void {
  if (state.deployment === undefined || !patched('released-machines-have-no-deployment')) return;
  delete state.deployment;
  upsertSearchAttributes([{ key: deploymentKey, value: null }]);
}

function errorText({ code, message, requestId, at, since, times }: LastError): string {
  const request = requestId === undefined ? '' : ` (request ID ${requestId})`;
  return `${code} at ${at}${times > 1 ? ` (${times} times since ${since})` : ''}: ${message}${request}`;
}

/** Of a time, which are noise for people. */
const milliseconds = /(?<=T\d\d:\d\d:\d\d)\.\d{3}Z/g;

function toMarkdown(shown: MachineDescription): string {
  const { blockedOn, lastError, failedRun } = shown;
  const rows: [string, string | undefined][] = [
    ['Blocked on', blockedOn && `${blockedOn}: ${blockers[blockedOn]}`],
    ['Last error', lastError && errorText(lastError)],
    ['Waiting for', shown.waitingFor && `${shown.waitingFor}${shown.until ? `, until ${shown.until}` : ''}`],
    ['To unblock', shown.unblock],
    ['Doing', `${shown.doing}, since ${shown.since}`],
    ['Phase', shown.phase || '(new)'],
    ['Provider ID', shown.providerID],
    ['Node', shown.nodeName],
    ['Preserved until', shown.preservedUntil],
    ['Last failed run', failedRun && failedRunText(failedRun)],
  ];
  return rows
    .filter(([, value]) => value)
    .map(([name, value]) => `- **${name}**: ${value}`)
    .join('\n')
    .replaceAll(milliseconds, 'Z');
}
