/** `millwright doctor`: looks at what an installation needs. Changes nothing. */
import { Client, type Connection } from '@temporalio/client';
import type { SweptSource } from '../../../api/model/sweep.ts';
import { clusterRecordName, drainTaskQueue, names, providerTaskQueue } from '../../../api/names.ts';
import { defineResource, type KubeObject, type Resource } from '../../../api/objects.ts';
import {
  controlRules,
  type RightsRole,
  type Rule,
  roles,
  targetRules,
  tokenNamespace,
  tokenRules,
} from '../../../api/rights.ts';
import type { KubeClient } from '../../../kube/client.ts';
import { leases, namespaces, secrets } from '../../../kube/core.ts';
import { isNotFound } from '../../../kube/errors.ts';
import { foreignHolderFinder } from '../../../kube/foreign-holder.ts';
import { findOtherCluster } from '../../../kube/known-cluster.ts';
import { controllersQueue } from '../../../temporal/clusters.ts';
import { connectClient, reasonOf } from '../../../temporal/connection.ts';
import { readKeyUse } from '../../../temporal/key-use.ts';
import { countHeldSweeps, findLastSweep } from '../../../temporal/past-sweeps.ts';
import { providerNames } from '../../../temporal/providers.ts';
import { findSweepState, sweepScheduleId } from '../../../temporal/schedules.ts';
import { lackingSearchAttributes } from '../../../temporal/search-attributes.ts';
import { alivePollers, listPollers, measureClock } from '../../../temporal/task-queues.ts';
import { buildName } from '../../../temporal/version.ts';
import { NegativeAnswer, type RawFlags } from '../../command.ts';
import { commandLine } from '../../command-line.ts';
import { dataConverterOf, readCodecKeys } from '../../data-converter.ts';
import { dialect } from '../../dialect.ts';
import type { clusterFlags, temporalFlags } from '../../flag-groups.ts';
import { accountOf, type Cluster, isOneCluster } from '../../kubeconfig.ts';
import { type Options, UsageError } from '../../options.ts';
import { rendered } from '../../output.ts';
import { connectCluster, hasNoTarget } from '../../servers.ts';
import { sourceProblemOf } from '../../source-problem.ts';
import { temporalServer } from '../../temporal-server.ts';
import { paint, say } from '../../terminal.ts';
import {
  clockFinding,
  codecFindings,
  type Finding,
  findingsText,
  lostFinding,
  ownersFinding,
  providerFinding,
  queueFinding,
  type Remainder,
  type Right,
  retentionFinding,
  rightsFinding,
  searchAttributesFinding,
  serverFinding,
  settingsFinding,
  sweepFinding,
  terminatingFinding,
  versionsFinding,
} from './findings.ts';

type DoctorOptions = Options<
  'namespace' | 'installation' | 'output' | (typeof clusterFlags | typeof temporalFlags)[number]
>;

/** By mark. */
const colours = { '✓': 'green', '!': 'yellow', '✗': 'red' } as const;

/** Prints all findings. Throws NegativeAnswer when one of them is a problem. */
export async function doctor(options: DoctorOptions, rawFlags: RawFlags): Promise<void> {
  const findings = await find(options, rawFlags);
  const inColour = (text: string) =>
    text.replace(/^[✓!✗](?= )/gm, (mark) => paint(colours[mark as keyof typeof colours], mark));
  say(
    rendered(findings, options, () => findingsText(findings)),
    inColour,
  );
  if (findings.some(({ state }) => state === 'problem')) throw new NegativeAnswer();
}

