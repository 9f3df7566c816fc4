/** A sweep out of turn, watched until it is over. */
import { Client } from '@temporalio/client';
import { hasWorkers } from '../temporal/clusters.ts';
import { connectClient, type TemporalServer } from '../temporal/connection.ts';
import {
  followSweep,
  keptReasons,
  type NamedResource,
  type SweepProgress,
  type SweepReport,
  startSweep,
} from '../temporal/schedules.ts';
import type { temporalFlags } from './flags.ts';
import type { Options } from './options.ts';
import { temporalServer } from './servers.ts';

type SweepOptions = Options<'dryRun' | 'namespace' | 'installation' | 'output' | (typeof temporalFlags)[number]>;

/**
 * Starts a sweep, or joins one that somebody started so, and prints its report; how far it is goes to standard error.
 * Throws an Error when something could not be listed or deleted, and before it starts one that no worker would take up.
 */
export async function sweep(options: SweepOptions): Promise<void> {
  const { dryRun, namespace, installation = namespace, output } = options;
  const server = temporalServer(options);
  const connection = await connectClient(server);
  try {
    if (!(await hasWorkers(connection, { namespace: server.namespace, installation }))) {
      const fix = 'start one and try again, or correct --namespace, --installation or --temporal-namespace';
      throw new Error(`Temporal knows of no worker of installation '${installation}', so no sweep was started: ${fix}`);
    }
    const client = new Client({ connection, namespace: server.namespace });
    const id = await startSweep({ client, name: installation }, { dialect: 'gardener', namespace, dryRun }, 'person');
    console.error(`sweep ${id}: it goes on when this command ends`);
    const report = await followSweep(client, id, toldOnce(id, installation, server));
    console.log(output === 'json' ? JSON.stringify(report) : toText(report));
    const problem = problemOf(report);
    if (problem !== undefined) throw new Error(problem);
  } finally {
    await connection.close();
  }
}

/** Prints what has changed since the last time. */
function toldOnce(
  id: string,
  installation: string,
  { address, namespace }: TemporalServer,
): (progress: SweepProgress | undefined) => void {
  const end = `temporal workflow terminate --address ${address} --namespace ${namespace} --workflow-id ${id}`;
  const noWorker = `no worker of installation '${installation}' answers: start one, or correct --installation and end this sweep with ${end}`;
  let last = '';
  return (progress) => {
    const told = progress === undefined ? noWorker : progressText(progress);
    if (told !== last) console.error(told);
    last = told;
  };
}

function progressText({ doing, until, groups, listed, candidates, lastError, ...counts }: SweepProgress): string {
  const { seen, deleted, failed } = counts;
  const parts = [
    until === undefined ? doing : `${doing}, until ${new Date(until).toTimeString().slice(0, 8)}`,
    ...(groups > 0 ? [`${listed} of ${plural(groups, 'group')} listed, ${plural(seen, 'resource')}`] : []),
    ...(candidates > 0 ? [`${candidates} without a Machine`] : []),
    ...(deleted > 0 ? [`${deleted} deleted`] : []),
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(lastError === undefined ? [] : [`last error ${lastError.code}: ${lastError.message}`]),
  ];
  return parts.join('; ');
}

function toText(report: SweepReport): string {
  const { dryRun, groups, releasedClasses } = report;
  const rows = groups.flatMap(({ provider, classes, seen, kept, deleted, failed, error }) => {
    const about = `${provider || '(no provider)'} ${classes.join(', ')}`;
    const row = (what: string, count: number | string, why: string) => [about, what, String(count), why];
    if (error !== undefined) return [row('not listed', '?', `${error.code}: ${error.message}`)];
    return [
      row('seen', seen, ''),
      ...kept.map(({ reason, count }) => row('kept', count, keptReasons[reason])),
      ...(deleted.count > 0 ? [row('deleted', deleted.count, 'were orphans')] : []),
      ...failed.map(({ code, message, ...resource }) => row('failed', nameOf(resource), `${code}: ${message}`)),
    ];
  });
  const named = groups.flatMap(({ kept, deleted }) => [
    ...deleted.resources.map((resource) => `deleted ${nameOf(resource)}`),
    ...kept.flatMap(({ reason, resources }) => resources.map((each) => `kept ${nameOf(each)}: ${keptReasons[reason]}`)),
  ]);
  return [
    ...(groups.length === 0 ? ['there is no MachineClass: nothing was looked at'] : table(rows)),
    ...(named.length > 0 ? ['', ...named] : []),
    ...(releasedClasses.length > 0 ? ['', `let go of deleted classes: ${releasedClasses.join(', ')}`] : []),
    ...(dryRun ? ['', 'this was a dry run: nothing was deleted'] : []),
  ].join('\n');
}

function nameOf({ kind, id, uid, name, surplusOf }: NamedResource): string {
  const surplus = surplusOf === undefined ? '' : ` (surplus: Machine ${surplusOf} names another VM)`;
  return `${kind} ${id}${name ? ` ${name}` : ''}${uid === undefined ? '' : ` of Machine ${uid}`}${surplus}`;
}

/** Columns side by side. */
function table(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

function problemOf({ groups }: SweepReport): string | undefined {
  const unlisted = groups.filter(({ error }) => error !== undefined).length;
  const failed = groups.reduce((sum, { failedCount }) => sum + failedCount, 0);
  const problems = [
    ...(unlisted > 0 ? [`${plural(unlisted, 'group')} of classes could not be listed`] : []),
    ...(failed > 0 ? [`${plural(failed, 'resource')} could not be deleted`] : []),
  ];
  return problems.length > 0 ? `${problems.join(', and ')}: see above` : undefined;
}
