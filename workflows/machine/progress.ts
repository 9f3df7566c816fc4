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
  const { phase, providerID, nodeName } = life.machine;
  const { description: shown } = life;
  const lastError = progress.lastError ?? (phase === 'Running' ? undefined : shown.lastError);
  life.description = {
    phase,
    since: shown.doing === progress.doing ? shown.since : new Date().toISOString(),
    ...(providerID !== undefined && { providerID }),
    ...(nodeName !== undefined && { nodeName }),
    ...progress,
    ...(lastError !== undefined && { lastError }),
  };
  setCurrentDetails(toMarkdown(life.description));
}

/** Brings the search attributes up to date: one event when the phase, the blocker or the provider changed, else none. */
export function showAttributes(life: Life): void {
  const { phase } = life.machine;
  const { blockedOn } = life.description;
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