async function find(options: DoctorOptions, rawFlags: RawFlags): Promise<Finding[]> {
  const isApart = !hasNoTarget(options) && !isOneCluster(options);
  const [control, target, temporal] = await Promise.all([
    reachCluster('control', options),
    isApart ? reachCluster('target', options) : undefined,
    reachTemporal(options),
  ]);
  try {
    const inControl = control.client && (await checkControl(control.client, options, rawFlags));
    const sources = inControl?.sources ?? [];
    const nodes = hasNoTarget(options) ? undefined : ((isApart ? target : control)?.client ?? undefined);
    const inTarget = nodes && (await checkTarget(nodes, options));
    const known = control.client && nodes ? await checkKnown(nodes, control.client, options) : undefined;
    const inTemporal = temporal.server && (await checkQueues(temporal.server, options, sources));
    const lost =
      temporal.server &&
      control.client &&
      (await checkLost(control.client, temporal.server.connection, options, rawFlags));
    const ofCodec = temporal.server && (await checkCodec(temporal.server, options));
    const found = [
      inControl?.inNamespace,
      control.findings,
      inControl?.findings,
      target?.findings,
      inTarget,
      known,
      temporal.findings,
      ofCodec,
      inTemporal,
      lost,
    ];
    return found.flatMap((findings) => findings ?? []);
  } finally {
    await Promise.all([control.client?.close(), target?.client?.close(), temporal.server?.connection.close()]);
  }
}

interface Reached {
  /** Left out where the cluster cannot be reached. */
  readonly client?: KubeClient;
  readonly findings: readonly Finding[];
}

interface ReachedTemporal {
  /** Left out where the server cannot be reached. Its clock is ahead of ours by `aheadMs`. */
  readonly server?: { readonly connection: Connection; readonly aheadMs: number };
  readonly findings: readonly Finding[];
}

async function reachCluster(cluster: 'control' | 'target', options: DoctorOptions): Promise<Reached> {
  const subject = `${cluster} cluster`;
  let aheadMs = 0;
  const onServerTime = (serverMs: number) => {
    aheadMs = serverMs - Date.now();
  };
  try {
    const client = await connectCluster(cluster, options, 'doctor', { onServerTime });
    const { gitVersion } = (await client.getRaw('/version')) as { gitVersion: string };
    const found = serverFinding(subject, 'Kubernetes', gitVersion, `at ${client.server}`);
    return { client, findings: [found, clockFinding(subject, aheadMs)] };
  } catch (error) {
    return { findings: [{ subject, state: 'problem', message: reasonOf(error) }] };
  }
}

/** What the cluster of the Machines has, and the classes of the namespace, whose providers need workers. */
async function checkControl(client: KubeClient, options: DoctorOptions, rawFlags: RawFlags) {
  const { namespace, installation = namespace } = options;
  const names = { election: dialect.policy.leases, record: clusterRecordName(installation) };
  const list = async <T extends KubeObject>(resource: Resource<T>) =>
    (await client.list(resource, { namespace, failFast: true })).items;
  const [inNamespace, rights, crds, leases, owners, sources] = await Promise.all([
    checkNamespace(client, namespace, rawFlags),
    checkRights(client, 'control', options, (role) => rightsOf(controlRules(dialect.kinds, names)[role], namespace)),
    finding('CRDs', () => checkCrds(client)),
    finding('Leases', () => checkLeases(client, namespace)),
    checkOwners(client, namespace),
    dialect.source.list(list).then(
      (listed) => ({ listed, findings: [] }),
      (error: unknown) => ({
        listed: [],
        findings: [problem('classes', `they cannot be listed (${reasonOf(error)})`)],
      }),
    ),
  ]);
  const known = sources.listed.map(({ object }) => object.name);
  const judged = sources.findings.length > 0 ? sources.findings : await checkSources(client, namespace, known);
  return { inNamespace, findings: [rights, crds, leases, ...owners, ...judged], sources: sources.listed };
}

