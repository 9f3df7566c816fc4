/**
 * What it costs to read the owner of many machines by quorum: `node test/bench/owner-loop.ts [machines] [others]`
 * starts an API server, fills it with the machines of one owner and of others, and prints a row for the activity
 * `observeOwner` and for other ways of reading. docs/adr/0004, 0010 and 0028 have the figures. Compare rows of one run
 * with each other: another machine, or a busy one, has other figures.
 */
import { readFile } from 'node:fs/promises';
import { createOwnerActivities } from '../../activities/owner/index.ts';
import { gardener } from '../../api/gardener/index.ts';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import { toNewMachine, toNewMachineSet } from '../../api/owner/new-objects.ts';
import type { OwnerSet } from '../../api/owner/objects.ts';
import { templateHash } from '../../api/owner/template.ts';
import { installCrds } from '../../deploy/local/crds.ts';
import { type Stack, startStack } from '../../deploy/local/stack.ts';
import { createKubeClient, type PagesQuery } from '../../kube/client.ts';
import { loadKubeconfig } from '../../kube/config.ts';
import { namespaces } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { planOwner } from '../../workflows/rollout/plan.ts';
import { noReplacements } from '../support/owner-deps.ts';

const namespace = 'bench';
const repetitions = 30;
/** `/proc/<pid>/stat` counts in these: 100 a second on Linux. */
const cpuTickMs = 10;

const count = Number(process.argv[2] ?? 500);
const others = Number(process.argv[3] ?? 1);
const stack = await startStack();
const control = createKubeClient({
  access: loadKubeconfig(stack.kubeconfig),
  userAgent: 'bench',
  qps: 10_000,
  burst: 10_000,
});
try {
  await installCrds(stack.kubeconfig);
  await control.create(namespaces, { metadata: { name: namespace } });
  const ref = await createOwner('workers', count);
  for (let i = 0; i < others; i++) await createOwner(`others-${i}`, count);
  await measureAll(ref);
} finally {
  await control.close();
  await stack.stop();
}

/** A deployment with a set and Running machines, as they look after an hour. */
async function createOwner(name: string, replicas: number) {
  const template = {
    metadata: { labels: { name, 'worker.gardener.cloud/pool': name } },
    spec: {
      class: { kind: 'MachineClass', name: `${name}-7d9f4` },
      nodeTemplate: { metadata: { labels: { 'node.kubernetes.io/role': 'node', 'worker.gardener.cloud/pool': name } } },
    },
  };
  const strategy = { type: 'RollingUpdate' as const, rollingUpdate: { maxSurge: '20%', maxUnavailable: 0 } };
  const deployment = await control.create(machineDeployments, {
    metadata: { name, namespace },
    spec: { replicas, selector: { matchLabels: { name } }, strategy, template },
  });
  const hash = templateHash(gardener, deployment.spec?.template);
  const planned = { name: `${name}-${hash}`, hash, replicas };
  const set = await control.create<OwnerSet>(machineSets, toNewMachineSet(gardener, deployment, [], planned));
  await inParallel(replicas, async (i) => {
    const machine = `${name}-${hash}-${String(i).padStart(5, '0')}`;
    const { metadata } = await control.create(machines, toNewMachine(gardener, set, machine));
    await control.patch(machines, metadata, mergePatch(identityOf(machine)));
    await control.patch(machines, metadata, mergePatch({ status: runningStatus(machine) }), { subresource: 'status' });
  });
  return { dialect: 'gardener' as const, namespace, name, uid: deployment.metadata.uid };
}

function identityOf(machine: string) {
  return {
    metadata: {
      labels: { node: machine },
      annotations: { 'machinepriority.machine.sapcloud.io': '3' },
      finalizers: ['machine.sapcloud.io/machine-controller-manager'],
    },
    spec: { providerID: `simulated:///here/${machine}` },
  };
}

function runningStatus(machine: string): NonNullable<Machine['status']> {
  const time = '2026-01-01T10:00:00Z';
  const condition = (type: string, status: string, reason: string) => ({
    type,
    status,
    reason,
    message: `kubelet: ${reason} on ${machine}`,
    lastHeartbeatTime: time,
    lastTransitionTime: time,
  });
  return {
    addresses: [
      { type: 'InternalIP', address: '10.180.12.7' },
      { type: 'Hostname', address: machine },
    ],
    conditions: [
      condition('MemoryPressure', 'False', 'KubeletHasSufficientMemory'),
      condition('DiskPressure', 'False', 'KubeletHasNoDiskPressure'),
      condition('PIDPressure', 'False', 'KubeletHasSufficientPID'),
      condition('Ready', 'True', 'KubeletReady'),
      condition('KernelDeadlock', 'False', 'KernelHasNoDeadlock'),
      condition('ReadonlyFilesystem', 'False', 'FilesystemIsNotReadOnly'),
      condition('NetworkUnavailable', 'False', 'RouteCreated'),
    ],
    currentStatus: { phase: 'Running', timeoutActive: false, lastUpdateTime: time },
    lastOperation: {
      type: 'Create',
      state: 'Successful',
      description: `Machine ${machine} successfully joined the cluster`,
      lastUpdateTime: time,
    },
    lastKnownState: `vm-${machine}`,
  };
}

