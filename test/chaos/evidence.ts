/** What is known from outside when a run is over. */
import { createReadStream } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import { labels } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets } from '../../api/gardener/resources.ts';
import { names, searchAttributes } from '../../api/names.ts';
import { tokenNamespace } from '../../api/rights.ts';
import type { SimulatedResource, SimulatedVm } from '../../deploy/local/simulated-cloud/admin.ts';
import type { CallRecord } from '../../deploy/local/simulated-cloud/state.ts';
import { events, nodes, secrets } from '../../kube/core.ts';
import { fetchHistory } from '../../temporal/fetch-history.ts';
import { readable } from '../../temporal/history.ts';
import { replayRuns } from '../../temporal/replay.ts';
import type { BoundObservation, NodeObservation, Observation, OwnerObservation } from './observer.ts';
import type { Ending } from './process.ts';
import { agents, type Disturbance, type NamedMachine, namespace, untouched, type World } from './world.ts';

/** A VM that was ever created, as far as checks ask. */
export type EvidentVm = Pick<SimulatedVm, 'id' | 'name' | 'tags' | 'token' | 'createdAt' | 'deletedAt' | 'vanishesAt'>;

/** A request that an API server has answered: a deletion, or a patch by people or of a Machine. */
export interface AuditEntry {
  /** RFC 3339. */
  readonly at: string;
  readonly verb: string;
  readonly resource: string;
  readonly name: string;
  readonly userAgent: string;
  readonly code: number;
}

/** A Machine, as far as checks ask. */
export interface EvidentMachine {
  readonly uid: string;
  readonly name: string;
  readonly providerID: string | undefined;
}

/** A bootstrap token that is there when a run is over. */
export interface EvidentToken {
  readonly name: string;
  readonly machineUid: string;
  /** RFC 3339. */
  readonly createdAt: string;
}

/** What came of the replay of a run. Times are RFC 3339. */
export interface Replayed {
  /** `<workflow id> <run id>` */
  readonly run: string;
  readonly startedAt: string;
  /** Left out while the run is open. */
  readonly closedAt?: string | undefined;
  /** Left out where the code does the same again. */
  readonly difference?: string | undefined;
  /** Temporal refuses the replay: it compares less than `difference` does. */
  readonly isRefused?: true;
}

export interface Evidence {
  /** When it was collected, RFC 3339. */
  readonly endedAt: string;
  /** All that ever were, oldest first. */
  readonly vms: readonly EvidentVm[];
  readonly calls: readonly Pick<CallRecord, 'at' | 'endedAt' | 'operation' | 'vm' | 'token' | 'outcome' | 'effect'>[];
  readonly resources: readonly SimulatedResource[];
  readonly audit: readonly AuditEntry[];
  /** Ids of what a person has approved at the brake of a sweep. */
  readonly approved: readonly string[];
  readonly named: readonly NamedMachine[];
  /** What belongs to somebody else, before the first act and at the end: in JSON, by what it is. */
  readonly strangersBefore: Readonly<Record<string, string>>;
  readonly strangersAfter: Readonly<Record<string, string>>;
  readonly observations: readonly Observation[];
  /** Of each Node its changes, oldest first. */
  readonly nodeObservations: readonly NodeObservation[];
  /** Of each MachineDeployment its changes, oldest first. */
  readonly bounds: readonly BoundObservation[];
  /** Of each MachineSet its changes, oldest first. */
  readonly owners: readonly OwnerObservation[];
  readonly machines: readonly EvidentMachine[];
  readonly tokens: readonly EvidentToken[];
  /** Machines that nobody touches, as they were before the first act. */
  readonly untouchedBefore: readonly EvidentMachine[];
  readonly disturbances: readonly Disturbance[];
  /** When Temporal was restored, ms since 1970. */
  readonly restores: readonly number[];
  readonly endings: readonly Ending[];
  /** By process. */
  readonly logs: Readonly<Record<string, string>>;
  /** Histories and objects, by what they are. */
  readonly texts: Readonly<Record<string, string>>;
  readonly secrets: readonly string[];
  readonly replays: readonly Replayed[];
}

/** Machines as checks take them. */
export async function readMachines({ machinesNow }: World) {
  return (await machinesNow()).map(({ metadata, spec }) => ({
    ...{ uid: metadata.uid, name: metadata.name, providerID: spec?.providerID },
    isUntouched: metadata.labels?.[labels.name] === untouched,
  }));
}