/** What is wrong with the classes of the namespace, and with names of classes in the templates of its deployments. */
async function checkSources(client: KubeClient, namespace: string, known: readonly string[]): Promise<Finding[]> {
  const { kinds, source } = dialect;
  const subject = 'classes';
  try {
    const request = { failFast: true } as const;
    const { items } = await client.list(kinds.deployment, { namespace, ...request });
    const sources = new Set([...known, ...items.flatMap((deployment) => source.nameOf(deployment) ?? [])]);
    const read = await Promise.all([...sources].map((name) => sourceProblemOf(client, namespace, name)));
    const problems = read.flatMap((each) => each ?? []);
    if (problems.length > 0) return problems.map((each) => problem(subject, each));
    return [
      { subject, state: 'ok', message: `nothing is wrong with ${sources.size}, as far as providers have answered` },
    ];
  } catch (error) {
    return [unchecked(subject, error)];
  }
}

/** That the namespace is missing, or what keeps it if it is being deleted; nothing otherwise. */
async function checkNamespace(client: KubeClient, namespace: string, rawFlags: RawFlags): Promise<Finding[]> {
  const answer = await client
    .find(namespaces, { name: namespace }, { failFast: true })
    .then((found) => ({ found }))
    .catch(() => undefined);
  if (answer === undefined) return [];
  const { found } = answer;
  if (found === undefined) {
    const fix = 'correct --namespace, or create it';
    return [{ ...problem('namespace', `${namespace} does not exist in the control cluster`), fix }];
  }
  if (found.metadata.deletionTimestamp === undefined) return [];
  const { kinds, marks } = dialect;
  const stuck = `\`${commandLine(['stuck'], namespace, rawFlags)}\``;
  const dryRun = `\`${commandLine(['sweep', '--dry-run'], namespace, rawFlags)}\``;
  const machinesFix = `${stuck} says what the Machines wait for`;
  const sourcesFix = `the controllers start a sweep that releases classes: ${stuck} says whether it waits, and ${dryRun} what is left in their clouds`;
  const list = async (resource: Resource<KubeObject>, fix: string, finalizer?: string): Promise<Remainder> => {
    const { items } = await client.list(resource, { namespace, failFast: true, metadataOnly: true });
    const held = items.filter(({ metadata }) => finalizer === undefined || metadata.finalizers?.includes(finalizer));
    return { kind: resource.kind, names: held.map(({ metadata }) => metadata.name), fix };
  };
  return [
    await finding('namespace', async () => {
      const left = await Promise.all([
        ...[kinds.machine, kinds.set, kinds.deployment].map((kind) => list(kind, machinesFix)),
        ...(kinds.source === undefined ? [] : [list(kinds.source, sourcesFix)]),
        ...(marks.secretFinalizer === undefined ? [] : [list(secrets, sourcesFix, marks.secretFinalizer)]),
      ]);
      return terminatingFinding(left);
    }),
  ];
}

/** What the account may do in the cluster of the Nodes. */
async function checkTarget(client: KubeClient, options: DoctorOptions): Promise<Finding[]> {
  const forTokens = rightsOf(tokenRules, tokenNamespace).map((right) => ({ ...right, isForTokens: true }));
  const needs = (role: RightsRole) => [...rightsOf(targetRules[role]), ...(role === 'workers' ? forTokens : [])];
  return [await checkRights(client, 'target', options, needs)];
}

/** Whether the Nodes are in the cluster in which they were before. */
async function checkKnown(target: KubeClient, control: KubeClient, options: DoctorOptions): Promise<Finding[]> {
  const { namespace, installation = namespace } = options;
  const subject = 'cluster of the Nodes';
  const check = async (): Promise<Finding> => {
    const other = await findOtherCluster(target, { control, namespace, installation });
    if (other !== undefined) return problem(subject, other);
    const lease = { namespace, name: clusterRecordName(installation) };
    if ((await control.find(leases, lease, { failFast: true })) === undefined) {
      return { subject, state: 'ok', message: 'not remembered yet: the first process that works remembers it' };
    }
    return { subject, state: 'ok', message: 'it is the one that this installation knows' };
  };
  return [await finding(subject, check)];
}

