/** What is being done with an object: as its workflow says, and as the object itself does when no workflow answers. */
import { Client } from '@temporalio/client';
import { attention } from '../../../api/attention.ts';
import { toMachineSnapshot } from '../../../api/gardener/machine/snapshot.ts';
import { labels } from '../../../api/gardener/names.ts';
import { operationText } from '../../../api/gardener/owner.ts';
import { machineDeployments, machineSets, machines } from '../../../api/gardener/resources.ts';
import type { Machine } from '../../../api/gardener/schema/machine.ts';
import type { MachineDeployment } from '../../../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../../../api/gardener/schema/machine-set.ts';
import type { ObjectRef } from '../../../api/model/ref.ts';
import { blockers } from '../../../api/names.ts';
import { toTasks } from '../../../api/owner/needs.ts';
import type { KubeClient } from '../../../kube/client.ts';
import { connectClient } from '../../../temporal/connection.ts';
import {
  describeWorkflow,
  type MachineDescription,
  type OwnerDescription,
  openOnly,
  type WorkflowAnswer,
} from '../../../temporal/describe.ts';
import { type WorkflowKind, workflowId } from '../../../temporal/workflows.ts';
import type { Given } from '../../command.ts';
import type { clusterFlags, temporalFlags } from '../../flags.ts';
import type { Options } from '../../options.ts';
import { connectCluster, temporalServer } from '../../servers.ts';
import { countsOf, heldUpLines, type OwnerState, readDeploymentState, readSetState } from '../owner-state.ts';
import { type RolloutAction, rolloutLine } from '../rollout/command.ts';

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
  /** What its workflow does not tell, or as it was when it looked last. */
  readonly live: Rows;
  /** What it means that it has no open workflow. */
  readonly whyNone: string;
  /** Of a deployment, and of a set that has none. */
  readonly state?: OwnerState;
}
type Rows = readonly (readonly [name: string, value: string | undefined])[];

/** What `millwright describe` prints. Throws an Error when there is no such object, or its cluster does not answer. */
export async function describe(
  kind: WorkflowKind,
  name: string,
  options: DescribeOptions,
  given: Given,
): Promise<string> {
  const { namespace, output } = options;
  const { object, rows, live, whyNone, state: now } = await read(kind, name, options, given);
  const { uid } = object.metadata;
  const id = workflowIdOf(kind, object, options);
  const answer = await ask(id, options);
  const { state, description, reason, retries } = { description: undefined, reason: undefined, retries: [], ...answer };
  if (output === 'json') {
    const workflow = { id, state, reason, retries };
    const { waitsFor, blockedBy } = now ?? {};
    const answered = { kind, namespace, name, uid, workflow, description, waitsFor, blockedBy, status: object.status };
    return JSON.stringify(answered, null, 2);
  }
  return toText([
    [kind, `${namespace}/${name}`],
    ['Workflow', `${id}${aboutWorkflow(answer, whyNone)}`],
    ...(description === undefined ? rows : rowsOfDescription(description)),
    ...retries.map(
      ({ activity, attempt, failure }) => ['Retrying', `${activity}, try ${attempt}, after ${failure}`] as const,
    ),
    ...live,
  ]);
}

