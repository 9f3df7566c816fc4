/** An API server that does not keep something of what is written, as with a webhook or a policy that removes it. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { boundary } from '../../activities/boundary.ts';
import { createProvider } from '../../activities/providers/kit/provider.ts';
import { createVmActivities } from '../../activities/providers/serve.ts';
import { simulatedCloud } from '../../activities/providers/simulated/index.ts';
import { annotations, labels } from '../../api/gardener/names.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import { names, searchAttributes } from '../../api/names.ts';
import type { KubeObject, Resource } from '../../api/objects.ts';
import { nextRepeat, type Repeat, repeatedAtMs } from '../../api/repeats.ts';
import { nodes, pods, secrets, volumeAttachments } from '../../kube/core.ts';
import { retryNowSignal } from '../../workflows/messages.ts';
import { isObject, type Json, unexecuted, without } from '../faults/not-kept.ts';
import type { Fault, SeenRequest } from '../faults/proxy.ts';
import { phaseOf } from '../support/installation.ts';
import { beginMs, createMachine, type Row, rows } from '../support/not-kept-rows.ts';
import { serveProvider } from '../support/serve-provider.ts';
import { quickSweeps } from '../support/sweeps.ts';
import { until } from '../support/until.ts';
import { startWatchedInstallation, type WatchedInstallation } from '../support/watched-installation.ts';

let millwright: WatchedInstallation;
let stopProvider: () => Promise<void>;
/** What is not kept, by the name of the row. */
const dropped = new Map<string, Row>();
/** When something was dropped, on the clock of `performance.now()`, by the name of its row. */
const drops = new Map<string, number[]>();
/** From when on the requests of a row are counted, on the same clock. */
const begunMs = new Map<string, number>();
/** What kept a row from being begun. */
const failures = new Map<string, unknown>();
/** Every field that was written, as `<resource> <field>`, and those of them that were not kept once. */
const written = new Set<string>();
const lost = new Set<string>();
/** Names of the Machines for which Secrets were made, by the names of these. */
const machineOf = new Map<string, string>();

const nameOf = (row: string) => `${row}-${millwright.namespace.slice(5)}`;

/** Fields that are written here and have no row, by the reason. */
const others: Readonly<Record<string, readonly string[]>> = {
  'nobody reads it back': [
    `machines metadata.annotations.${names.releasedBy}`,
    ...['machines/status status.currentStatus.timeoutActive', 'machines/status status.lastKnownState'],
    ...['replicas', 'fullyLabeledReplicas', 'readyReplicas', 'failedMachines'].map(
      (field) => `machinesets/status status.${field}`,
    ),
    ...['replicas', 'updatedReplicas', 'readyReplicas', 'unavailableReplicas', 'failedMachines'].map(
      (field) => `machinedeployments/status status.${field}`,
    ),
  ],
  'people read it; the revision, which is written with it, decides': [
    `machinesets metadata.annotations.${annotations.revisionHistory}`,
  ],
  'all sets of a deployment give it the same value': [`machines metadata.labels.${labels.name}`],
  'lost, it lets a template be rolled back again that somebody asks for again, after its progress deadline': [
    `machinedeployments metadata.annotations.${names.rolledBack}`,
  ],
};

const resources = [machineClasses, machineDeployments, machineSets, machines, nodes, pods, secrets, volumeAttachments];

/** What a request is about: the resource with its subresource, and the name of the object or of its Machine. */
function targetOf({ url }: SeenRequest, body?: { readonly metadata?: Partial<KubeObject['metadata']> }) {
  const parts = url.pathname.split('/');
  const at = parts.findIndex((part) => resources.some(({ plural }) => plural === part));
  if (at < 0) return undefined;
  const [resource = '', name = body?.metadata?.name ?? '', subresource] = parts.slice(at);
  if (resource === secrets.plural) {
    const machine = body?.metadata?.annotations?.[names.machine]?.split('/')[1];
    if (machine !== undefined) machineOf.set(name, machine);
  }
  return {
    on: subresource === undefined ? resource : `${resource}/${subresource}`,
    name: machineOf.get(name) ?? name,
  };
}

const pathOf = ({ field, key }: Row) => [...field.split('.'), ...(key === undefined ? [] : [key])];

/** What a field of a body consists of: annotations and labels are fields of their own. */
function partsOf(path: string, value: unknown): string[] {
  const isMap = /^metadata\.(annotations|labels)$|^status\.currentStatus$/.test(path);
  return isMap && isObject(value) ? Object.keys(value).map((key) => `${path}.${key}`) : [path];
}

function fieldsOf(body: Json): string[] {
  return ['metadata', 'spec', 'status', 'stringData'].flatMap((part) => {
    const fields = body[part];
    if (!isObject(fields)) return [];
    if (part === 'stringData') return [part];
    return Object.entries(fields).flatMap(([field, value]) => partsOf(`${part}.${field}`, value));
  });
}

