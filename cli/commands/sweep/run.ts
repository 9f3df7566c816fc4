/** `millwright sweep`: starts a sweep, or approves orphans, and waits for the report. */

import { findMissingProcesses, listServedClusters } from '../../../temporal/clusters.ts';
import { reasonOf, type TemporalServer } from '../../../temporal/connection.ts';
import {
  approveOrphans,
  findHeldSweeps,
  followSweep,
  type HeldSweep,
  startSweep,
} from '../../../temporal/schedules.ts';
import type { Installation } from '../../../temporal/workflows.ts';
import { type SweepProgress, type SweepReport } from '../../../workflows/orphansweep/messages.ts';
import type { RawFlags } from '../../command.ts';
import { commandLine } from '../../command-line.ts';
import { dialectName } from '../../dialect.ts';
import type { namespaceFlags, temporalFlags } from '../../flag-groups.ts';
import { withInstallation } from '../../installation.ts';
import type { Options } from '../../options.ts';
import { rendered } from '../../output.ts';
import { complain, say } from '../../terminal.ts';
import { approvalText, heldText, problemOf, progressText, reportText } from './report.ts';

type SweepOptions = Options<
  'dryRun' | 'installation' | 'output' | (typeof namespaceFlags)[number] | (typeof temporalFlags)[number]
>;

const noWorkerOf = (installation: string) => `Temporal knows of no worker of installation '${installation}'`;
const startFix = 'start one and try again, or correct --namespace, --installation or --temporal-namespace';

/**
 * Starts a sweep, or joins an open one that was started by hand. Prints its progress to standard error and then its
 * report. Throws an Error when no worker would run the sweep, when it waits for approval, and when something could not
 * be listed or deleted.
 */
export async function sweep(options: SweepOptions, rawFlags: RawFlags): Promise<void> {
  const { dryRun, namespace, installation = namespace } = options;
  await withCluster(options, async (to, server) => {
    const missing = await findMissingProcesses(to.client.connection, { namespace: server.namespace, installation });
    if (missing.includes('worker')) {
      throw new Error(`${noWorkerOf(installation)}, so no sweep was started: ${startFix}`);
    }
    const id = await startSweep(to, { dialect: dialectName, namespace, dryRun }, 'person');
    complain(`sweep ${id}: it continues when this command ends`);
    const print = progressPrinter(id, installation, server, commandLine(['stuck'], namespace, rawFlags));
    const report = await followSweep(to.client, id, (progress) => {
      const held = progress?.held;
      if (held === undefined) return print(progress);
      say(rendered({ held }, options, () => heldText(held)));
      const before = progress?.deleted
        ? `${progress.deleted} deleted; the others wait`
        : 'nothing was deleted: the sweep waits';
      throw new Error(`${before} for approval. ${approvalText(held, namespace, rawFlags)}`);
    });
    conclude(report, options);
  });
}

/**
 * Approves the named orphans at every waiting sweep that lists one of them, and prints the reports of those sweeps.
 * Throws an Error when no sweep lists one of them, and when something could not be listed or deleted.
 */
export async function approve(options: SweepOptions, named: readonly string[], rawFlags: RawFlags): Promise<void> {
  const { namespace, installation = namespace } = options;
  const stuck = commandLine(['stuck'], namespace, rawFlags);
  await withCluster(options, async (to, server) => {
    const waiting = await findHeldSweeps(to);
    if (waiting.length === 0) {
      const missing = await findMissingProcesses(to.client.connection, { namespace: server.namespace, installation });
      throw new Error(
        missing.includes('worker')
          ? `${noWorkerOf(installation)}, so whether a sweep waits for approval is not known: ${startFix}`
          : `no sweep of installation '${installation}' says that it waits for approval, so nothing was approved: \`${stuck}\` lists what waits`,
      );
    }
    const unknown = named.filter((given) => waiting.every((each) => idsOf(each, given).length === 0));
    if (unknown.length > 0) {
      throw new Error(`no waiting sweep lists ${unknown.join(', ')}: give ids as in\n${heldText(waiting[0]!.held)}`);
    }
    const approvals = waiting
      .map((each) => ({ each, ids: named.flatMap((given) => idsOf(each, given)) }))
      .filter(({ ids }) => ids.length > 0);
    const approved = await tryEach(approvals, async ({ each, ids }) => {
      complain(`sweep ${each.id}: ${await approveOrphans(to, each, ids)} approved`);
    });
    const ended = await tryEach(approved.done, async ({ each }) => {
      const report = await followSweep(to.client, each.id, progressPrinter(each.id, installation, server, stuck));
      conclude(report, options, approvals.length > 1 ? each.id : undefined);
    });
    const problems = [...approved.problems, ...ended.problems];
    if (problems.length > 0) throw new Error(problems.join('\n'));
  });
}

type Approval = { readonly each: HeldSweep; readonly ids: readonly string[] };

/** One sweep that refuses, or fails, keeps no other from its approval and its report. */
async function tryEach(approvals: readonly Approval[], run: (approval: Approval) => Promise<void>) {
  const done: Approval[] = [];
  const problems: string[] = [];
  for (const approval of approvals) {
    try {
      await run(approval);
      done.push(approval);
    } catch (error) {
      problems.push(`sweep ${approval.each.id}: ${reasonOf(error)}`);
    }
  }
  return { done, problems };
}

/** The workflow accepts ids and names. The last segment of an id is an id as well where it is unique. */
function idsOf({ held }: HeldSweep, given: string): string[] {
  const resources = held.orphans.flatMap(({ named }) => named);
  if (resources.some(({ id, name }) => id === given || name === given)) return [given];
  const ids = resources.map(({ id }) => id).filter((id) => id.endsWith(`/${given}`));
  return ids.length === 1 ? ids : [];
}

/** The reference of a sweep carries the cluster that the workers of the installation serve. */
async function withCluster(
  options: SweepOptions,
  run: (to: Installation, server: TemporalServer) => Promise<void>,
): Promise<void> {
  await withInstallation(options, async (to, server) => {
    const workers = { namespace: server.namespace, installation: to.name };
    const [cluster] = await listServedClusters(to.client.connection, workers);
    await run({ ...to, cluster }, server);
  });
}

/** @param id of the sweep, where there are several */
function conclude(report: SweepReport, options: SweepOptions, id?: string): void {
  const title = id === undefined ? '' : `sweep ${id}:\n`;
  say(rendered(report, options, () => `${title}${reportText(report)}`));
  const problem = problemOf(report);
  if (problem !== undefined) throw new Error(problem);
}

/** Prints progress to standard error whenever it has changed. @param stuck command line that lists what waits */
function progressPrinter(
  id: string,
  installation: string,
  { address, namespace }: TemporalServer,
  stuck: string,
): (progress: SweepProgress | undefined) => void {
  const end = `temporal workflow terminate --address ${address} --namespace ${namespace} --workflow-id ${id}`;
  const noWorker = `no worker of installation '${installation}' answers: start one, or correct --installation and end this sweep with ${end}; /readyz of a worker shows whether it is paused, and \`${stuck}\` whether the code of the sweep fails`;
  let last = '';
  return (progress) => {
    const line = progress === undefined ? noWorker : progressText(progress);
    if (line !== last) complain(line);
    last = line;
  };
}
