/** An API server that does not keep something of what is written, as with a webhook or a policy that removes it. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { annotations, labels } from '../../api/gardener/names.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import { searchAttributes } from '../../api/names.ts';
import type { KubeObject, Resource } from '../../api/objects.ts';
import { nextRepeat, type Repeat, repeatedAtMs } from '../../api/repeats.ts';
import { nodes, secrets } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import type { MachineDescription } from '../../workflows/machine/messages.ts';
import type { Fault, SeenRequest } from '../faults/proxy.ts';
import { phaseOf } from '../support/installation.ts';
import { until } from '../support/until.ts';
import { startWatchedInstallation, type WatchedInstallation } from '../support/watched-installation.ts';

/** A field of the objects whose names begin with that of the row. It is not kept. */
interface Row {
  /** Their resource, with the subresource that the field is written to. */
  readonly on: string;
  readonly field: string;
  /** Makes what has the field. Default: a Machine. */
  readonly begin?: (name: string) => Promise<unknown>;
  /** How often a try writes it at most. Default: once. */
  readonly perTry?: number;
  /** Nothing waits for it, or for long: no workflow shows it. */
  readonly isHidden?: true;
}

/** What both kinds of workflows answer to `describe`. */
type ShownBlocker = Pick<MachineDescription, 'blockedOn' | 'unblock'>;

let millwright: WatchedInstallation;
const dropped = new Map<string, Row>();
/** When a field was dropped, on the clock of `performance.now()`, by the name of its row. */
const drops = new Map<string, number[]>();
/** Every field that was written, as `<resource> <field>`. */
const written = new Set<string>();

const nameOf = (row: string) => `${row}-${millwright.namespace.slice(5)}`;
const classOf = (name: string) => ({ kind: 'MachineClass', name });
const nodeTemplate = {
  metadata: { labels: { a: '1' }, annotations: { a: '1' } },
  spec: { taints: [{ key: 'a', effect: 'PreferNoSchedule' }] },
};
const createMachine = (name: string, className = 'small') =>
  millwright.createMachine(name, { class: classOf(className), nodeTemplate });
const ofMetadata = (on: string, field: string, begin?: Row['begin']): Row => ({
  on,
  field: `metadata.${field}`,
  ...(begin && { begin }),
});
const ofStatus = (resource: string, field: string, begin?: Row['begin']): Row => ({
  on: `${resource}/status`,
  field: `status.${field}`,
  ...(begin && { begin }),
});

async function preserve(name: string): Promise<void> {
  const ref = await createMachine(name);
  const patch = mergePatch({ metadata: { annotations: { [annotations.preserve]: 'now' } } });
  await millwright.control.patch(machines, ref, patch);
}

/** The field is kept until the machine is deleted. */
async function deleteMachine(name: string): Promise<void> {
  const row = dropped.get(name);
  dropped.delete(name);
  const ref = await createMachine(name);
  await millwright.untilPhase(ref, 'Running');
  if (row !== undefined) dropped.set(name, row);
  await millwright.control.delete(machines, ref);
}

const createDeployment = (name: string) =>
  millwright.createDeployment(name, 1, {
    template: { metadata: { labels: { [labels.name]: name } }, spec: { class: classOf('small'), nodeTemplate } },
  });

async function editTemplate(name: string): Promise<void> {
  await createDeployment(name);
  await millwright.untilRunning(name, 1);
  await millwright.changeDeployment(name, { spec: { template: { spec: { drainTimeout: '1h' } } } });
}

async function useClass(name: string): Promise<void> {
  await millwright.createClass(name);
  await createMachine(name, name);
}

async function useSecret(name: string): Promise<void> {
  await millwright.putSecret(name, { token: 'letmein', userData: 'x' });
  await millwright.createClass(name, { secretRef: { namespace: millwright.namespace, name } });
}

