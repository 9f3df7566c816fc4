/** What is being done with an object: as its workflow says, and as the object itself does when no workflow answers. */
import { Client } from '@temporalio/client';
import { attention } from '../api/attention.ts';
import type { Machine } from '../api/gardener/machine.ts';
import type { MachineDeployment } from '../api/gardener/machine-deployment.ts';
import type { MachineSet } from '../api/gardener/machine-set.ts';
import { labels } from '../api/gardener/names.ts';
import { toldProblem } from '../api/gardener/problem.ts';
import { toMachineSnapshot } from '../api/gardener/to-model.ts';
import type { ObjectRef } from '../api/model.ts';
import { blockers } from '../api/names.ts';
import type { KubeClient } from '../kube/client.ts';
import { machineDeployments, machineSets, machines } from '../kube/gardener.ts';
import { connectClient } from '../temporal/connection.ts';
import {
  describeWorkflow,
  type MachineDescription,
  type OwnerDescription,
  openOnly,
  type WorkflowAnswer,
} from '../temporal/describe.ts';
import { type WorkflowKind, workflowId } from '../temporal/workflows.ts';
import type { clusterFlags, temporalFlags } from './flags.ts';
import type { Options } from './options.ts';
import { connectCluster, temporalServer } from './servers.ts';

type DescribeOptions = Options<
  'namespace' | 'installation' | 'output' | (typeof clusterFlags)[number] | (typeof temporalFlags)[number]
>;
type Owner = MachineDeployment | MachineSet;
type LastError = NonNullable<(MachineDescription | OwnerDescription)['lastError']>;
/** An object, and what it says by itself. */
interface Subject {
  readonly object: Machine | Owner;
  /** What its workflow knows better. */
  readonly rows: Rows;
  /** What its workflow does not tell. */
  readonly failed: Rows;
  /** What it means that it has no open workflow. */
  readonly whyNone: string;
}
type Rows = readonly (readonly [name: string, value: string | undefined])[];

/** What `millwright describe` prints. Throws an Error when there is no such object, or its cluster does not answer. */
export async function describe(kind: WorkflowKind, name: string, options: DescribeOptions): Promise<string> {
  const { namespace, output } = options;
  const { object, rows, failed, whyNone } = await read(kind, name, options);
  const { uid } = object.metadata;
  const id = workflowIdOf(kind, object, options);
  const answer = await ask(id, options);
  const { state, description, reason, retries } = { description: undefined, reason: undefined, retries: [], ...answer };
  if (output === 'json') {
    const workflow = { id, state, reason, retries };
    return JSON.stringify({ kind, namespace, name, uid, workflow, description, status: object.status }, null, 2);
  }
  return toText([
    [kind, `${namespace}/${name}`],
    ['Workflow', `${id}${aboutWorkflow(answer, whyNone)}`],
    ...(description === undefined ? rows : rowsOfDescription(description)),
    ...retries.map(
      ({ activity, attempt, failure }) => ['Retrying', `${activity}, try ${attempt}, after ${failure}`] as const,
    ),
    ...failed,
  ]);
}

async function read(kind: WorkflowKind, name: string, options: DescribeOptions): Promise<Subject> {
  const { namespace } = options;
  const control = await connectCluster('control', options, 'describe');
  try {
    const subject = await find(control, kind, { namespace, name });
    if (subject !== undefined) return subject;
  } finally {
    await control.close();
  }
  throw new Error(
    `${kind} ${namespace}/${name} does not exist in the control cluster: correct the name or --namespace`,
  );
}

async function find(
  control: KubeClient,
  kind: WorkflowKind,
  key: { namespace: string; name: string },
): Promise<Subject | undefined> {
  if (kind === 'Machine') {
    const machine = await control.find(machines, key);
    return machine && { object: machine, rows: rowsOfMachine(machine), failed: [], whyNone: whyNoneOf(machine) };
  }
  const owner = await control.find<Owner>(kind === 'MachineSet' ? machineSets : machineDeployments, key);
  const whyNone = 'nothing has to be done';
  return owner && { object: owner, rows: rowsOfOwner(owner), failed: rowsOfFailed(owner), whyNone };
}

/** Of a machine at rest nobody misses the workflow that somebody has terminated. */
function whyNoneOf(machine: Machine): string {
  const noLimits = { creationSeconds: 0, drainSeconds: 0, maxEvictRetries: 0, nodeConditions: [] };
  const isAtRest = attention(toMachineSnapshot(machine, noLimits), { state: 'unknown' }).length === 0;
  return isAtRest
    ? 'the Machine is at rest, and one is started when something has to be done'
    : 'do the controllers run?';
}

