/** What people see of a running workflow: the query `describe`, the details in the Temporal UI, search attributes. */
import { defineSearchAttributeKey, SearchAttributeType, type SearchAttributeUpdatePair } from '@temporalio/common';
import { setCurrentDetails, upsertSearchAttributes } from '@temporalio/workflow';
import { blockers, searchAttributes } from '../../api/names.ts';
import type { Life } from './life.ts';
import type { MachineDescription } from './messages.ts';

const keyword = (name: string) => defineSearchAttributeKey(name, SearchAttributeType.KEYWORD);
const phaseKey = keyword(searchAttributes.phase);
const blockedOnKey = keyword(searchAttributes.blockedOn);
const providerKey = keyword(searchAttributes.provider);

/** What a phase is doing now. What it leaves out is no longer true, except the last error. */
export type Progress = Pick<
  MachineDescription,
  'doing' | 'waitingFor' | 'until' | 'blockedOn' | 'lastError' | 'unblock'
>;

/** Shows what is being done, in `describe` and in the details of the Temporal UI. Writes no event. */
export function showProgress(life: Life, progress: Progress): void {
  const { doing, since, lastError } = life.progress;
  life.progress = {
    ...progress,
    ...(lastError !== undefined && progress.lastError === undefined && { lastError }),
    since: doing === progress.doing ? since : new Date().toISOString(),
  };
  setCurrentDetails(toMarkdown(describe(life)));
}

/** The same for another try: what blocked it the last time still does, for all that anybody knows. */
export function showRetry(life: Life, doing: string): void {
  const { blockedOn, unblock } = life.progress;
  const isRetry = life.machine.phase === 'CrashLoopBackOff' && blockedOn !== undefined;
  showProgress(life, { doing, ...(isRetry && { blockedOn, ...(unblock !== undefined && { unblock }) }) });
}

/** Answer of the query `describe`. */
export function describe({ machine, progress }: Life): MachineDescription {
  const { phase, providerID, nodeName } = machine;
  const { lastError, ...rest } = progress;
  return {
    phase,
    ...rest,
    ...(lastError !== undefined && phase !== 'Running' && { lastError }),
    ...(providerID !== undefined && { providerID }),
    ...(nodeName !== undefined && { nodeName }),
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
  const provider = life.reading?.cloud?.provider;
  const shown = [phase, blockedOn, provider].join();
  if (shown === life.shown) return;
  life.shown = shown;
  const pairs: SearchAttributeUpdatePair[] = [
    { key: phaseKey, value: phase },
    { key: blockedOnKey, value: blockedOn ?? null },
    ...(provider === undefined ? [] : [{ key: providerKey, value: provider }]),
  ];
  upsertSearchAttributes(pairs);
}

function toMarkdown(shown: MachineDescription): string {
  const { blockedOn, lastError } = shown;
  const rows: [string, string | undefined][] = [
    ['Phase', shown.phase || '(new)'],
    ['Doing', `${shown.doing}, since ${shown.since}`],
    ['Waiting for', shown.waitingFor && `${shown.waitingFor}${shown.until ? `, until ${shown.until}` : ''}`],
    ['Blocked on', blockedOn && `${blockedOn}: ${blockers[blockedOn]}`],
    ['Last error', lastError && `${lastError.code} at ${lastError.at}: ${lastError.message}`],
    ['To unblock', shown.unblock],
    ['Provider ID', shown.providerID],
    ['Node', shown.nodeName],
  ];
  return rows
    .filter(([, value]) => value)
    .map(([name, value]) => `- **${name}**: ${value}`)
    .join('\n');
}