const rows: Readonly<Record<string, Row>> = {
  nodefin: { ...ofMetadata('nodes', 'finalizers'), perTry: 2 },
  nodelabel: ofMetadata('nodes', 'labels'),
  nodenote: ofMetadata('nodes', 'annotations'),
  nodetaint: { on: 'nodes', field: 'spec.taints' },
  capacity: ofStatus('nodes', 'capacity', (name) => createMachine(name, 'virtual')),
  cordon: { on: 'nodes', field: 'spec.unschedulable', begin: deleteMachine, isHidden: true },
  terminating: { ...ofStatus('nodes', 'conditions', deleteMachine), isHidden: true },
  nodegone: { ...ofMetadata('nodes', '$deleteFromPrimitiveList/finalizers', deleteMachine), isHidden: true },
  finalizer: ofMetadata('machines', 'finalizers'),
  release: ofMetadata('machines', 'finalizers', deleteMachine),
  nodename: { ...ofMetadata('machines', 'labels'), isHidden: true },
  notes: { ...ofMetadata('machines', 'annotations'), isHidden: true },
  providerid: { on: 'machines', field: 'spec.providerID' },
  phase: ofStatus('machines', 'currentStatus.phase'),
  since: { ...ofStatus('machines', 'currentStatus.lastUpdateTime'), isHidden: true },
  expiry: ofStatus('machines', 'currentStatus.preserveExpiryTime', preserve),
  operation: { ...ofStatus('machines', 'lastOperation'), isHidden: true },
  conditions: ofStatus('machines', 'conditions'),
  owner: ofMetadata('machines', 'ownerReferences', createDeployment),
  setting: { on: 'machines', field: 'spec.drainTimeout', begin: editTemplate },
  setfin: ofMetadata('machinesets', 'finalizers', createDeployment),
  setowner: ofMetadata('machinesets', 'ownerReferences', createDeployment),
  setnotes: ofMetadata('machinesets', 'annotations', createDeployment),
  setsize: { on: 'machinesets', field: 'spec.replicas', begin: createDeployment },
  setgen: ofStatus('machinesets', 'observedGeneration', createDeployment),
  setcount: { ...ofStatus('machinesets', 'availableReplicas', createDeployment), isHidden: true },
  depfin: ofMetadata('machinedeployments', 'finalizers', createDeployment),
  depnotes: ofMetadata('machinedeployments', 'annotations', createDeployment),
  depgen: ofStatus('machinedeployments', 'observedGeneration', createDeployment),
  depcond: { ...ofStatus('machinedeployments', 'conditions', createDeployment), perTry: 2 },
  verdict: { ...ofMetadata('machineclasses', 'annotations', (name) => millwright.createClass(name)), isHidden: true },
  classfin: { ...ofMetadata('machineclasses', 'finalizers', useClass), isHidden: true },
  secretfin: { ...ofMetadata('secrets', 'finalizers', useSecret), isHidden: true },
};

/** Fields that are written here, and that have no row: nobody reads them back, or the object has to have them. */
const others: readonly string[] = [
  ...['machines metadata.labels', 'machines spec.class', 'machines spec.nodeTemplate', 'machines spec.drainTimeout'],
  ...['machines/status status.currentStatus.timeoutActive', 'machines/status status.lastKnownState'],
  ...['machinesets metadata.labels', 'machinesets spec.selector', 'machinesets spec.template'],
  ...['replicas', 'fullyLabeledReplicas', 'readyReplicas'].map((field) => `machinesets/status status.${field}`),
  ...['machinesets/status status.machineSetCondition', 'machinesets/status status.failedMachines'],
  ...['replicas', 'updatedReplicas', 'readyReplicas', 'availableReplicas', 'unavailableReplicas', 'failedMachines'].map(
    (field) => `machinedeployments/status status.${field}`,
  ),
];

const resources = [machineClasses, machineDeployments, machineSets, machines, nodes, secrets];

