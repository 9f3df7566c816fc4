/** A sweep on demand, watched until it is over. */
import { Client } from '@temporalio/client';
import { hasWorkers, listServedClusters } from '../../../temporal/clusters.ts';
import { connectClient, type TemporalServer } from '../../../temporal/connection.ts';
import {
  approveOrphans,
  findHeldSweeps,
  followSweep,
  type Held,
  type HeldSweep,
  keptReasons,
  type NamedResource,
  type SweepProgress,
  type SweepReport,
  startSweep,
} from '../../../temporal/schedules.ts';
import type { Installation } from '../../../temporal/workflows.ts';
import type { Given } from '../../command.ts';
import type { temporalFlags } from '../../flags.ts';
import { lineOf } from '../../line.ts';
import type { Options } from '../../options.ts';
import { temporalServer } from '../../servers.ts';

type SweepOptions = Options<'dryRun' | 'namespace' | 'installation' | 'output' | (typeof temporalFlags)[number]>;

/**
 * Starts a sweep, or joins one that somebody started so, and prints its report; how far it is goes to standard error.
 * Throws an Error when something could not be listed or deleted, when it waits for approval, and before it starts one that
 * no worker would take up.
 */
export async function sweep(options: SweepOptions, given: Given): Promise<void> {
  const { dryRun, namespace, installation = namespace, output } = options;
  await withInstallation(options, async (to, server) => {
    if (!(await hasWorkers(to.client.connection, { namespace: server.namespace, installation }))) {
      const fix = 'start one and try again, or correct --namespace, --installation or --temporal-namespace';
      throw new Error(`Temporal knows of no worker of installation '${installation}', so no sweep was started: ${fix}`);
    }
    const id = await startSweep(to, { dialect: 'gardener', namespace, dryRun }, 'person');
    console.error(`sweep ${id}: it goes on when this command ends`);
    const tell = toldOnce(id, installation, server);
    const report = await followSweep(to.client, id, (progress) => {
      const held = progress?.held;
      if (held === undefined) return tell(progress);
      console.log(output === 'json' ? JSON.stringify({ held }) : heldText(held));
      const line = lineOf(['sweep', 'approve', '<id>...'], namespace, given);
      throw new Error(`nothing was deleted: the sweep waits for approval; to approve: ${line}`);
    });
    conclude(report, output);
  });
}

/**
 * Approves what is named at every waiting sweep that lists some of it, and prints the reports of those. Throws an Error
 * when none lists it, or something could not be listed or deleted.
 */
export async function approve(options: SweepOptions, named: readonly string[]): Promise<void> {
  const { namespace, installation = namespace, output } = options;
  await withInstallation(options, async (to, server) => {
    const waiting = await findHeldSweeps(to);
    const lists = ({ held }: HeldSweep, given: string) =>
      held.orphans.some((orphan) => orphan.named.some(({ id, name }) => id === given || name === given));
    if (waiting.length === 0)
      throw new Error(`no sweep of installation '${installation}' waits for approval, as far as its workers answer`);
    const unknown = named.filter((given) => !waiting.some((each) => lists(each, given)));
    if (unknown.length > 0) {
      throw new Error(`no waiting sweep lists ${unknown.join(', ')}: give ids as in\n${heldText(waiting[0]!.held)}`);
    }
    for (const each of waiting) {
      const own = named.filter((given) => lists(each, given));
      if (own.length > 0) console.error(`sweep ${each.id}: ${await approveOrphans(to, each, own)} approved`);
    }
    for (const { id } of waiting.filter((each) => named.some((given) => lists(each, given)))) {
      conclude(await followSweep(to.client, id, toldOnce(id, installation, server)), output);
    }
  });
}

async function withInstallation(
  options: SweepOptions,
  run: (to: Installation, server: TemporalServer) => Promise<void>,
): Promise<void> {
  const server = temporalServer(options);
  const connection = await connectClient(server);
  try {
    const client = new Client({ connection, namespace: server.namespace });
    const name = options.installation ?? options.namespace;
    const [cluster] = await listServedClusters(connection, { namespace: server.namespace, installation: name });
    await run({ client, name, cluster }, server);
  } finally {
    await connection.close();
  }
}

function conclude(report: SweepReport, output: SweepOptions['output']): void {
  console.log(output === 'json' ? JSON.stringify(report) : toText(report));
  const problem = problemOf(report);
  if (problem !== undefined) throw new Error(problem);
}

function heldText({ reasons, count, orphans }: Held): string {
  const more = count - orphans.length;
  return [
    ...reasons.map((reason) => `waits for approval: ${reason}`),
    ...orphans.map(({ named }) => named.map(nameOf).join(' with ')),
    ...(more > 0 ? [`and ${more} more, which wait for the next sweep`] : []),
  ].join('\n');
}

/** Prints what has changed since the last time. */
function toldOnce(
  id: string,
  installation: string,
  { address, namespace }: TemporalServer,
): (progress: SweepProgress | undefined) => void {
  const end = `temporal workflow terminate --address ${address} --namespace ${namespace} --workflow-id ${id}`;
  const noWorker = `no worker of installation '${installation}' answers: start one, or correct --installation and end this sweep with ${end}; /readyz of a worker says whether it pauses`;
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
    ...(groups > 0 ? [`${listed} of ${plural(groups, 'class group')} listed, ${plural(seen, 'resource')}`] : []),
    ...(candidates > 0 ? [plural(candidates, 'orphan')] : []),
    ...(deleted > 0 ? [`${deleted} deleted`] : []),
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(lastError === undefined ? [] : [`last error ${lastError.code}: ${lastError.message}`]),
  ];
  return parts.join('; ');
}

function toText(report: SweepReport): string {
  const { dryRun, groups, releasedSources, braked = [], unanswered = [] } = report;
  const rows = groups.flatMap(({ provider, sources, seen, kept, deleted, failed, error }) => {
    const about = `${provider || '(no provider)'} ${sources.join(', ')}`;
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
    ...(releasedSources.length > 0 ? ['', `let go of deleted classes: ${releasedSources.join(', ')}`] : []),
    ...(braked.length > 0
      ? ['', ...braked.map((reason) => `${dryRun ? 'would wait' : 'waited'} for approval: ${reason}`)]
      : []),
    ...unanswered.map((reason) => `the next sweep that finds an orphan also waits for approval: ${reason}`),
    ...(dryRun ? ['', 'this was a dry run: nothing was deleted'] : []),
  ].join('\n');
}

function nameOf({ kind, id, uid, name, excessOf }: NamedResource): string {
  const surplus = excessOf === undefined ? '' : ` (surplus: Machine ${excessOf} names another VM)`;
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
    ...(unlisted > 0 ? [`${plural(unlisted, 'class group')} could not be listed`] : []),
    ...(failed > 0 ? [`${plural(failed, 'resource')} could not be deleted`] : []),
  ];
  return problems.length > 0 ? `${problems.join(', and ')}: see above` : undefined;
}
