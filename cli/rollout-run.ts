/** What `millwright rollout` does: it reads and changes the objects, and tells workflows to try again. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from '@temporalio/client';
import { rolloutComplete, rolloutLate } from '../api/attention.ts';
import type { MachineTemplate } from '../api/gardener/machine.ts';
import type { MachineDeployment } from '../api/gardener/machine-deployment.ts';
import type { MachineSet } from '../api/gardener/machine-set.ts';
import { labels } from '../api/gardener/names.ts';
import { controllerOf, groupByController, isActive, isAvailable } from '../api/gardener/owner.ts';
import { revisionOf } from '../api/gardener/revision.ts';
import { templatesEqual } from '../api/gardener/template.ts';
import type { ObjectRef } from '../api/model.ts';
import { names } from '../api/names.ts';
import type { KubeClient } from '../kube/client.ts';
import { machineDeployments, machineSets, machines } from '../kube/gardener.ts';
import { type JsonPatchOperation, jsonPatch, mergePatch } from '../kube/patch.ts';
import { connectClient } from '../temporal/connection.ts';
import { retryNow, type WorkflowKind } from '../temporal/workflows.ts';
import type { clusterFlags, temporalFlags } from './flags.ts';
import type { Options } from './options.ts';
import type { RolloutAction } from './rollout.ts';
import { connectCluster, temporalServer } from './servers.ts';

type RolloutOptions = Options<
  'watch' | 'toRevision' | 'namespace' | 'installation' | (typeof clusterFlags)[number] | (typeof temporalFlags)[number]
>;

interface Subject {
  readonly control: KubeClient;
  readonly key: { readonly namespace: string; readonly name: string };
  readonly options: RolloutOptions;
}

const run: Record<RolloutAction, (subject: Subject, deployment: MachineDeployment) => Promise<string>> = {
  status,
  history,
  retry,
  pause: (subject, deployment) => setPaused(subject, deployment, true),
  resume: (subject, deployment) => setPaused(subject, deployment, false),
  undo,
  restart,
};

/** Does it and prints what has become of it. Throws an Error that says what is wrong and the fix. */
export async function rollout(action: RolloutAction, name: string, options: RolloutOptions): Promise<void> {
  const control = await connectCluster('control', options, 'rollout');
  try {
    const subject = { control, key: { namespace: options.namespace, name }, options };
    console.log(await run[action](subject, await read(subject)));
  } finally {
    await control.close();
  }
}

async function read({ control, key }: Subject): Promise<MachineDeployment> {
  const deployment = await control.find(machineDeployments, key);
  if (deployment !== undefined) return deployment;
  const which = `MachineDeployment ${key.namespace}/${key.name}`;
  throw new Error(`${which} does not exist in the control cluster: correct the name or --namespace`);
}

const lookAgainMs = 1_000;

async function status(subject: Subject, first: MachineDeployment): Promise<string> {
  let told = '';
  for (let deployment = first; ; deployment = await read(subject)) {
    const { text, state } = progressOf(deployment);
    if (state === 'complete') return text;
    if (state === 'late') throw new Error(text);
    if (!subject.options.watch) return text;
    if (text !== told) console.log(text);
    told = text;
    await sleep(lookAgainMs);
  }
}

/** How far a rollout is, as its status tells. */
function progressOf({ metadata, spec, status: now = {} }: MachineDeployment): {
  readonly text: string;
  readonly state: 'complete' | 'late' | 'under way';
} {
  const { name, namespace = '', generation = 0 } = metadata;
  const { replicas = 0, paused } = spec ?? {};
  const { replicas: total = 0, updatedReplicas: updated = 0, availableReplicas: available = 0 } = now;
  const reason = now.conditions?.find(({ type }) => type === 'Progressing')?.reason;
  const isSeen = (now.observedGeneration ?? 0) >= generation;
  const which = `MachineDeployment ${namespace}/${name}`;
  const counts = `${updated} of ${replicas} machines are of the new template, ${total - updated} of older ones, ${available} available`;
  const isDone = updated === replicas && total === replicas && available >= replicas;
  if (isSeen && reason === rolloutComplete && isDone)
    return { text: `${which}: complete, ${counts}`, state: 'complete' };
  if (isSeen && reason === rolloutLate) {
    const fix = `see \`millwright describe machinedeployment ${name} -n ${namespace}\` for what holds it up, and once that is away \`millwright rollout retry ${name} -n ${namespace}\``;
    return { text: `${which}: the progress deadline has passed: ${counts}; ${fix}`, state: 'late' };
  }
  if (!isSeen) return { text: `${which}: waiting until its spec is seen`, state: 'under way' };
  return { text: `${which}: ${counts}${paused ? '; it is paused' : ''}`, state: 'under way' };
}

