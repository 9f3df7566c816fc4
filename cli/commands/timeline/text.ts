import type { Timeline, TimelineStep } from '../../../temporal/timeline.ts';
import { columns } from '../../columns.ts';

/** A timeline as a table. @param nowMs ms since the epoch: the end of the step that is not over */
export function timelineText({ steps, isGone }: Timeline, nowMs: number): string {
  const rows = steps.map((step) => [secondsOf(step.start), tookText(step, nowMs), step.step, notesOf(step)]);
  const last = steps.at(-1)?.end;
  const gone = isGone && last !== undefined ? [[secondsOf(last), '', 'gone', '']] : [];
  return columns([['START', 'TOOK', 'STEP', 'NOTES'], ...rows, ...gone]).join('\n');
}

function secondsOf(time: string): string {
  return `${time.slice(0, 19)}Z`;
}

function tookText({ start, end }: TimelineStep, nowMs: number): string {
  const ms = (end === undefined ? nowMs : Date.parse(end)) - Date.parse(start);
  return `${durationText(ms)}${end === undefined ? ' so far' : ''}`;
}

function notesOf({ failures, blockedOn, signals }: TimelineStep): string {
  return [
    ...failures.map(({ code, message, times }) => `${code}${times > 1 ? ` ${times} times` : ''}: ${message}`),
    ...(blockedOn.length > 0 ? [`blocked on ${blockedOn.join(', ')}`] : []),
    ...(signals.length > 0 ? [`signals ${signals.join(', ')}`] : []),
  ].join('; ');
}

const units = [
  ['d', 86_400],
  ['h', 3_600],
  ['min', 60],
  ['s', 1],
] as const;

/** A duration by its two largest units, `2 d 3 h`; below 10 s with a tenth, `0.1 s`. */
export function durationText(ms: number): string {
  if (ms < 9_950) return `${(Math.max(ms, 0) / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  const first = units.findIndex(([, size]) => seconds >= size);
  const parts = units.slice(first, first + 2).map(([unit, size], i) => {
    const whole = Math.floor((i === 0 ? seconds : seconds % units[first]![1]) / size);
    return whole > 0 ? [`${whole} ${unit}`] : [];
  });
  return parts.flat().join(' ');
}
