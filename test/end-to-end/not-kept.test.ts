/** An API server that does not keep something of what is written, as with a webhook or a policy that removes it. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { annotations, labels } from '../../api/gardener/names.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import { nodes, secrets } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import type { Fault, SeenRequest } from '../faults/proxy.ts';
import { until } from '../support/until.ts';
import { startWatchedInstallation, type WatchedInstallation } from '../support/watched-installation.ts';

/** A field of the objects whose names begin with that of the row. It is not kept. */
interface Row {
  /** Their resource, with the subresource that the field is written to. */
  readonly on: string;
  readonly field: string;
  /** Makes what has the field. Default: a Machine. */
  readonly begin?: (name: string) => Promise<unknown>;
}

let millwright: WatchedInstallation;
const dropped = new Map<string, Row>();
/** How often a field was dropped, by row. */
const drops = new Map<string, number>();
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
  nodefin: ofMetadata('nodes', 'finalizers'),
  nodelabel: ofMetadata('nodes', 'labels'),
  nodenote: ofMetadata('nodes', 'annotations'),
  nodetaint: { on: 'nodes', field: 'spec.taints' },
  capacity: ofStatus('nodes', 'capacity', (name) => createMachine(name, 'virtual')),
  cordon: { on: 'nodes', field: 'spec.unschedulable', begin: deleteMachine },
  terminating: ofStatus('nodes', 'conditions', deleteMachine),
  nodegone: ofMetadata('nodes', '$deleteFromPrimitiveList/finalizers', deleteMachine),
  finalizer: ofMetadata('machines', 'finalizers'),
  release: ofMetadata('machines', 'finalizers', deleteMachine),
  nodename: ofMetadata('machines', 'labels'),
  notes: ofMetadata('machines', 'annotations'),
  providerid: { on: 'machines', field: 'spec.providerID' },
  phase: ofStatus('machines', 'currentStatus.phase'),
  since: ofStatus('machines', 'currentStatus.lastUpdateTime'),
  expiry: ofStatus('machines', 'currentStatus.preserveExpiryTime', preserve),
  operation: ofStatus('machines', 'lastOperation'),
  conditions: ofStatus('machines', 'conditions'),
  owner: ofMetadata('machines', 'ownerReferences', createDeployment),
  setting: { on: 'machines', field: 'spec.drainTimeout', begin: editTemplate },
  setfin: ofMetadata('machinesets', 'finalizers', createDeployment),
  setowner: ofMetadata('machinesets', 'ownerReferences', createDeployment),
  setnotes: ofMetadata('machinesets', 'annotations', createDeployment),
  setsize: { on: 'machinesets', field: 'spec.replicas', begin: createDeployment },
  setgen: ofStatus('machinesets', 'observedGeneration', createDeployment),
  setcount: ofStatus('machinesets', 'availableReplicas', createDeployment),
  depfin: ofMetadata('machinedeployments', 'finalizers', createDeployment),
  depnotes: ofMetadata('machinedeployments', 'annotations', createDeployment),
  depgen: ofStatus('machinedeployments', 'observedGeneration', createDeployment),
  depcond: ofStatus('machinedeployments', 'conditions', createDeployment),
  verdict: ofMetadata('machineclasses', 'annotations', (name) => millwright.createClass(name)),
  classfin: ofMetadata('machineclasses', 'finalizers', useClass),
  secretfin: ofMetadata('secrets', 'finalizers', useSecret),
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
      if (left !== undefined) drops.set(name, (drops.get(name) ?? 0) + 1);
      return left ?? sent;
    },
  };
}

const requestsOf = (row: string) =>
  millwright.proxy.seen.filter((request) => targetOf(request)?.name.startsWith(nameOf(row)));
const writesOf = (row: string) => requestsOf(row).filter(isWrite);

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
    // Three at once, and then after 0, 1, 2, 4, 8 and 16 s.
    await until('the last pause was of 16 s', (see) => {
      const times = writesOf('nodefin').filter((request) => targetOf(request)?.on === 'nodes');
      const pauses = times.slice(1).map(({ atMs }, i) => atMs - (times[i]?.atMs ?? 0));
      return see(pauses).some((ms) => ms > 15_000);
    });
  });
  afterAll(async () => {
    await millwright?.stop();
  });

  it.each(Object.keys(rows))('is written a few times: %s', (row) => {
    console.log(row, drops.get(nameOf(row)), writesOf(row).length, requestsOf(row).length);
    expect(drops.get(nameOf(row))).toBeGreaterThan(0);
    expect(writesOf(row).length).toBeLessThan(60);
    expect(requestsOf(row).length).toBeLessThan(250);
  });

  it('is not a quantity that it stores in another form: a Node that has it is left alone, whatever its kubelet reports', () => {
    expect(writesOf('kept').filter(({ atMs }) => atMs > quietSinceMs)).toEqual([]);
  });

  it('has a row for each field that is written', () => {
    const known = new Set([...Object.values(rows).map(({ on, field }) => `${on} ${field}`), ...others]);
    expect([...written].filter((field) => !known.has(field))).toEqual([]);
  });
});