async function measureAll(ref: Awaited<ReturnType<typeof createOwner>>): Promise<void> {
  const events = { record: () => undefined, flush: async () => undefined };
  const { observeOwner } = createOwnerActivities({ control, target: control, events, ...noReplacements });
  let reader: string | undefined;
  /** As a run does: it says who made the last reading. */
  const observeAgain = async () => {
    const reading = await observeOwner(ref, 'MachineDeployment', 0, reader === undefined ? {} : { reader });
    reader = reading?.reader;
  };
  await observeAgain();
  const labelSelector = `name=${ref.name}`;
  const path = `/apis/machine.sapcloud.io/v1alpha1/namespaces/${namespace}/machines?labelSelector=name%3D${ref.name}`;
  const ways: readonly [string, () => Promise<unknown>][] = [
    ['observeOwner, first of a run', () => observeOwner(ref, 'MachineDeployment', 0)],
    ['observeOwner, a later one', observeAgain],
    ['get the deployment', () => control.get(machineDeployments, ref)],
    ['list the sets', () => control.list(machineSets, { namespace })],
    ['list the machines by label, pages of 500', () => control.list(machines, { namespace, labelSelector })],
    ['... pages of 100', () => readPages({ namespace, labelSelector, pageSize: 100 })],
    ['... without limit', () => control.getRaw(path)],
    ['... without limit, from the cache (resourceVersion=0)', () => control.getRaw(`${path}&resourceVersion=0`)],
    ['... metadata alone', () => control.list(machines, { namespace, labelSelector, metadataOnly: true })],
    ['list all machines of the namespace', () => control.list(machines, { namespace })],
  ];
  console.log(
    `${count} machines of this owner and of each of ${others} others; ${repetitions} times each, per call:\n`,
  );
  console.log('| | requests | bytes | ms | CPU ms of ours | CPU ms of kube-apiserver | of etcd |');
  console.log('|---|---|---|---|---|---|---|');
  for (const [name, act] of ways) console.log(`| ${name} | ${(await measure(act)).join(' | ')} |`);

  const read = async (replicas: number) => {
    await control.patch(machineDeployments, ref, mergePatch({ spec: { replicas } }));
    const reading = await observeOwner(ref, 'MachineDeployment', 0);
    if (reading === null) throw new Error('the owner is gone');
    return reading;
  };
  const [same, fewer, more] = [await read(count), await read(count - 100), await read(count + 100)];
  const planOf = (reading: typeof same) => planOwner(reading, (set) => `${set}-abcde`);
  console.log(`\nBytes in the history: reading ${bytesOf(same)}, with 100 that are to go ${bytesOf(fewer)},`);
  console.log(`plan that deletes 100 ${bytesOf(planOf(fewer))}, plan that creates 100 ${bytesOf(planOf(more))}.`);
}

async function readPages(query: PagesQuery): Promise<void> {
  for await (const page of control.pages(machines, query)) void page;
}

/** Requests, bytes, milliseconds and CPU milliseconds of one call, from many. */
async function measure(act: () => Promise<unknown>): Promise<string[]> {
  for (let i = 0; i < 5; i++) await act(); // compiled and cached from here on
  const before = await usage(stack);
  for (let i = 0; i < repetitions; i++) await act();
  const after = await usage(stack);
  const per = (field: keyof typeof after) => (after[field] - before[field]) / repetitions;
  return [
    per('requests').toFixed(0),
    per('bytes').toFixed(0),
    per('ms').toFixed(1),
    per('ownCpuMs').toFixed(1),
    per('serverCpuMs').toFixed(1),
    per('etcdCpuMs').toFixed(1),
  ];
}

async function usage({ clusters: [{ apiServer }], etcd }: Stack) {
  const text = String(await control.getRaw('/metrics'));
  const served = (suffix: string) =>
    text
      .split('\n')
      .filter((line) => line.startsWith(`apiserver_response_sizes_${suffix}{`) && line.includes('machine.sapcloud.io'))
      .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
  const { user, system } = process.cpuUsage();
  return {
    requests: served('count'),
    bytes: served('sum'),
    ms: performance.now(),
    ownCpuMs: (user + system) / 1000,
    serverCpuMs: await cpuMsOf(apiServer.pid),
    etcdCpuMs: await cpuMsOf(etcd.pid),
  };
}

async function cpuMsOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [utime = 0, stime = 0] = fields.slice(11, 13).map(Number);
  return (utime + stime) * cpuTickMs;
}

function bytesOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}

async function inParallel(times: number, work: (i: number) => Promise<void>): Promise<void> {
  const queue = Array.from({ length: times }, (_, i) => i).values();
  await Promise.all(
    Array.from({ length: 20 }, async () => {
      for (const i of queue) await work(i);
    }),
  );
}