/** Asks the cloud, the API server, Temporal and the processes. Writes logs and histories to the folder of the run. */
export async function collect(world: World, untouchedBefore: readonly EvidentMachine[]): Promise<Evidence> {
  const { approved, auditLog, cloud, control, credentials, disturbances, observer, processes, secretOf } = world;
  const { named, strangers } = world;
  const endedAt = new Date().toISOString();
  const vms = await cloud.vms({ all: true });
  const logs = Object.fromEntries(processes.map(({ name, logs: read }) => [name, read()]));
  for (const [name, log] of Object.entries(logs)) await writeFile(join(world.dir, `${name}.log`), log);
  const objects = {
    Machines: await world.machinesNow(),
    MachineSets: (await control.list(machineSets, { namespace })).items,
    MachineDeployments: (await control.list(machineDeployments, { namespace })).items,
    Events: (await control.list(events, { namespace })).items,
    Nodes: (await control.list(nodes)).items,
  };
  const histories = await readHistories(world);
  const comments = credentials.map((_, number) => secretOf(number).userData.split('\n')[1] ?? '');
  const bootstrapTokens = vms.flatMap(({ userData }) => /^join \w+\.(\w+)/m.exec(userData)?.[1] ?? []);
  return {
    ...{ endedAt, vms, logs, untouchedBefore, disturbances, approved, named },
    ...{ strangersBefore: strangers.before, strangersAfter: await strangers.read() },
    calls: await cloud.calls(),
    resources: (await cloud.resources()).filter(({ id }) => !strangers.ids.includes(id)),
    audit: await readAudit(auditLog),
    observations: observer.observations,
    nodeObservations: observer.nodeObservations,
    bounds: observer.bounds,
    owners: observer.owners,
    machines: await readMachines(world),
    tokens: (await control.list(secrets, { namespace: tokenNamespace })).items.flatMap(({ metadata }) => {
      const { name, creationTimestamp: createdAt, labels: own } = metadata;
      const machineUid = own?.[names.machineUid];
      return machineUid === undefined ? [] : [{ name, machineUid, createdAt }];
    }),
    restores: disturbances.filter(({ what }) => what === 'restore of temporal').map(({ toMs }) => toMs),
    endings: processes.flatMap(({ endings }) => endings),
    texts: {
      ...Object.fromEntries(Object.entries(objects).map(([kind, items]) => [kind, JSON.stringify(items)])),
      ...Object.fromEntries(histories.map(({ run, text }) => [run, JSON.stringify(readable(text))])),
    },
    secrets: [...credentials, ...comments, ...bootstrapTokens],
    replays: await replayAll(histories),
  };
}

interface ReadHistory extends Replayed {
  /** In JSON, as Temporal writes it. */
  readonly text: string;
}

/** Replays all runs that Temporal has, and writes their histories to the folder of the world. */
export async function replayHistories(world: World): Promise<Replayed[]> {
  return replayAll(await readHistories(world));
}

async function readHistories({ dir, temporal }: World): Promise<ReadHistory[]> {
  await mkdir(join(dir, 'histories'), { recursive: true });
  const found: ReadHistory[] = [];
  const query = `${searchAttributes.installation} = '${namespace}'`;
  for await (const { workflowId, runId, startTime, closeTime } of temporal.workflow.list({ query })) {
    const text = await fetchHistory(temporal, workflowId, runId);
    await writeFile(join(dir, 'histories', `${workflowId.replaceAll('/', '-')}-${runId}.json`), text);
    const times = { startedAt: startTime.toISOString(), closedAt: closeTime?.toISOString() };
    found.push({ run: `${workflowId} ${runId}`, text, ...times });
  }
  return found;
}

async function replayAll(histories: readonly ReadHistory[]): Promise<Replayed[]> {
  const reports = await replayRuns(histories.map(({ text, run: source }) => ({ text, source })));
  return histories.map(({ run, startedAt, closedAt }, i) => {
    const { same, difference, error } = reports[i]!;
    const { event, recorded, now } = difference ?? {};
    const says = error ?? `event ${event}: ${recorded?.what ?? 'nothing'}, now ${now?.what ?? 'nothing'}`;
    const refused = error !== undefined && { isRefused: true as const };
    return { run, startedAt, closedAt, ...(!same && { difference: says }), ...refused };
  });
}

const AuditLine = z.object({
  verb: z.string(),
  requestReceivedTimestamp: z.string(),
  userAgent: z.string().default(''),
  objectRef: z
    .object({ resource: z.string().default(''), name: z.string().default(''), subresource: z.string().optional() })
    .optional(),
  responseStatus: z.object({ code: z.int().default(0) }).optional(),
});

/**
 * The deletions in an audit log, what people have changed, and the patches of Machines but for their status; not what
 * the API server has confirmed without executing it. A server that was killed may have left half a line.
 */
async function readAudit(file: string): Promise<AuditEntry[]> {
  const found: AuditEntry[] = [];
  for await (const line of createInterface({ input: createReadStream(file) })) {
    if (!/"verb":"(delete|patch)/.test(line) || line.includes('dryRun=All')) continue;
    const { data } = AuditLine.safeParse(parseOrNot(line));
    if (data === undefined) continue;
    const { verb, requestReceivedTimestamp: at, userAgent, objectRef, responseStatus } = data;
    const isOfMachine = objectRef?.resource === 'machines' && objectRef.subresource === undefined;
    if (verb === 'patch' && !userAgent.startsWith(agents.chaos) && !isOfMachine) continue;
    found.push({
      ...{ at, verb, userAgent, resource: objectRef?.resource ?? '', name: objectRef?.name ?? '' },
      code: responseStatus?.code ?? 0,
    });
  }
  return found;
}

function parseOrNot(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
