/**
 * Controllers with 10,000 machines, each with a Node of 12 KB. How long things take differs from computer to computer:
 * so those figures are printed, and what is asserted holds anywhere.
 */
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { request } from 'undici';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import { type Stack, startStack } from '../../deploy/local/stack.ts';
import { leases, nodes } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Fault, type FaultProxy, type SeenRequest, startFaultProxy, statusBody } from '../faults/proxy.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { type Process, startProcess } from '../support/millwright.ts';
import { until } from '../support/until.ts';

const count = 10_000;
const busy: Fault = { kind: 'answer', status: 503, body: statusBody(503, 'ServiceUnavailable') };
const gone: Fault = { kind: 'answer', status: 410, body: statusBody(410, 'Expired') };
/** Kubelets report once and no more. */
const never = 2 ** 31 - 1;
/** Longer than the 60 s of a resync. */
const windowMs = 61_000;

const isListOf = (plural: string, { url }: SeenRequest) =>
  url.pathname.endsWith(`/${plural}`) && url.searchParams.get('limit') === '500';
const isWatchOf = (plural: string, { url, isWatch }: SeenRequest) => isWatch && url.pathname.endsWith(`/${plural}`);

describe('controllers with 10,000 machines', () => {
  let dir: string;
  let stack: Stack;
  let millwright: Installation;
  let proxy: FaultProxy;
  let controllers: Process;
  let url: string;
  /** What etcd has of the one machine and its Node of which the others are copies. */
  let original: { readonly name: string; readonly machine: string; readonly node: string };
  const figures: Record<string, object> = {};

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'millwright-many-'));
    stack = await startStack();
    const { kubeconfig, temporalAddress } = stack;
    const cloud = { statusUpdateMs: never };
    millwright = await startInstallation({ kubeconfig, temporalAddress, cloud });
    proxy = await startFaultProxy(kubeconfig);
    await proxy.writeKubeconfig(join(dir, 'kubeconfig'));
    await multiply();
  }, 900_000);
  afterAll(async () => {
    console.table(figures);
    await controllers?.stop();
    await proxy?.close();
    await millwright?.stop();
    await stack?.stop();
    await rm(dir, { recursive: true, force: true });
  });

  /**
   * One machine comes about as all do, and is copied in etcd. In the end its deployment has them all and needs nothing.
   */
  async function multiply(): Promise<void> {
    const { namespace, control, target, processes } = millwright;
    await millwright.createDeployment('pool', 1);
    const [machine] = await millwright.untilMachines(1, 'Running', 240_000);
    await untilNoRollout();
    await Promise.all(processes.splice(0).map((each) => each.stop()));
    const name = machine?.metadata.name ?? '';
    const node = (await target.getRaw(`/api/v1/nodes/${name}`)) as { status: object };
    const { kvs } = await etcd('range', { key: base64(machineKey(name)) });
    original = {
      name,
      machine: Buffer.from(kvs?.[0]?.value ?? '', 'base64').toString(),
      node: JSON.stringify({ ...node, status: { ...node.status, images } }),
    };
    await put((index) => ({
      [machineKey(nameOf(index))]: copyOf(original.machine, index),
      [nodeKey(nameOf(index))]: copyOf(original.node, index),
    }));

    const all = mergePatch({ spec: { replicas: count } });
    await control.patch(machineSets, { namespace, name: name.replace(/-[^-]+$/, '') }, all);
    await control.patch(machineDeployments, { namespace, name: 'pool' }, all);
    await millwright.start();
    await until(
      'the deployment has them all',
      async () => {
        const { status } = await control.get(machineDeployments, { namespace, name: 'pool' });
        return status?.availableReplicas === count;
      },
      { timeoutMs: 300_000, describe: () => millwright.story() },
    );
    await untilNoRollout();
    await Promise.all(processes.splice(0).map((each) => each.stop()));
  }

  async function untilNoRollout(): Promise<void> {
    const isOpen = async () => (await openWorkflows()).some((id) => id.includes('/rollout/'));
    await until('the rollout is over', async (see) => (see(await isOpen()) ? undefined : true));
  }

  async function openWorkflows(): Promise<string[]> {
    const ids: string[] = [];
    const query = "ExecutionStatus = 'Running' AND WorkflowType IN ('machine', 'rollout')";
    for await (const { workflowId } of millwright.temporal.workflow.list({ query })) ids.push(workflowId);
    return ids;
  }

  const base64 = (text: string) => Buffer.from(text).toString('base64');
  const machineKey = (name: string) => `/cluster-1/machine.sapcloud.io/machines/${millwright.namespace}/${name}`;
  const nodeKey = (name: string) => `/cluster-1/minions/${name}`;
  /** As many as a kubelet reports. */
  const images = Array.from({ length: 50 }, (_, index) => ({
    names: [
      `registry.example.com/team/image-${index}@sha256:${'0'.repeat(64)}`,
      `registry.example.com/image-${index}:v1`,
    ],
    sizeBytes: 1e7 + index,
  }));

  /** The last five characters of a machine's name are its own. */
  const nameOf = (index: number) => original.name.replace(/.{5}$/, `${index}`.padStart(5, '0'));
  function copyOf(text: string, index: number): string {
    const { metadata, spec } = JSON.parse(text) as { metadata: { uid: string }; spec: { providerID: string } };
    const uid = metadata.uid.replace(/.{12}$/, `${index}`.padStart(12, '0'));
    return text
      .replaceAll(original.name, nameOf(index))
      .replaceAll(metadata.uid, uid)
      .replaceAll(spec.providerID, spec.providerID.replace(/[^/]*$/, `vm-${index}`));
  }

  async function etcd(operation: 'range' | 'txn', body: object): Promise<{ kvs?: { value: string }[] }> {
    const answer = await request(`${stack.etcdUrl}/v3/kv/${operation}`, { method: 'POST', body: JSON.stringify(body) });
    const text = await answer.body.text();
    if (answer.statusCode !== 200) throw new Error(`etcd: ${answer.statusCode} ${text}`);
    return JSON.parse(text);
  }

  /**
   * Writes what is given for each of the copies, past the API server, which would take minutes. In a transaction each,
   * as the API server does: objects of one transaction have one resourceVersion, and a watch cut between them loses the
   * rest.
   */
  async function put(valuesOf: (index: number) => Record<string, string>): Promise<void> {
    const batch = 50;
    for (let first = 1; first < count; first += batch) {
      const indexes = Array.from({ length: Math.min(batch, count - first) }, (_, offset) => first + offset);
      const puts = indexes.flatMap((index) =>
        Object.entries(valuesOf(index)).map(([key, value]) => ({ key: base64(key), value: base64(value) })),
      );
      await Promise.all(puts.map((requestPut) => etcd('txn', { success: [{ requestPut }] })));
    }
  }

  /** Keeps how the process has fared since the last time. */
  async function note(what: string): Promise<void> {
    const text = await (await request(`${url}/metrics`)).body.text();
    const value = (name: string) => Number(new RegExp(`^${name} (.*)$`, 'm').exec(text)?.[1]);
    const status = readFileSync(`/proc/${controllers.pid}/status`, 'utf8');
    figures[what] = {
      'longest stall, ms': Math.round(value('nodejs_eventloop_lag_max_seconds') * 1000),
      '99 of 100 below, ms': Math.round(value('nodejs_eventloop_lag_p99_seconds') * 1000),
      'memory, MB': Math.round(value('process_resident_memory_bytes') / 1e6),
      'most memory so far, MB': Math.round(Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1e3),
      'CPU so far, s': value('process_cpu_seconds_total'),
    };
  }

  async function holders(): Promise<unknown[]> {
    const { items } = await millwright.control.list(leases, { namespace: millwright.namespace });
    return items.map(({ spec }) => [spec?.holderIdentity, spec?.leaseTransitions]);
  }

  it('[invariant 9] list them in pages, and neither write nor signal anything, however many they are', async () => {
    let isHeldUp = true;
    proxy.setRule(({ url: { searchParams } }) => (isHeldUp && searchParams.has('limit') ? busy : undefined));
    const { namespace } = millwright;
    const args = [
      ...['controllers', '--namespace', namespace, '--temporal-address', stack.temporalAddress],
      ...[
        '--target-kubeconfig',
        join(dir, 'kubeconfig'),
        '--address',
        '127.0.0.1',
        '--port',
        '0',
        '--log-format',
        'json',
      ],
    ];
    controllers = startProcess(args, { NODE_OPTIONS: '' }); // its memory is measured, as in production
    const logged = (text: string) => until(text, async () => controllers.logs().includes(text));
    await logged('"url"');
    url = /"url":"([^"]+)"/.exec(controllers.logs())?.[1] ?? '';
    await logged('holding the Leases');
    await note('start, without objects');
    const before = await openWorkflows();
    const first = proxy.seen.length;
    isHeldUp = false;
    await logged('controllers started');
    await note('first lists');
    await sleep(windowMs);
    await note('a minute with a resync');

    const seen = proxy.seen.slice(first);
    for (const plural of ['machines', 'nodes']) {
      const lists = seen.filter((each) => isListOf(plural, each));
      expect(lists.filter((each) => each.url.searchParams.has('continue'))).toHaveLength(count / 500 - 1);
    }
    const writes = seen.filter(({ method, url: { pathname } }) => method !== 'GET' && !pathname.includes('/leases/'));
    expect(writes.map(({ method, url: { pathname } }) => `${method} ${pathname}`)).toEqual([]);
    expect(await openWorkflows()).toEqual(before);
  });

  /** Resolves when workflows were started for exactly these machines. */
  async function untilTold(before: readonly string[], names: readonly string[]): Promise<void> {
    const started = async () =>
      (await openWorkflows()).filter((id) => !before.includes(id) && !id.includes('/rollout/'));
    await until(
      `workflows are open for ${names.length} machines`,
      async (see) => see(await started()).length >= names.length,
      { describe: async () => missing(names, before, await started()) },
    );
    expect((await started()).map((id) => id.split('/').at(-2)).toSorted()).toEqual(names.toSorted());
  }

  /** The machines without a workflow, with what is known of them. */
  async function missing(names: readonly string[], before: readonly string[], now: readonly string[]): Promise<string> {
    const isOf = (name: string) => (id: string) => id.includes(`/${name}/`);
    const { control, target, namespace } = millwright;
    const left = names.filter((name) => !now.some(isOf(name)));
    const facts = left.map(async (name) => ({
      name,
      before: before.filter(isOf(name)),
      machine: (await control.find(machines, { namespace, name }))?.status,
      node: (await target.find(nodes, { name }))?.status?.conditions,
    }));
    return JSON.stringify(await Promise.all(facts), null, 2);
  }

  it('lose nothing that happens before they list again', async () => {
    const before = await openWorkflows();
    const held = await holders();
    const expired = new Set<string>();
    let isHeldUp = true;
    proxy.setRule((each) => {
      const plural = ['machines', 'nodes'].find((kind) => isWatchOf(kind, each));
      if (plural === undefined) return undefined;
      if (isHeldUp) return busy;
      if (expired.has(plural)) return undefined;
      expired.add(plural);
      return gone;
    });
    proxy.resetConnections();
    const deleted = Array.from({ length: 50 }, (_, index) => nameOf(1 + index * 150));
    const { namespace, control } = millwright;
    await Promise.all(deleted.map((name) => control.delete(machines, { namespace, name })));
    await note('no watch');
    const first = proxy.seen.length;
    isHeldUp = false;

    await untilTold(before, deleted);
    await until('all is listed', async () => {
      const lists = proxy.seen.slice(first).filter((each) => isListOf('nodes', each));
      return lists.length >= count / 500;
    });
    await note('lists after 410');
    expect(await holders()).toEqual(held);
  });

  it('lose none of 10,000 events', async () => {
    const before = await openWorkflows();
    const held = await holders();
    const unhealthy = Array.from({ length: 50 }, (_, index) => 75 + index * 150);
    const later = original.node.replaceAll(/"lastHeartbeatTime":"[^"]*"/g, `"lastHeartbeatTime":"${soon()}"`);
    const worse = later.replace('"type":"Ready","status":"True"', '"type":"Ready","status":"False"');
    expect(worse).not.toBe(later);

    await put((index) => ({ [nodeKey(nameOf(index))]: copyOf(unhealthy.includes(index) ? worse : later, index) }));

    await untilTold(before, unhealthy.map(nameOf));
    await note('heartbeats of all nodes at once');
    expect(await holders()).toEqual(held);
  });

  const soon = () => new Date(Date.now() + 60_000).toISOString().replace(/\.\d+/, '');
});
