/** What `millwright rollout` does: it reads and changes the objects, and tells workflows to try again. */

import { dialectOf } from '../../../api/dialects.ts';
import { labels } from '../../../api/gardener/names.ts';
import { machineDeployments, machineSets, machines } from '../../../api/gardener/resources.ts';
import type { MachineTemplate } from '../../../api/gardener/schema/machine.ts';
import type { MachineDeployment } from '../../../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../../../api/gardener/schema/machine-set.ts';
import { names } from '../../../api/names.ts';
import { isActive, isAvailable } from '../../../api/owner/machines.ts';
import { toTasks } from '../../../api/owner/needs.ts';
import { revisionOf as revisionOfSet } from '../../../api/owner/revision.ts';
import { templatesEqual } from '../../../api/owner/template.ts';
import { controllerOf, groupByController, newSetAmong } from '../../../api/owner/view.ts';
import { type JsonPatchOperation, jsonPatch, mergePatch } from '../../../kube/patch.ts';
import { retryNow } from '../../../temporal/workflows.ts';
import type { Given } from '../../command.ts';
import { connectCluster } from '../../servers.ts';
import { readDeploymentState } from '../owner-state.ts';
import type { RolloutAction } from './command.ts';
import { status } from './status.ts';
import {
  lineOf,
  nameOf,
  type RolloutOptions,
  readDeployment,
  refOf,
  refuseDeleted,
  type Subject,
  withInstallation,
} from './target.ts';

const dialect = dialectOf('gardener');

const revisionOf = (set: MachineSet) => revisionOfSet(dialect, set);

interface Action {
  /** Whether it changes the deployment, which makes no sense for one that is being deleted. */
  readonly isChange: boolean;
  run(subject: Subject, deployment: MachineDeployment): Promise<string>;
}

const actions: Record<RolloutAction, Action> = {
  status: { isChange: false, run: status },
  history: { isChange: false, run: history },
  retry: { isChange: false, run: retry },
  pause: { isChange: true, run: (subject, deployment) => setPaused(subject, deployment, true) },
  resume: { isChange: true, run: (subject, deployment) => setPaused(subject, deployment, false) },
  undo: { isChange: true, run: undo },
  restart: { isChange: true, run: restart },
};

/** Does it and prints what has become of it. Throws an Error that says what is wrong and the fix. */
export async function rollout(
  action: RolloutAction,
  name: string,
  options: RolloutOptions,
  given: Given,
): Promise<void> {
  const control = await connectCluster('control', options, 'rollout');
  try {
    const subject = { control, key: { namespace: options.namespace, name }, options, given };
    const deployment = await readDeployment(subject);
    const { isChange, run } = actions[action];
    if (isChange) refuseDeleted(subject, deployment);
    console.log(await run(subject, deployment));
  } finally {
    await control.close();
  }
}

async function setsOf({ control, key }: Subject, { metadata }: MachineDeployment): Promise<MachineSet[]> {
  const { items } = await control.list(machineSets, { namespace: key.namespace });
  return items.filter((set) => controllerOf(set) === metadata.uid).toSorted((a, b) => revisionOf(a) - revisionOf(b));
}

async function history(subject: Subject, deployment: MachineDeployment): Promise<string> {
  const sets = await setsOf(subject, deployment);
  return sets.length === 0 ? 'there is no revision yet' : toHistory(deployment, sets);
}

/** The revisions of a deployment, a line each. @param sets those of the deployment, in the order of the lines */
export function toHistory(deployment: MachineDeployment, sets: readonly MachineSet[]): string {
  const present = newSetAmong(dialect, deployment, sets);
  const rows = sets.map((set) => [
    `${revisionOf(set)}${set === present ? ' (present)' : ''}`,
    set.metadata.name,
    String(set.spec?.replicas ?? 0),
    set.spec?.template?.spec?.class?.name ?? '',
    Object.entries(set.spec?.template?.metadata?.annotations ?? {})
      .map(([key, value]) => `${key}=${value}`)
      .join(' '),
  ]);
  const all = [['REVISION', 'SET', 'REPLICAS', 'CLASS', 'ANNOTATIONS'], ...rows];
  const widths = all[0]?.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0))) ?? [];
  const line = (row: readonly string[]) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ');
  const note = present === undefined ? ['the present template has no revision yet'] : [];
  return [...all.map((row) => line(row).trimEnd()), ...note].join('\n');
}

async function setPaused(subject: Subject, { spec }: MachineDeployment, paused: boolean): Promise<string> {
  const { control, key } = subject;
  const which = nameOf(subject);
  if ((spec?.paused === true) === paused) {
    const other = lineOf(paused ? 'resume' : 'pause', subject);
    throw new Error(`spec.paused of ${which} is ${paused} already; to change it: ${other}`);
  }
  await control.patch(machineDeployments, key, mergePatch({ spec: { paused } }));
  return `${which}: ${paused ? 'paused' : 'resumed'}`;
}