/** Machines and sets whose owner does not exist, as after a restore of objects with their owner references. */
async function checkOwners(client: KubeClient, namespace: string): Promise<Finding[]> {
  const { machine, set, deployment } = dialect.kinds;
  const list = async (resource: Resource<KubeObject>) =>
    (await client.list(resource, { namespace, failFast: true, metadataOnly: true })).items;
  try {
    const owned = [await list(machine), await list(set)] as const; // before their owners: those are older
    const owners = new Set([...owned[1], ...(await list(deployment))].map(({ metadata }) => metadata.uid));
    const isOurs = (kind: string) => kind === set.kind || kind === deployment.kind;
    const isLost = ({ metadata: { deletionTimestamp, ownerReferences = [] } }: KubeObject) =>
      deletionTimestamp === undefined &&
      ownerReferences.some(({ controller, kind, uid }) => controller && isOurs(kind) && !owners.has(uid));
    const namesOf = (objects: readonly KubeObject[]) => objects.filter(isLost).map(({ metadata }) => metadata.name);
    const lost = [
      { kind: machine.kind, names: namesOf(owned[0]) },
      { kind: set.kind, names: namesOf(owned[1]) },
    ];
    return lost.some(({ names }) => names.length > 0) ? [ownersFinding(lost)] : [];
  } catch (error) {
    if (isNotFound(error)) return []; // the CRDs are missing
    return [unchecked('owners', error)];
  }
}

async function checkCrds(client: KubeClient): Promise<Finding> {
  const subject = 'CRDs';
  const kinds = Object.values(dialect.kinds);
  const served = await Promise.all(kinds.map(async (kind) => ({ kind, isServed: await isServed(client, kind) })));
  const lacking = served.filter(({ isServed }) => !isServed).map(({ kind }) => `${kind.plural}.${kind.group}`);
  if (lacking.length === 0) return { subject, state: 'ok', message: 'all are installed' };
  const message = `the control cluster lacks ${lacking.join(', ')}`;
  return { subject, state: 'problem', message, fix: 'kubectl apply -f deploy/crds' };
}