async function setsOf({ control, key }: Subject, { metadata }: MachineDeployment): Promise<MachineSet[]> {
  const { items } = await control.list(machineSets, { namespace: key.namespace });
  return items.filter((set) => controllerOf(set) === metadata.uid).toSorted((a, b) => revisionOf(a) - revisionOf(b));
}

async function history(subject: Subject, deployment: MachineDeployment): Promise<string> {
  const sets = await setsOf(subject, deployment);
  if (sets.length === 0) return 'there is no revision yet';
  const rows = sets.map((set) => [
    String(revisionOf(set)),
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
  return all.map((row) => line(row).trimEnd()).join('\n');
}

async function setPaused({ control, key }: Subject, { spec }: MachineDeployment, paused: boolean): Promise<string> {
  const which = `MachineDeployment ${key.namespace}/${key.name}`;
  if ((spec?.paused === true) === paused) throw new Error(`${which} is ${paused ? 'paused already' : 'not paused'}`);
  await control.patch(machineDeployments, key, mergePatch({ spec: { paused } }));
  return `${which}: ${paused ? 'paused' : 'resumed'}`;
}

/** As kubectl: a change that would not begin before it is resumed is refused. */
function refusePaused({ key }: Subject, { spec }: MachineDeployment): void {
  if (spec?.paused !== true) return;
  const fix = `first millwright rollout resume ${key.name} -n ${key.namespace}`;
  throw new Error(`MachineDeployment ${key.namespace}/${key.name} is paused: ${fix}`);
}

async function undo(subject: Subject, deployment: MachineDeployment): Promise<string> {
  refusePaused(subject, deployment);
  const { control, key, options } = subject;
  const which = `MachineDeployment ${key.namespace}/${key.name}`;
  const sets = await setsOf(subject, deployment);
  const wanted = options.toRevision;
  const set = wanted === 0 ? sets.at(-2) : sets.find((each) => revisionOf(each) === wanted);
  if (set?.spec?.template === undefined) {
    const known = sets.map(revisionOf).join(', ') || 'none';
    const lacking = wanted === 0 ? 'no revision before its present one' : `no revision ${wanted}`;
    throw new Error(`${which} has ${lacking}: there is ${known}, see millwright rollout history ${key.name}`);
  }
  const template = withoutHash(set.spec.template);
  if (templatesEqual(template, deployment.spec?.template)) {
    return `${which}: nothing to do, revision ${revisionOf(set)} has its present template`;
  }
  // Whoever has changed it meanwhile wins: the template is replaced as a whole.
  const operations: JsonPatchOperation[] = [
    { op: 'test', path: '/metadata/resourceVersion', value: deployment.metadata.resourceVersion },
    { op: 'replace', path: '/spec/template', value: template },
  ];
  await control.patch(machineDeployments, key, jsonPatch(operations));
  return `${which}: rolled back to the template of revision ${revisionOf(set)}`;
}

/** A set's template has its hash among the labels, a deployment's has not. */
function withoutHash(template: MachineTemplate): MachineTemplate {
  const { [labels.templateHash]: _, ...own } = template.metadata?.labels ?? {};
  return { ...template, metadata: { ...template.metadata, labels: own } };
}

async function restart(subject: Subject, deployment: MachineDeployment): Promise<string> {
  refusePaused(subject, deployment);
  const { control, key } = subject;
  const annotations = { [names.restartedAt]: new Date().toISOString() };
  await control.patch(machineDeployments, key, mergePatch({ spec: { template: { metadata: { annotations } } } }));
  return `MachineDeployment ${key.namespace}/${key.name}: restarted, all its machines are replaced`;
}

/** Tells the rollout and every machine that does not run, or is on its way out. */
async function retry(subject: Subject, deployment: MachineDeployment): Promise<string> {
  const { control, key, options } = subject;
  const { items } = await control.list(machines, { namespace: key.namespace });
  const bySet = groupByController(items);
  const holding = (await setsOf(subject, deployment))
    .flatMap((set) => bySet.get(set.metadata.uid) ?? [])
    .filter((machine) => !isActive(machine) || !isAvailable(machine));
  const server = temporalServer(options);
  const connection = await connectClient(server);
  try {
    const client = new Client({ connection, namespace: server.namespace });
    const to = { client, name: options.installation ?? options.namespace };
    const tell = (kind: WorkflowKind, { name, uid }: { name: string; uid: string }) => {
      const ref: ObjectRef = { dialect: 'gardener', namespace: key.namespace, name, uid };
      return retryNow(to, kind, ref);
    };
    let told = 0;
    for (const { metadata } of holding) if (await tell('Machine', metadata)) told++;
    const isOpen = await tell('MachineDeployment', deployment.metadata);
    if (!isOpen && told === 0) return `MachineDeployment ${key.namespace}/${key.name}: nothing waits`;
    return `MachineDeployment ${key.namespace}/${key.name}: the rollout and ${told} machine${told === 1 ? '' : 's'} try again now`;
  } finally {
    await connection.close();
  }
}