/** As kubectl: a change that would not begin before it is resumed is refused. */
function refusePaused(subject: Subject, { spec }: MachineDeployment): void {
  if (spec?.paused !== true) return;
  throw new Error(`spec.paused of ${nameOf(subject)} is true, it is paused: first ${lineOf('resume', subject)}`);
}

async function undo(subject: Subject, deployment: MachineDeployment): Promise<string> {
  refusePaused(subject, deployment);
  const which = nameOf(subject);
  const present = deployment.spec?.template;
  const sets = await setsOf(subject, deployment);
  const wanted = subject.options.toRevision;
  const set =
    wanted === 0
      ? sets.findLast(({ spec }) => !templatesEqual(dialect, spec?.template, present))
      : sets.find((each) => revisionOf(each) === wanted);
  if (set?.spec?.template === undefined) {
    const known = sets.map(revisionOf).join(', ') || 'none';
    const lacking = wanted === 0 ? 'no revision with another template' : `no revision ${wanted}, as --to-revision asks`;
    throw new Error(`${which} has ${lacking}: there is ${known}; give one of ${lineOf('history', subject)}`);
  }
  const template = withoutHash(set.spec.template);
  if (templatesEqual(dialect, template, present)) {
    return `${which}: nothing to do, revision ${revisionOf(set)} has its present template`;
  }
  await replaceTemplate(subject, deployment, template);
  return `${which}: rolled back to the template of revision ${revisionOf(set)}`;
}

/**
 * Whoever has changed the spec meanwhile wins, as the template is replaced as a whole. A status that was written
 * meanwhile, which in a rollout happens all the time, is no reason.
 */
async function replaceTemplate(
  subject: Subject,
  { metadata }: MachineDeployment,
  template: MachineTemplate,
): Promise<void> {
  const operations: JsonPatchOperation[] = [
    { op: 'test', path: '/metadata/uid', value: metadata.uid },
    { op: 'test', path: '/metadata/generation', value: metadata.generation },
    { op: 'replace', path: '/spec/template', value: template },
  ];
  try {
    await subject.control.patch(machineDeployments, subject.key, jsonPatch(operations));
  } catch (cause) {
    const now = await readDeployment(subject);
    if (now.metadata.generation === metadata.generation && now.metadata.uid === metadata.uid) throw cause;
    throw new Error(`the spec of ${nameOf(subject)} was changed in this moment: look at it, and try again`, { cause });
  }
}

/** A set's template has its hash among the labels, a deployment's has not. */
function withoutHash(template: MachineTemplate): MachineTemplate {
  const { [labels.templateHash]: _, ...own } = template.metadata?.labels ?? {};
  return { ...template, metadata: { ...template.metadata, labels: own } };
}

async function restart(subject: Subject, deployment: MachineDeployment): Promise<string> {
  refusePaused(subject, deployment);
  const annotations = { [names.restartedAt]: new Date().toISOString() };
  const patch = mergePatch({ spec: { template: { metadata: { annotations } } } });
  await subject.control.patch(machineDeployments, subject.key, patch);
  return `${nameOf(subject)}: restarted, all its machines are replaced`;
}

/** Tells the rollout and every machine that does not run, or is on its way out. */
async function retry(subject: Subject, deployment: MachineDeployment): Promise<string> {
  const { control, key } = subject;
  const { items } = await control.list(machines, { namespace: key.namespace });
  const bySet = groupByController(items);
  const holding = (await setsOf(subject, deployment))
    .flatMap((set) => bySet.get(set.metadata.uid) ?? [])
    .filter((machine) => !isActive(dialect, machine) || !isAvailable(dialect, machine));
  return withInstallation(subject, async (to) => {
    let told = 0;
    for (const machine of holding) if (await retryNow(to, 'Machine', refOf(subject, machine))) told++;
    const isOpen = await retryNow(to, 'MachineDeployment', refOf(subject, deployment));
    const { needs } = await readDeploymentState(control, deployment);
    if (told === 0 && !isOpen && (needs.length > 0 || holding.length > 0)) {
      const them = holding.length > 0 ? ` or for its ${count(holding.length)} not available` : '';
      const why = `no workflow of installation '${to.name}' is open for it${them}, and there is to do: ${toTasks(needs)}`;
      throw new Error(`${nameOf(subject)}: ${why}; start the controllers, or correct --installation`);
    }
    const who = [...(isOpen ? ['the rollout'] : []), ...(told > 0 ? [count(told)] : [])].join(' and ');
    return `${nameOf(subject)}: ${who === '' ? 'nothing waits' : `${who} try again now`}`;
  });
}

function count(number: number): string {
  return number === 1 ? '1 machine' : `${number} machines`;
}
