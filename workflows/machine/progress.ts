/** What people see of a running workflow: the query `describe`, the details in the Temporal UI, search attributes. */
import { defineSearchAttributeKey, SearchAttributeType, type SearchAttributeUpdatePair } from '@temporalio/common';
import { setCurrentDetails, upsertSearchAttributes } from '@temporalio/workflow';
import { blockers, searchAttributes } from '../../api/names.ts';
import { type Failure, isSameError } from '../calls/failure.ts';
import { failedRunText } from '../failed-run.ts';
import type { Life } from './life.ts';
import type { MachineDescription } from './messages.ts';

const keyword = (name: string) => defineSearchAttributeKey(name, SearchAttributeType.KEYWORD);
const phaseKey = keyword(searchAttributes.phase);
const blockedOnKey = keyword(searchAttributes.blockedOn);
const providerKey = keyword(searchAttributes.provider);

type LastError = NonNullable<MachineDescription['lastError']>;

/** What `describe` says beside what the Machine does. */
export type Progress = Pick<
  MachineDescription,
  'doing' | 'since' | 'waitingFor' | 'until' | 'blockedOn' | 'lastError' | 'unblock'
>;

/** What a phase is doing now. What it leaves out is no longer true, except the last error. */
type Step = Omit<Progress, 'since' | 'lastError'> & { readonly error?: Pick<Failure, 'code' | 'message'> };

/** Shows what is being done, in `describe` and in the details of the Temporal UI. Writes no event. */
export function showProgress(life: Life, { error, ...step }: Step): void {
  const { doing, since, lastError: before } = life.progress;
  const lastError = error === undefined ? before : countError(error, before);
  life.progress = {
    ...step,
    ...(lastError !== undefined && { lastError }),
    since: doing === step.doing ? since : new Date().toISOString(),
  };
  setCurrentDetails(toMarkdown(describe(life)));
}

/** Shows again what was shown before. */
export function restoreProgress(life: Life, progress: Progress): void {
  life.progress = progress;
  setCurrentDetails(toMarkdown(describe(life)));
}

/** The same for another try: what blocked it the last time still does, for all that anybody knows. */
export function showRetry(life: Life, step: Step): void {
  const { blockedOn, unblock, lastError } = life.progress;
  const isRetry = lastError !== undefined && blockedOn !== undefined;
  showProgress(life, { ...step, ...(isRetry && { blockedOn, ...(unblock !== undefined && { unblock }) }) });
}

/** The last error is of the past: what failed has succeeded, or is not wanted any more. */
export function forgetError(life: Life): void {
  const { lastError: _, ...rest } = life.progress;
  life.progress = rest;
}

function countError({ code, message }: Pick<Failure, 'code' | 'message'>, before: LastError | undefined): LastError {
  const at = new Date().toISOString();
  const isSame = before !== undefined && isSameError({ code, message }, before);
  return { code, message, at, since: isSame ? before.since : at, times: isSame ? before.times + 1 : 1 };
}

/** Answer of the query `describe`. */
export function describe({ machine, progress, failedRun }: Life): MachineDescription {
  const { phase, providerID, nodeName } = machine;
  const { lastError, ...rest } = progress;
  return {
    phase,
    ...rest,
    ...(lastError !== undefined && phase !== 'Running' && { lastError }),
    ...(providerID !== undefined && { providerID }),
    ...(nodeName !== undefined && { nodeName }),
    ...(failedRun !== undefined && { failedRun }),
  };
}

/**
 * Brings the details and the search attributes up to date after the phase may have changed. One event when the phase,
 * the blocker or the provider did, else none.
 */
export function showPhase(life: Life): void {
  setCurrentDetails(toMarkdown(describe(life)));
  const { phase } = life.machine;
  const { blockedOn } = life.progress;
  const [, , shownProvider = ''] = life.shown.split(',');
  const provider = life.reading?.cloud?.provider ?? shownProvider; // a run at rest reads no class
  const shown = [phase, blockedOn, provider].join();
  if (shown === life.shown) return;
  life.shown = shown;
  const pairs: SearchAttributeUpdatePair[] = [
    { key: phaseKey, value: phase },
    { key: blockedOnKey, value: blockedOn ?? null },
    ...(provider === '' ? [] : [{ key: providerKey, value: provider }]),
  ];
  upsertSearchAttributes(pairs);
}

function errorText({ code, message, at, since, times }: LastError): string {
  return `${code} at ${at}${times > 1 ? ` (${times} times since ${since})` : ''}: ${message}`;
}

function toMarkdown(shown: MachineDescription): string {
  const { blockedOn, lastError, failedRun } = shown;
  const rows: [string, string | undefined][] = [
    ['Phase', shown.phase || '(new)'],
    ['Doing', `${shown.doing}, since ${shown.since}`],
    ['Waiting for', shown.waitingFor && `${shown.waitingFor}${shown.until ? `, until ${shown.until}` : ''}`],
    ['Blocked on', blockedOn && `${blockedOn}: ${blockers[blockedOn]}`],
    ['Last error', lastError && errorText(lastError)],
    ['To unblock', shown.unblock],
    ['Provider ID', shown.providerID],
    ['Node', shown.nodeName],
    ['Last failed run', failedRun && failedRunText(failedRun)],
  ];
  return rows
    .filter(([, value]) => value)
    .map(([name, value]) => `- **${name}**: ${value}`)
    .join('\n');
}