/** What identifies an object or its version. */
const identity = ['name', 'namespace', 'uid', 'resourceVersion'].map((field) => `metadata.${field}`);

const isWrite = ({ method }: SeenRequest) => method !== 'GET';
const wholes: Readonly<Record<string, string>> = { POST: 'create', DELETE: 'delete' };

function drop(request: SeenRequest): Fault | undefined {
  if (!isWrite(request) || targetOf(request) === undefined) return undefined;
  return {
    kind: 'alter',
    body(sent, query) {
      const target = targetOf(request, sent as object);
      if (!isObject(sent) || target === undefined) return sent;
      const whole = wholes[request.method];
      const fields = whole === undefined ? fieldsOf(sent).filter((each) => !identity.includes(each)) : [whole];
      for (const field of fields) written.add(`${target.on} ${field}`);
      const [row = '', given] = [...dropped].find(([each]) => target.name.startsWith(nameOf(each))) ?? [];
      if (given?.on !== target.on) return sent;
      const note = (parts: readonly string[]) => {
        for (const part of parts) lost.add(`${target.on} ${part}`);
        drops.set(row, [...(drops.get(row) ?? []), performance.now()]);
      };
      if (given.field === whole) {
        note([whole]);
        return unexecuted(request, sent, query);
      }
      const path = pathOf(given);
      const found = without(sent, path);
      if (found === undefined) return sent;
      note(partsOf(path.join('.'), found.value));
      return found.left;
    },
  };
}

const requestsOf = (row: string) =>
  millwright.proxy.seen.filter((request) => targetOf(request)?.name.startsWith(nameOf(row)));
const writesOf = (row: string) => requestsOf(row).filter(isWrite);

const minuteMs = 60_000;

/** How often the same is written within a time: a few times at once, and then after the pauses of api/repeats.ts. */
function countTries(timeMs: number): number {
  let repeat: Repeat | undefined;
  for (let times = 0, atMs = 0; ; times++) {
    if (atMs >= timeMs) return times;
    repeat = nextRepeat(repeat, '', atMs, minuteMs);
    atMs = repeatedAtMs(repeat);
  }
}
/**
 * What a machine needs in its life, its deletion included, and what a try needs at most. A deployment needs thrice as
 * much.
 */
const needs = { writes: { life: 15, tried: 3 }, requests: { life: 30, tried: 10 } } as const;
/** Another state starts a new count: a machine joins and then runs; before that a set and its machine are made. */
const triesOf = (row: Row) => countTries(minuteMs) + (row.ofOwner ? 4 : 2) * countTries(1);
const most = (row: Row, what: keyof typeof needs) =>
  (row.ofOwner ? 3 : 1) * needs[what].life + triesOf(row) * needs[what].tried;

/** The simulated cloud, as one whose VMs get the tags of their class that were edited. */
function serveTagging(): Promise<() => Promise<void>> {
  const cloud: typeof simulatedCloud = { ...simulatedCloud, setTags: async () => undefined };
  const provider = createProvider(cloud, {
    async readSecret(ref) {
      const { data = {} } = await millwright.control.get(secrets, ref);
      return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64')]));
    },
  });
  return serveProvider(millwright, 'tagging', createVmActivities(provider), { activity: [boundary] });
}

async function beginRow(row: string, { before, begin = createMachine }: Row): Promise<void> {
  await before?.(millwright, nameOf(row));
  dropped.set(row, rows[row]!);
  begunMs.set(row, performance.now());
  await begin(millwright, nameOf(row));
}

