import type { Timeline, TimelineStep } from '../../../temporal/timeline.ts';
import { columns } from '../../columns.ts';
import { secondsOf, tookText } from '../../duration-text.ts';

/** A timeline as a table. @param nowMs ms since the epoch: the end of the step that is not over */
export function timelineText(
  { steps, isGone, isLost }: Pick<Timeline, 'steps' | 'isGone' | 'isLost'>,
  nowMs: number,
): string {
  const rows = steps.map((step) => [secondsOf(step.start), tookText(step, nowMs), step.step, notesOf(step).join('; ')]);
  const last = steps.at(-1)?.end;
  const end = isLost
    ? ['lost', 'it has disappeared although its deletion was not finished: its VM may still be there']
    : ['gone', ''];
  const gone = isGone && last !== undefined ? [[secondsOf(last), '', ...end]] : [];
  return columns([['START', 'TOOK', 'STEP', 'NOTES'], ...rows, ...gone]).join('\n');
}

/** Why the Machine was deleted, what has failed in a step, what it was blocked on, and the signals that came. */
export function notesOf({ cause, failures, blockedOn, signals }: TimelineStep): string[] {
  return [
    ...(cause === undefined ? [] : [cause]),
    ...failures.map(({ code, message, times }) => `${code}${times > 1 ? ` ${times} times` : ''}: ${message}`),
    ...(blockedOn.length > 0 ? [`blocked on ${blockedOn.join(', ')}`] : []),
    ...(signals.length > 0 ? [`signals ${signals.join(', ')}`] : []),
  ];
}
