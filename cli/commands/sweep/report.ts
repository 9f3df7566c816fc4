/** What `millwright sweep` prints: progress, orphans that wait for approval, and the report. */
import {
  type Held,
  keptReasons,
  type NamedResource,
  type SweepProgress,
  type SweepReport,
} from '../../../workflows/orphansweep/messages.ts';
import { columns } from '../../columns.ts';
import type { RawFlags } from '../../command.ts';
import { commandLine } from '../../command-line.ts';

/** The orphans that wait for approval, and why. */
export function heldText({ reasons, count, orphans }: Held): string {
  const more = count - orphans.length;
  return [
    ...reasons.map((reason) => `waits for approval: ${reason}`),
    ...orphans.map(({ named }) => named.map(resourceText).join(' with ')),
    ...(more > 0 ? [`and ${more} more, which wait for the next sweep`] : []),
  ].join('\n');
}

/** Most orphans that the command to approve them names. */
export const maxApproved = 20;

/**
 * What a person has to do about orphans that wait, as sentences. The last one ends with the command to run, which leaves
 * out ids that a terminal does not show as they are.
 */
export function approvalText({ count, orphans }: Held, namespace: string, rawFlags: RawFlags): string {
  const readable = orphans.filter(({ named }) => named.every(({ id }) => !/\p{C}/u.test(id)));
  const unreadable = orphans.length - readable.length;
  const ids = readable.slice(0, maxApproved).map(({ named }) => named.map(({ id }) => id));
  const because = unreadable > 0 ? `, ${unreadable} with invisible characters in their ids,` : '';
  const them =
    ids.length < count
      ? `the first ${ids.length} of ${count} and leave the others${because} to the next sweep`
      : 'them';
  return [
    'Find out why the Machines are missing.',
    'To keep a resource, leave its id out, and restore its Machine or remove the tags of the class from the resource and its parts.',
    'The sweep ends by itself within minutes when all that it lists has Machines again.',
    ids.length === 0
      ? 'No command is given here: the ids have invisible characters.'
      : `To delete ${them}: ${commandLine(['sweep', 'approve'], namespace, rawFlags, ids.flat())}`,
  ].join(' ');
}

/** The progress of a sweep as one line. */
export function progressText({
  doing,
  until,
  groups,
  listed,
  candidates,
  lastError,
  ...counts
}: SweepProgress): string {
  const { seen, deleted, failed } = counts;
  const parts = [
    until === undefined ? doing : `${doing}, until ${new Date(until).toTimeString().slice(0, 8)}`,
    ...(groups > 0 ? [`${listed} of ${plural(groups, 'class group')} listed, ${plural(seen, 'resource')}`] : []),
    ...(candidates > 0 ? [plural(candidates, 'orphan')] : []),
    ...(deleted > 0 ? [`${deleted} deleted`] : []),
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(lastError === undefined ? [] : [`last error ${lastError.code}: ${lastError.message}`]),
  ];
  return parts.join('; ');
}

/** A report for people: a table of counts, then the resources that it names. */
export function reportText(report: SweepReport): string {
  const { dryRun, groups, releasedSources, braked = [], unanswered = [], approvedBy } = report;
  const rows = groups.flatMap(({ provider, sources, seen, kept, deleted, failed, error }) => {
    const group = `${provider || '(no provider)'} ${sources.join(', ')}`;
    const row = (what: string, count: number | string, why: string) => [group, what, String(count), why];
    if (error !== undefined) return [row('not listed', '?', `${error.code}: ${error.message}`)];
    return [
      row('seen', seen, ''),
      ...kept.map(({ reason, count }) => row('kept', count, keptReasons[reason])),
      ...(deleted.count > 0 ? [row('deleted', deleted.count, 'were orphans')] : []),
      ...failed.map(({ code, message, ...resource }) => row('failed', resourceText(resource), `${code}: ${message}`)),
    ];
  });
  const resources = groups.flatMap(({ kept, deleted }) => [
    ...deleted.resources.map((resource) => `deleted ${resourceText(resource)}`),
    ...kept.flatMap(({ reason, resources }) =>
      resources.map((resource) => `kept ${resourceText(resource)}: ${keptReasons[reason]}`),
    ),
  ]);
  return [
    ...(groups.length === 0 ? ['there are no classes, so no cloud was listed'] : columns(rows)),
    ...(resources.length > 0 ? ['', ...resources] : []),
    ...(releasedSources.length > 0 ? ['', `released deleted classes: ${releasedSources.join(', ')}`] : []),
    ...(braked.length > 0
      ? ['', ...braked.map((reason) => `${dryRun ? 'would wait' : 'waited'} for approval: ${reason}`)]
      : []),
    ...(approvedBy === undefined ? [] : [`approved by ${approvedBy}`]),
    ...unanswered.map((reason) => `the next sweep that finds an orphan also waits for approval: ${reason}`),
    ...(dryRun ? ['', 'this was a dry run: nothing was deleted'] : []),
  ].join('\n');
}

/** What could not be done; undefined when everything could. */
export function problemOf({ groups }: SweepReport): string | undefined {
  const unlisted = groups.filter(({ error }) => error !== undefined).length;
  const failed = groups.reduce((sum, { failedCount }) => sum + failedCount, 0);
  const problems = [
    ...(unlisted > 0 ? [`${plural(unlisted, 'class group')} could not be listed`] : []),
    ...(failed > 0 ? [`${plural(failed, 'resource')} could not be deleted`] : []),
  ];
  return problems.length > 0 ? `${problems.join(', and ')}: see above` : undefined;
}

function resourceText({ kind, id, uid, name, excessOf, doubts = [] }: NamedResource): string {
  const surplus = excessOf === undefined ? [] : [`surplus: Machine ${excessOf} names another VM`];
  const remarks = [...surplus, ...doubts];
  const what = `${kind} ${id}${name ? ` ${name}` : ''}${uid === undefined ? '' : ` of Machine ${uid}`}`;
  return remarks.length === 0 ? what : `${what} (${remarks.join('; ')})`;
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