/** What a request is about: the resource with its subresource, and the name of the object. */
function targetOf({ url }: SeenRequest, body?: { readonly metadata?: { readonly name?: string } }) {
  const parts = url.pathname.split('/');
  const at = parts.findIndex((part) => resources.some(({ plural }) => plural === part));
  if (at < 0) return undefined;
  const [resource = '', name = body?.metadata?.name ?? '', subresource] = parts.slice(at);
  return { on: subresource === undefined ? resource : `${resource}/${subresource}`, name };
}

type Json = Readonly<Record<string, unknown>>;
const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The body without a field; undefined: it has no such field. */
function without(body: Json, path: readonly string[]): Json | undefined {
  const [field = '', ...rest] = path;
  const { [field]: found, ...left } = body;
  if (found === undefined) return undefined;
  if (rest.length === 0) return left;
  const inner = isObject(found) ? without(found, rest) : undefined;
  return inner && { ...left, [field]: inner };
}

/** The fields of a body to the depth of the rows. */
function fieldsOf(body: Json): string[] {
  return ['metadata', 'spec', 'status'].flatMap((part) => {
    const fields = isObject(body[part]) ? body[part] : {};
    return Object.entries(fields).flatMap(([field, value]) =>
      field === 'currentStatus' && isObject(value)
        ? Object.keys(value).map((each) => `${part}.${field}.${each}`)
        : `${part}.${field}`,
    );
  });
}

/** What identifies an object or its version. */
const identity = ['name', 'namespace', 'uid', 'resourceVersion'].map((field) => `metadata.${field}`);

const isWrite = ({ method }: SeenRequest) => method !== 'GET';