async function isServed(client: KubeClient, { group, version, plural }: Resource<KubeObject>): Promise<boolean> {
  try {
    const path = `/apis/${group}/${version}`;
    const { resources } = (await client.getRaw(path, { failFast: true })) as { resources: { name: string }[] };
    return resources.some(({ name }) => name === plural);
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}

async function checkLeases(client: KubeClient, namespace: string): Promise<Finding> {
  const subject = 'Leases';
  const held = await foreignHolderFinder({ client, namespace, names: dialect.policy.leases, timeoutMs: 5_000 })();
  if (held === undefined) return { subject, state: 'ok', message: 'no other system holds them' };
  const { lease, holder } = held;
  const message = `the Lease ${lease} is held by ${holder}, which is not Millwright: the workers pause`;
  return { subject, state: 'warning', message, fix: 'stop that process if Millwright should work' };
}

/** Whether the account of this command may do all that a process has to. @param needs what a process needs */
async function checkRights(
  client: KubeClient,
  cluster: Cluster,
  options: DoctorOptions,
  needs: (role: RightsRole) => readonly Right[],
): Promise<Finding> {
  const subject = `rights in the ${cluster} cluster`;
  return finding(subject, async () => {
    const answers = new Map<string, Promise<boolean>>();
    const ask = (right: Right) => {
      const question = JSON.stringify(right);
      const answer = answers.get(question) ?? isAllowed(client, right);
      answers.set(question, answer);
      return answer;
    };
    const checked = roles.map(async (role) => {
      const rights = needs(role);
      const allowed = await Promise.all(rights.map(ask));
      return { role, count: rights.length, lacking: rights.filter((_, i) => !allowed[i]) };
    });
    return rightsFinding(subject, accountOf(cluster, options), await Promise.all(checked));
  });
}

/** @param namespace left out: in all */
function rightsOf(rules: readonly Rule[], namespace?: string): Right[] {
  return rules.flatMap(({ apiGroups, resources, resourceNames = [undefined], verbs }) =>
    apiGroups.flatMap((group) =>
      resources.flatMap((resource) =>
        resourceNames.flatMap((name) => verbs.map((verb) => ({ group, resource, name, verb, namespace }))),
      ),
    ),
  );
}

const accessReviews = defineResource<KubeObject & { spec: object; status?: { allowed: boolean } }>({
  group: 'authorization.k8s.io',
  version: 'v1',
  plural: 'selfsubjectaccessreviews',
  kind: 'SelfSubjectAccessReview',
  namespaced: false,
});

async function isAllowed(client: KubeClient, { group, resource, name, verb, namespace }: Right): Promise<boolean> {
  const [plural, subresource] = resource.split('/');
  const resourceAttributes = { group, resource: plural, subresource, name, verb, namespace };
  // A question has no name: the API server refuses one.
  const metadata = {} as { name: string };
  const review = { metadata, spec: { resourceAttributes } };
  const { status } = await client.create(accessReviews, review, { failFast: true });
  return status?.allowed === true;
}

/** The server, if it can be reached, and what the namespace has. */
async function reachTemporal(options: DoctorOptions): Promise<ReachedTemporal> {
  const { address, namespace, ...access } = temporalServer(options);
  let connection: Connection;
  try {
    connection = await connectClient({ address, namespace, ...access });
  } catch (error) {
    return { findings: [problem('Temporal', reasonOf(error))] };
  }
  const { workflowService } = connection;
  const queue = `${options.installation ?? options.namespace}.doctor`;
  const [aheadMs, ...findings] = await Promise.all([
    measureClock(connection, namespace, queue).catch(() => undefined),
    finding('Temporal', async () => {
      const { serverVersion } = await workflowService.getSystemInfo({});
      return serverFinding('Temporal', 'Temporal', serverVersion, `at ${address}, namespace ${namespace}`);
    }),
    finding('retention', async () => {
      const { config } = await workflowService.describeNamespace({ namespace });
      return retentionFinding(Number(config?.workflowExecutionRetentionTtl?.seconds ?? 0), namespace);
    }),
    finding('search attributes', async () => {
      return searchAttributesFinding(await lackingSearchAttributes(connection, namespace), namespace);
    }),
  ]);
  const clock =
    aheadMs === undefined ? unchecked('clock', 'Temporal noted no poll within 2 s') : clockFinding('Temporal', aheadMs);
  return { server: { connection, aheadMs: aheadMs ?? 0 }, findings: [...findings, clock] };
}

/** How many open workflows are looked at: any of them may need a key that is missing. */
const maxOpen = 20;

/** Whether the keys are there that open workflows need. */
async function checkCodec(
  { connection }: NonNullable<ReachedTemporal['server']>,
  options: DoctorOptions,
): Promise<readonly Finding[]> {
  const { installation: name = options.namespace, temporalCodecKeys: folder } = options;
  const subject = 'codec';
  try {
    const keys = folder === undefined ? undefined : readCodecKeys(folder);
    const { namespace } = temporalServer(options);
    const client = new Client({ connection, namespace, dataConverter: dataConverterOf(options) });
    return codecFindings(keys, await readKeyUse({ client, name }, maxOpen));
  } catch (error) {
    return [error instanceof UsageError ? problem(subject, error.message) : unchecked(subject, error)];
  }
}

/** Classes that have lost a Machine which no sweep has looked for; nothing where there are none. */
async function checkLost(
  control: KubeClient,
  connection: Connection,
  options: DoctorOptions,
  rawFlags: RawFlags,
): Promise<Finding[]> {
  const { namespace, installation: name = namespace } = options;
  const { source } = dialect.kinds;
  if (source === undefined) return [];
  try {
    const { items } = await control.list(source, { namespace, failFast: true, metadataOnly: true });
    const noted = items.flatMap(({ metadata }) => {
      const at = metadata.annotations?.[names.lostMachine];
      return at === undefined ? [] : [{ name: metadata.name, atMs: Date.parse(at) }];
    });
    if (noted.length === 0) return [];
    const dataConverter = dataConverterOf(options);
    const client = new Client({ connection, namespace: temporalServer(options).namespace, dataConverter });
    const { startedMs = 0, unlisted = [] } = (await findLastSweep({ client, name })) ?? {};
    const lost = noted.filter((each) => each.atMs > startedMs || unlisted.includes(each.name)).map((each) => each.name);
    if (lost.length === 0) return [];
    const sweep = commandLine(['sweep'], namespace, rawFlags);
    const next = (await findSweepState(client, name))?.next;
    return [lostFinding(lost, next, await countHeldSweeps({ client, name }), sweep)];
  } catch (error) {
    if (isNotFound(error)) return []; // the CRDs are missing
    return [unchecked('lost machines', error)];
  }
}

/** Whether somebody works on the queues of the installation and of the providers that its classes name. */
async function checkQueues(
  { connection, aheadMs }: NonNullable<ReachedTemporal['server']>,
  options: DoctorOptions,
  sources: readonly SweptSource[],
) {
  const { namespace } = temporalServer(options);
  const installation = options.installation ?? options.namespace;
  const poll = async (queue: string, kind: 'workflow' | 'activity') =>
    alivePollers(await listPollers(connection, namespace, queue, kind), Date.now() + aheadMs);
  const correct = 'correct --namespace, --installation or --temporal-namespace';
  const worker = `start \`millwright run\` or \`millwright worker\`, or ${correct}`;
  const controllers = `start \`millwright run\` or \`millwright controllers\`, or ${correct}`;
  const listProcesses = async () => {
    const queues = [controllersQueue(installation), installation];
    const [controllers = [], workers = []] = await Promise.all(queues.map((queue) => poll(queue, 'workflow')));
    return { controllers, workers };
  };
  const processes = listProcesses();
  // A class without one is a problem of its own.
  const named = sources.filter(({ provider }) => provider !== '');
  const providers = Map.groupBy(named, ({ provider }) => provider);
  return Promise.all([
    finding('controllers', async () => {
      const pollers = await poll(controllersQueue(installation), 'workflow');
      return queueFinding({ subject: 'controllers', serves: 'new and changed objects', fix: controllers, pollers });
    }),
    finding('workflows', async () => {
      const pollers = await poll(installation, 'workflow');
      return queueFinding({ subject: 'workflows', serves: 'all machines and rollouts', fix: worker, pollers });
    }),
    finding('versions', async () => versionsFinding(buildName(), await processes)),
    finding('settings', async () =>
      settingsFinding(buildName(), await processes, options.temporalCodecKeys !== undefined),
    ),
    finding('drains', async () => {
      const pollers = await poll(drainTaskQueue(installation), 'activity');
      return queueFinding({ subject: 'drains', serves: 'machines that are deleted', fix: worker, pollers });
    }),
    finding('orphan sweep', async () => {
      const client = new Client({ connection, namespace, dataConverter: dataConverterOf(options) });
      const waiting = await countHeldSweeps({ client, name: installation });
      const state = await findSweepState(client, installation);
      return sweepFinding(state, waiting, sweepScheduleId(installation), namespace);
    }),
    ...[...providers].map(([provider, of]) =>
      finding(`provider ${provider}`, async () => {
        const pollers = await poll(providerTaskQueue(installation, provider), 'activity');
        return providerFinding(
          provider,
          of.map(({ object }) => object.name),
          pollers,
          providerNames,
          Date.now() + aheadMs,
        );
      }),
    ),
  ]);
}

/** The result of a check; one that fails is a finding as well. */
async function finding(subject: string, look: () => Promise<Finding>): Promise<Finding> {
  try {
    return await look();
  } catch (error) {
    return unchecked(subject, error);
  }
}

function unchecked(subject: string, error: unknown): Finding {
  return { subject, state: 'warning', message: `it could not be checked (${reasonOf(error)})` };
}

function problem(subject: string, message: string): Finding {
  return { subject, state: 'problem', message };
}
