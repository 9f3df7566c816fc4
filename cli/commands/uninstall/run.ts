/** `millwright uninstall`: removes what an installation leaves, or shows it. */
import { installationOfRecord } from '../../../api/names.ts';
import type { KubeClient } from '../../../kube/client.ts';
import { leases } from '../../../kube/core.ts';
import { isConflict, isNotFound } from '../../../kube/errors.ts';
import { findOtherCluster } from '../../../kube/known-cluster.ts';
import { createNoCluster } from '../../../kube/no-cluster.ts';
import { update } from '../../../kube/update.ts';
import { TemporalAwayError } from '../../../temporal/connection.ts';
import { findRemnants, removeRemnants } from '../../../temporal/remnants.ts';
import type { Installation } from '../../../temporal/workflows.ts';
import type { RawFlags } from '../../command.ts';
import { commandLine } from '../../command-line.ts';
import type { personFlags, temporalFlags } from '../../flag-groups.ts';
import { withInstallation } from '../../installation.ts';
import { lacksNamespace } from '../../missing-processes.ts';
import { type Options, UsageError } from '../../options.ts';
import { rendered } from '../../output.ts';
import { connectCluster, hasNoTarget } from '../../servers.ts';
import { complain, say } from '../../terminal.ts';
import { awaitEnd, type Processes, readSigns } from './processes.ts';
import { type Report, reportText } from './report.ts';
import { type Change, type Deletion, planWork } from './work.ts';

type UninstallOptions = Options<
  | 'yes'
  | 'machines'
  | 'withoutTemporal'
  | 'installation'
  | 'output'
  | (typeof personFlags)[number]
  | (typeof temporalFlags)[number]
>;

/**
 * Shows what would be removed, or with --yes removes it. Throws UsageError where a flag has to say what becomes of the
 * machines, and an Error where processes run, a server does not answer, or the flags name another cluster or
 * installation.
 */
export async function uninstall(options: UninstallOptions, rawFlags: RawFlags): Promise<void> {
  const control = await connectCluster('control', options, 'uninstall');
  try {
    const target = hasNoTarget(options) ? createNoCluster() : await connectCluster('target', options, 'uninstall');
    try {
      await inTemporal(options, (installation) => clean({ control, target, installation, options, rawFlags }));
    } finally {
      await target.close();
    }
  } finally {
    await control.close();
  }
}

/** @param run gets nothing where Temporal is gone */
async function inTemporal(
  options: UninstallOptions,
  run: (installation: Installation | undefined) => Promise<void>,
): Promise<void> {
  if (options.withoutTemporal) return run(undefined);
  try {
    await withInstallation(options, run);
  } catch (cause) {
    if (!(cause instanceof TemporalAwayError)) throw cause;
    throw new Error(`${cause.message}. If it is gone for good, give --without-temporal`, { cause });
  }
}

interface Context {
  readonly control: KubeClient;
  readonly target: KubeClient;
  /** undefined: Temporal is gone. */
  readonly installation: Installation | undefined;
  readonly options: UninstallOptions;
  readonly rawFlags: RawFlags;
}

async function clean(context: Context): Promise<void> {
  const { control, installation, options, rawFlags } = context;
  const { namespace, installation: name = namespace, machines, withoutTemporal, yes: isDone } = options;
  const processes: Processes = { control, namespace, installation, mayMcmRun: machines === 'mcm' };
  const plan = () => planWork({ ...context, namespace, installation: name, machines });
  await refuseWrongCluster(context);
  let work = await plan();
  if (isDone) {
    await awaitEnd(processes);
    work = await plan(); // they may have written until then
  }
  const temporal = installation && (await findRemnants(installation));
  const running = isDone ? [] : (await readSigns(processes)).map(({ by }) => by);
  if (isDone) {
    for (const line of work.attention) complain(line); // if it is interrupted, nothing says it again
    if (installation !== undefined) await removeRemnants(installation, (count) => complain(`${count} workflows ended`));
    for (const change of work.changes) await apply(change);
    for (const deletion of work.deletions) await remove(control, deletion);
  }
  const report: Report = {
    ...{ installation: name, namespace, isDone, machines: work.machines },
    isNamespaceMissing: await lacksNamespace(control, namespace),
    changed: Object.fromEntries(work.changes.map(({ resource, objects }) => [resource.kind, objects.length])),
    deleted: work.deletions.map(({ resource, key }) => `${resource.kind} ${key.name}`),
    ...{ temporal, attention: work.attention, running },
  };
  const words = [...(machines ? ['--machines', machines] : []), ...(withoutTemporal ? ['--without-temporal'] : [])];
  const line = commandLine(['uninstall', '--yes', ...words], namespace, rawFlags);
  say(rendered(report, options, () => reportText(report, line)));
}

/** In another cluster the Nodes would be those of others; of another installation the Schedules would stay. */
async function refuseWrongCluster({ control, target, options }: Context): Promise<void> {
  const { namespace, installation = namespace } = options;
  const record = { control, namespace, installation };
  const other = hasNoTarget(options) ? undefined : await findOtherCluster(target, record);
  if (other !== undefined) throw new Error(other);
  const { items } = await control.list(leases, { namespace });
  const records = items.flatMap(({ metadata }) => installationOfRecord(metadata.name) ?? []);
  if (records.length === 0 || records.includes(installation)) return;
  throw new UsageError(
    `the installation of namespace ${namespace} is ${records.join(' or ')} and not ${installation}: correct --installation`,
  );
}

/** Objects that are changed at once. */
const groupSize = 50;

async function apply({ client, resource, objects, change }: Change): Promise<void> {
  for (let i = 0; i < objects.length; i += groupSize) {
    const group = objects.slice(i, i + groupSize);
    await Promise.all(group.map(({ metadata }) => update(client, resource, metadata, change)));
    complain(`${resource.kind}: ${Math.min(i + groupSize, objects.length)} of ${objects.length} changed`);
  }
}

/** Throws an Error where a process has written the object since it was read. */
async function remove(client: KubeClient, { resource, key, preconditions }: Deletion): Promise<void> {
  try {
    await client.delete(resource, key, { preconditions });
  } catch (cause) {
    if (isNotFound(cause)) return;
    if (!isConflict(cause)) throw cause;
    const what = `a process has written the ${resource.kind} ${key.name} meanwhile`;
    throw new Error(`${what}: stop it and run this command again`, { cause });
  }
}