function drop(request: SeenRequest): Fault | undefined {
  if (!isWrite(request) || request.method === 'DELETE' || targetOf(request) === undefined) return undefined;
  return {
    kind: 'alter',
    body(sent) {
      const target = targetOf(request, sent as object);
      const [name = '', row] = [...dropped].find(([each]) => target?.name.startsWith(each)) ?? [];
      if (!isObject(sent) || target === undefined) return sent;
      for (const field of fieldsOf(sent)) if (!identity.includes(field)) written.add(`${target.on} ${field}`);
      const left = row !== undefined && row.on === target.on ? without(sent, row.field.split('.')) : undefined;
      if (left !== undefined) drops.set(name, [...(drops.get(name) ?? []), performance.now()]);
      return left ?? sent;
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
/** What a machine needs in its life, its deletion included, and what a try needs at most. A deployment needs thrice as much. */
const needs = { writes: { life: 15, tried: 3 }, requests: { life: 30, tried: 10 } } as const;
const isOfDeployment = ({ begin }: Row) => begin === createDeployment || begin === editTemplate;
/** It begins anew with another state: a machine joins and then runs; before that a set and its machine are made. */
const triesOf = (row: Row) => countTries(minuteMs) + (isOfDeployment(row) ? 4 : 2) * countTries(1);
const most = (row: Row, what: keyof typeof needs) =>
  (isOfDeployment(row) ? 3 : 1) * needs[what].life + triesOf(row) * needs[what].tried;

describe('what an API server does not keep', () => {
  let quietSinceMs: number;

  beforeAll(async () => {
    millwright = await startWatchedInstallation({ cloud: { statusUpdateMs: 1_000 } });
    const capacity = { cpu: '4', gpu: '0', memory: '8Gi' };
    const virtualCapacity = { 'example.com/slots': 1000 };
    const place = { instanceType: 'small', region: 'here', zone: 'here' };
    await millwright.createClass('virtual', { nodeTemplate: { capacity, virtualCapacity, ...place } });
    millwright.proxy.setRule(drop);
    for (const [row, given] of Object.entries(rows)) dropped.set(nameOf(row), given);
    await Promise.all(Object.entries(rows).map(([row, { begin = createMachine }]) => begin(nameOf(row))));
    await millwright.untilPhase(await createMachine(nameOf('kept'), 'virtual'), 'Running');
    quietSinceMs = performance.now() + 2_000;
    await until(
      'a minute is over for each row',
      async (see) => {
        const begun = Object.keys(rows).map((row) => drops.get(nameOf(row))?.[0] ?? Number.POSITIVE_INFINITY);
        return see(performance.now() - Math.max(...begun)) > minuteMs;
      },
      { timeoutMs: 180_000 },
    );
  });
  afterAll(async () => {
    await millwright?.stop();
  });

  const inFirstMinute = (row: string) => {
    const [firstMs = 0] = drops.get(nameOf(row)) ?? [];
    return ({ atMs }: { readonly atMs: number }) => atMs < firstMs + minuteMs;
  };

  it.each(Object.keys(rows))('is written with growing pauses: %s', (row) => {
    const given = rows[row]!;
    const isCounted = inFirstMinute(row);
    const dropsOf = (drops.get(nameOf(row)) ?? []).filter((atMs) => isCounted({ atMs }));
    expect(dropsOf.length).toBeGreaterThan(0);
    expect(dropsOf.length).toBeLessThanOrEqual(triesOf(given) * (given.perTry ?? 1));
    expect(writesOf(row).filter(isCounted).length).toBeLessThanOrEqual(most(given, 'writes'));
    expect(requestsOf(row).filter(isCounted).length).toBeLessThanOrEqual(most(given, 'requests'));
  });

  /** The workflow that a row is about: that of the deployment or of the Machine. */
  async function handleOf(row: string) {
    const { namespace, control } = millwright;
    const kind = isOfDeployment(rows[row]!) ? 'MachineDeployment' : 'Machine';
    const resource: Resource<KubeObject> = kind === 'Machine' ? machines : machineDeployments;
    const { metadata } = await control.get(resource, { namespace, name: nameOf(row) });
    return millwright.handleOf({ dialect: 'gardener', namespace, name: nameOf(row), uid: metadata.uid }, kind);
  }
  const shown = Object.keys(rows).filter((row) => !rows[row]?.isHidden);

  it.each(shown)('is shown by `describe`, and listed by `stuck`: %s', async (row) => {
    const handle = await handleOf(row);
    await until('it is shown', async (see) => {
      const { blockedOn, unblock } = see(await handle.query<ShownBlocker, []>('describe'));
      return blockedOn === 'KubernetesApi' && unblock?.startsWith('Find the webhook, policy or controller');
    });
    await until('it is listed', async (see) => {
      const { searchAttributes: listed } = await handle.describe();
      return see(listed[searchAttributes.blockedOn]?.[0]) === 'KubernetesApi';
    });
  });

  it('is not a quantity that it stores in another form: a Node that has it is left alone, whatever its kubelet reports', () => {
    expect(writesOf('kept').filter(({ atMs }) => atMs > quietSinceMs)).toEqual([]);
  });

  it('has a row for each field that is written', () => {
    const known = new Set([...Object.values(rows).map(({ on, field }) => `${on} ${field}`), ...others]);
    expect([...written].filter((field) => !known.has(field))).toEqual([]);
  });

  it('is made good by the next try once it is kept', async () => {
    dropped.clear();
    const blocked = `${searchAttributes.blockedOn} = 'KubernetesApi' AND ExecutionStatus = 'Running'`;
    const query = `${searchAttributes.installation} = '${millwright.namespace}' AND ${blocked}`;
    const count = async () => (await millwright.temporal.workflow.count(query)).count;
    await until('nothing is blocked', async (see) => see(await count()) === 0, { timeoutMs: 4 * minuteMs });
    const left = (await millwright.machines()).filter(({ metadata }) => metadata.name !== nameOf('nodename'));
    expect(left.filter((machine) => phaseOf(machine) !== 'Running').map(({ metadata }) => metadata.name)).toEqual([]);
  });
});