async function read(kind: WorkflowKind, name: string, options: DescribeOptions, given: Given): Promise<Subject> {
  const { namespace } = options;
  const control = await connectCluster('control', options, 'describe');
  try {
    const subject = await find(control, kind, { namespace, name }, given);
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
  given: Given,
): Promise<Subject | undefined> {
  if (kind === 'Machine') {
    const machine = await control.find(machines, key);
    return machine && { object: machine, rows: rowsOfMachine(machine), live: [], whyNone: whyNoneOf(machine) };
  }
  if (kind === 'MachineDeployment') {
    const deployment = await control.find(machineDeployments, key);
    return deployment && ownerSubject(deployment, await readDeploymentState(control, deployment), given);
  }
  const set = await control.find(machineSets, key);
  if (set === undefined) return undefined;
  if (!deploymentOf(set)) return ownerSubject(set, await readSetState(control, set), given);
  return { object: set, rows: rowsOfSet(set), live: rowsOfFailed(set), whyNone: 'nothing has to be done' };
}

function ownerSubject(object: Owner, state: OwnerState, given: Given): Subject {
  const rows: Rows = [
    ['Deleted', object.metadata.deletionTimestamp],
    ['Not valid', state.view.problem],
    ['To do', toTasks(state.needs)],
  ];
  const rest = state.view.paused ? 'nothing has to be done while it is paused' : 'nothing has to be done';
  const whyNone = state.needs.length === 0 ? rest : isDue;
  return { object, rows, live: rowsOfState(object, state, given), whyNone, state };
}

/** Of a workflow that nobody has started yet, or that somebody has terminated. */
const isDue = 'one is started within a minute, if the controllers run';

/** Of a machine at rest nobody misses the workflow that somebody has terminated. */
function whyNoneOf(machine: Machine): string {
  const noLimits = { creationSeconds: 0, drainSeconds: 0, maxEvictRetries: 0, nodeConditions: [] };
  const isAtRest = attention(toMachineSnapshot(machine, noLimits), { state: 'unknown' }).length === 0;
  return isAtRest ? 'the Machine is at rest, and one is started when something has to be done' : isDue;
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
  const deployment = deploymentOf({ metadata });
  if (kind === 'MachineSet' && deployment) return workflowId(installation, 'MachineDeployment', ref(deployment));
  return workflowId(installation, kind, ref(metadata));
}

function deploymentOf({ metadata }: Pick<Machine | Owner, 'metadata'>) {
  return metadata.ownerReferences?.find((owner) => owner.kind === 'MachineDeployment' && owner.controller);
}

type Answer =
  | WorkflowAnswer<MachineDescription | OwnerDescription>
  /** Temporal could not be asked. */
  | { readonly state: 'unreachable'; readonly reason: string };

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
    return { state: 'unreachable', reason: error instanceof Error ? error.message : String(error) };
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
    case 'unreachable':
      return `, not asked: ${answer.reason}`;
  }
}

function rowsOfDescription(description: MachineDescription | OwnerDescription): Rows {
  const { doing, since, lastError, failedRun } = description;
  const error = lastError && errorText(lastError);
  const lastFailedRun =
    failedRun && `at ${failedRun.at} (${failedRun.reason}: ${failedRun.message}); a new run took over`;
  if ('replicas' in description) {
    const { needs, progressAt, deadline, blockedOn } = description;
    return [
      ['Doing', `${doing}, since ${since}`],
      ['To do', toTasks(needs)],
      ['Progress', progressAt && `last at ${progressAt}; too late from ${deadline} on`],
      ['Blocked on', blockedOn && `${blockedOn}: ${blockers[blockedOn]}`],
      ['Last error', error],
      ['Last failed run', lastFailedRun],
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
    ['Last failed run', lastFailedRun],
  ];
}

/** How many machines an owner has now, what it waits for and what would help. */
function rowsOfState(owner: Owner, state: OwnerState, given: Given): Rows {
  const { view, needs, waitsFor, blockedBy } = state;
  const { namespace = '', name } = owner.metadata;
  const { total, older, active, available } = countsOf(state);
  const counts = `${view.replicas} desired, ${total} existing, ${active} active, ${available} available`;
  const isWaiting = needs.length > 0 || blockedBy !== undefined || (view.paused && older > 0);
  const lineOf = (action: RolloutAction) => rolloutLine(action, { namespace, name }, given);
  const resume = view.paused && older > 0 ? lineOf('resume') : undefined;
  const retry = `once the cause is away: ${lineOf('retry')}`;
  const named = new Set(blockedBy?.machines.map((machine) => machine.name));
  return [
    ['Machines', older > 0 ? `${counts}, ${older} of older templates` : counts],
    ['Waiting for', isWaiting ? waitsFor : undefined],
    ...(blockedBy === undefined ? [] : heldUpLines(blockedBy).map((line) => ['Held up by', line] as const)),
    ['To unblock', resume ?? (view.progress === 'late' ? retry : undefined)],
    ...rowsOfFailed(owner, named),
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

/** Of a set that has a deployment, whose workflow looks after it. */
function rowsOfSet({ metadata, spec, status }: MachineSet): Rows {
  const { replicas = 0, availableReplicas = 0 } = status ?? {};
  return [
    ['Deleted', metadata.deletionTimestamp],
    ['Machines', `${spec?.replicas ?? 0} desired, ${replicas} existing, ${availableReplicas} available`],
  ];
}

/** @param named machines that are told of already */
function rowsOfFailed({ status }: Owner, named: ReadonlySet<string | undefined> = new Set()): Rows {
  const failed = (status?.failedMachines ?? []).filter(({ name }) => !named.has(name));
  return failed.map(({ name, lastOperation = {} }) => ['Failed', `${name}: ${operationText(lastOperation)}`]);
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
