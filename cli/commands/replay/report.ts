/** What `millwright replay` prints. */
import { stringify } from 'yaml';
import type { Decision } from '../../../temporal/decisions.ts';
import type { ReplayReport } from '../../../temporal/replay.ts';

/** Longest value that is printed, lines. */
const maxLines = 60;

/** A report for people. */
export function replayText({ workflowId, workflowType, events, decisions, difference, error }: ReplayReport): string {
  const run = `${workflowType} ${workflowId}: ${events} events, ${decisions} decisions`;
  if (difference === undefined) return `${run}: this version decides the same`;
  const { event, recorded, now, details, madeFrom } = difference;
  const where = event === undefined ? 'after the last recorded one' : `at event ${event}`;
  return [
    `${run}: the first decision that differs is ${where}`,
    `recorded: ${recorded?.what ?? 'nothing more'}`,
    ...(details.length > 0 ? [] : contentLines(recorded)),
    `now: ${now?.what ?? 'nothing'}`,
    ...(details.length > 0 ? details.map((line) => `  ${line}`) : contentLines(now)),
    ...madeFrom.flatMap((news) => [`made from event ${news.event}, ${news.what}`, ...contentLines(news)]),
    error === undefined
      ? 'Temporal would not notice: it compares the kinds of decisions and not their content'
      : `Temporal: ${error}`,
  ].join('\n');
}

function contentLines({ content }: Partial<Decision> = {}): string[] {
  if (content === undefined || content === null) return [];
  const lines = stringify(content, { lineWidth: 0 }).trimEnd().split('\n');
  const more = lines.length - maxLines;
  const shown = more > 0 ? [...lines.slice(0, maxLines), `(${more} more lines: see -o json)`] : lines;
  return shown.map((line) => `  ${line}`);
}