describe('what an API server does not keep', () => {
  let quietSinceMs: number;

  beforeAll(async () => {
    // All machines report and are looked at again at once: more often is too much for two cores.
    const cloud = { statusUpdateMs: 10_000 };
    millwright = await startWatchedInstallation({ cloud, workerFlags: quickSweeps, resyncMs: 5_000 });
    stopProvider = await serveTagging();
    await millwright.cloud.setFaults({ kind: 'capacity', machineType: 'large' });
    const capacity = { cpu: '4', gpu: '0', memory: '8Gi' };
    const virtualCapacity = { 'example.com/slots': 1000 };
    const place = { instanceType: 'small', region: 'here', zone: 'here' };
    await millwright.createClass('virtual', { nodeTemplate: { capacity, virtualCapacity, ...place } });
    const { url: endpoint } = millwright.cloud;
    const tags = { cluster: millwright.namespace };
    await millwright.createClass('sold-out', {
      providerSpec: { endpoint, machineType: 'large', region: 'here', tags },
    });
    millwright.proxy.setRule(drop);
    await Promise.all(
      Object.entries(rows).map(([row, given]) =>
        beginRow(row, given).catch((error: unknown) => failures.set(row, error)),
      ),
    );
    await millwright.untilPhase(
      await createMachine(millwright, nameOf('kept'), { class: { kind: 'MachineClass', name: 'virtual' } }),
      'Running',
      beginMs,
    );
    quietSinceMs = performance.now() + 2_000;
    const begun = Object.keys(rows).filter((row) => !failures.has(row));
    const undropped = () => begun.filter((row) => !drops.has(row));
    await until('everything was dropped once', async (see) => see(undropped()).length === 0, {
      timeoutMs: 2 * minuteMs,
    }).catch((error: unknown) => {
      for (const row of undropped()) failures.set(row, error);
    });
    await until('a minute is over for each row', async (see) => {
      const firstMs = [...drops.values()].map(([first = 0]) => first);
      return see(performance.now() - Math.max(...firstMs)) > minuteMs;
    });
  }, 2 * beginMs);
  afterAll(async () => {
    await stopProvider?.();
    await millwright?.stop();
  });

  const inFirstMinute = (row: string) => {
    const [firstMs = 0] = drops.get(row) ?? [];
    const sinceMs = begunMs.get(row) ?? 0;
    return ({ atMs }: { readonly atMs: number }) => atMs >= sinceMs && atMs < firstMs + minuteMs;
  };

  it.each(Object.keys(rows))('is written with growing pauses: %s', (row) => {
    if (failures.has(row)) throw failures.get(row);
    const given = rows[row]!;
    const isCounted = inFirstMinute(row);
    const dropsOf = (drops.get(row) ?? []).filter((atMs) => isCounted({ atMs }));
    expect(dropsOf.length).toBeGreaterThan(0);
    expect(dropsOf.length).toBeLessThanOrEqual(triesOf(given) * (given.perTry ?? 1));
    expect(writesOf(row).filter(isCounted).length).toBeLessThanOrEqual(most(given, 'writes'));
    expect(requestsOf(row).filter(isCounted).length).toBeLessThanOrEqual(most(given, 'requests'));
  });

  /** The workflow that a row is about: that of the deployment or of the Machine. */
  async function handleOf(row: string) {
    const { namespace, control } = millwright;
    const { ofOwner, byMachine } = rows[row]!;
    const [owned] = byMachine ? await millwright.machinesOf(nameOf(row)) : [];
    const kind = ofOwner && !byMachine ? 'MachineDeployment' : 'Machine';
    const resource: Resource<KubeObject> = kind === 'Machine' ? machines : machineDeployments;
    const { metadata } = owned ?? (await control.get(resource, { namespace, name: nameOf(row) }));
    return millwright.handleOf({ ...metadata, dialect: 'gardener', namespace }, kind);
  }
  const shown = Object.keys(rows).filter((row) => !rows[row]?.isHidden);
  const notKept = {
    blockedOn: 'KubernetesApi',
    unblock: expect.stringMatching(/^Find the webhook, policy or controller/),
  };

  it.each(shown)('is shown by `describe`: %s', async (row) => {
    const handle = await handleOf(row);
    await until('it is shown', async () => {
      expect(await handle.query('describe')).toMatchObject(rows[row]!.shows ?? notKept);
      return true;
    });
  });

  it.each(shown.filter((row) => rows[row]?.shows === undefined))('is listed by `stuck`: %s', async (row) => {
    const handle = await handleOf(row);
    await until('it is listed', async (see) => {
      const { searchAttributes: listed } = await handle.describe();
      return see(listed[searchAttributes.blockedOn]?.[0]) === 'KubernetesApi';
    });
  });

  it('is not a quantity that it stores in another form: a Node that has it is left alone, whatever its kubelet reports', () => {
    expect(writesOf('kept').filter(({ atMs }) => atMs > quietSinceMs)).toEqual([]);
  });

  it('has a row for each field that is written', () => {
    const known = new Set([...lost, ...Object.values(others).flat()]);
    expect([...written].filter((field) => !known.has(field))).toEqual([]);
  });

  it('is made good by the next try once it is kept', async () => {
    dropped.clear();
    const { workflow } = millwright.temporal;
    const isBlocked = `${searchAttributes.blockedOn} = 'KubernetesApi' AND ExecutionStatus = 'Running'`;
    const query = `${searchAttributes.installation} = '${millwright.namespace}' AND ${isBlocked}`;
    const listBlocked = async () => {
      const ids: string[] = [];
      for await (const { workflowId } of workflow.list({ query })) ids.push(workflowId);
      return ids;
    };
    const blocked = (await listBlocked()).map((id) => workflow.getHandle(id));
    for (const handle of [...blocked, ...(await Promise.all(shown.map(handleOf)))])
      await handle.signal(retryNowSignal).catch(() => undefined); // it may have ended
    await until('nothing is blocked', async (see) => see(await listBlocked()).length === 0, {
      timeoutMs: 4 * minuteMs,
    });
    const settled = Object.keys(rows).filter((row) => !rows[row]?.isLeft);
    const isSettled = (name: string) => settled.some((row) => name.startsWith(nameOf(row)));
    await until('the machines run', async (see) => {
      const left = (await millwright.machines()).filter((machine) => phaseOf(machine) !== 'Running');
      return see(left.map(({ metadata }) => metadata.name).filter(isSettled)).length === 0;
    });
  });
});