/** A set of a deployment is looked after by the workflow of the deployment. */
function workflowIdOf(kind: WorkflowKind, { metadata }: Machine | Owner, options: DescribeOptions): string {
  const { namespace, installation = namespace } = options;
  const ref = ({ name, uid }: { name: string; uid: string }): ObjectRef => ({
    dialect: 'gardener',
    namespace,
    name,
    uid,
  });
  const deployment = metadata.ownerReferences?.find((owner) => owner.kind === 'MachineDeployment' && owner.controller);
  if (kind === 'MachineSet' && deployment) return workflowId(installation, 'MachineDeployment', ref(deployment));
  return workflowId(installation, kind, ref(metadata));
}

type Answer = WorkflowAnswer<MachineDescription | OwnerDescription>;

async function ask(id: string, options: DescribeOptions): Promise<Answer> {
  const server = temporalServer(options);
  try {
    const connection = await connectClient(server);
    try {
      return await describeWorkflow(new Client({ connection, namespace: server.namespace, ...openOnly }), id);
    } finally {
      await connection.close();
    }
  } catch (error) {
    return { state: 'silent', reason: error instanceof Error ? error.message : String(error) };
  }
}

function aboutWorkflow(answer: Answer, whyNone: string): string {
  switch (answer.state) {
    case 'open':
      return '';
    case 'none':
      return `, not open: ${whyNone}`;
    case 'silent':
      return `, no answer (${answer.reason}): does a worker run?`;
  }
}

function rowsOfDescription(description: MachineDescription | OwnerDescription): Rows {
  const { doing, since, lastError } = description;
  const error = lastError && errorText(lastError);
  if ('replicas' in description) {
    const { desired, total, active, available } = description.replicas;
    return [
      ['Doing', `${doing}, since ${since}`],
      ['Needs', description.needs.join(', ') || 'nothing'],
      ['Machines', `${desired} desired, ${total} existing, ${active} active, ${available} available`],
      ...rowsOfRollout(description),
      ['Last error', error],
    ];
  }
  const { phase, waitingFor, until, blockedOn, unblock, providerID, nodeName } = description;
  return [
    ['Phase', phase || '(new)'],
    ['Doing', `${doing}, since ${since}`],
    ['Waiting for', waitingFor && `${waitingFor}${until === undefined ? '' : `, until ${until}`}`],
    ['Blocked on', blockedOn && `${blockedOn}: ${blockers[blockedOn]}`],
    ['Last error', error],
    ['To unblock', unblock],
    ['Provider ID', providerID],
    ['Node', nodeName],
  ];
}

/** How a rollout moves on, and what holds it up once it is late. */
function rowsOfRollout({ progressAt, deadline, blockedOn, heldUpBy }: OwnerDescription): Rows {
  const { count = 0, machines: named = [], problem } = heldUpBy ?? {};
  const more = count - named.length;
  return [
    ['Progress', progressAt && `last at ${progressAt}; too late from ${deadline} on`],
    ['Blocked on', blockedOn && `${blockedOn}: ${blockers[blockedOn]}`],
    ['Held up by', problem],
    ...named.map(({ name, reason }) => ['Held up by', `${name}: ${reason}`] as const),
    ['Held up by', more > 0 ? `${more} more` : undefined],
  ];
}

function errorText({ code, message, at, ...rest }: LastError): string {
  const often = 'times' in rest && rest.times > 1 ? ` (${rest.times} times since ${rest.since})` : '';
  return `${code} at ${at}${often}: ${message}`;
}

function rowsOfMachine({ metadata, spec, status }: Machine): Rows {
  const { lastOperation: last, currentStatus } = status ?? {};
  return [
    ['Phase', `${currentStatus?.phase || '(new)'}${sinceText(currentStatus?.lastUpdateTime)}`],
    ['Deleted', metadata.deletionTimestamp],
    ['Last operation', last && `${last.type} ${last.state}${sinceText(last.lastUpdateTime)}: ${last.description}`],
    ['Provider ID', spec?.providerID],
    ['Node', metadata.labels?.[labels.node]],
  ];
}

function rowsOfOwner(owner: Owner): Rows {
  const { metadata, spec, status } = owner;
  const { replicas = 0, availableReplicas = 0 } = status ?? {};
  return [
    ['Deleted', metadata.deletionTimestamp],
    ['Not valid', toldProblem(owner)],
    ['Machines', `${spec?.replicas ?? 0} desired, ${replicas} existing, ${availableReplicas} available`],
  ];
}

function rowsOfFailed({ status }: Owner): Rows {
  const { failedMachines = [] } = status ?? {};
  return failedMachines.map(({ name, lastOperation }) => ['Failed', `${name}: ${lastOperation?.description}`]);
}

function sinceText(time: string | undefined): string {
  return time === undefined ? '' : `, since ${time}`;
}

/** Rows without a value are left out. */
function toText(rows: Rows): string {
  const shown = rows.filter(([, value]) => value);
  const width = Math.max(...shown.map(([name]) => name.length));
  return shown.map(([name, value]) => `${name.padEnd(width)}  ${value}`).join('\n');
}
