/**
 * A disaster strikes while machines are in every state: at rest, in the middle of a rollout and of a scale-down, one of many
 * unhealthy, a sweep due. No healthy VM goes without approval, and in the end everything is as it was asked for.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { labels } from '../../api/gardener/names.ts';
import { machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import { root } from '../../deploy/generators/root.ts';
import { type Stack, startStack } from '../../deploy/local/stack.ts';
import { type Node, namespaces, nodes, podDisruptionBudgets, pods } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { listBlocked } from '../../temporal/blocked.ts';
import {
  aroundEtcd,
  aroundTemporal,
  backUp,
  bumpRevision,
  lose,
  loseNodes,
  putBack,
  revisionOf,
} from '../support/databases.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { isLong } from '../support/long.ts';
import { isActive } from '../support/machine-facts.ts';
import { startProcess } from '../support/millwright.ts';
import { reportCondition } from '../support/node-conditions.ts';
import { recreate } from '../support/recreated.ts';
import { type Supervised, supervise } from '../support/supervised.ts';
import { quickSweeps, untilOld } from '../support/sweeps.ts';
import { until } from '../support/until.ts';

const timeoutMs = 180_000;
/** Machines of the deployment one of whose Nodes is unhealthy. */
const many = isLong() ? 10 : 4;
/** How many VMs of the machines that each deployment has when the disaster strikes have to be there until it is over. */
const healthy = { rest: 2, rolling: 3, shrinking: 2, sick: many - 1 } as const;
type Name = keyof typeof healthy;

const flags = [...quickSweeps, '--machine-health-timeout', '5s', '--resource-exhausted-retry', '1s'];

let stack: Stack;
let millwright: Installation;
let millwrightRun: Supervised | undefined;

beforeAll(async () => {
  const dir = await mkdtemp(join(tmpdir(), 'millwright-disasters-'));
  stack = await startStack({ dir, clusters: 2, temporal: { dbFile: join(dir, 'temporal.db'), isBare: true } });
});
afterEach(async () => {
  await millwrightRun?.stop();
  millwrightRun = undefined;
  millwright?.processes.splice(0); // a restored Temporal makes a worker say that two histories differ
  await millwright?.stop();
});
afterAll(async () => {
  await stack?.stop();
  await rm(stack.dir, { recursive: true, force: true });
});

/** Flags of a process, but for its clusters. */
const commonArgs = (namespace: string) => [
  ...['--namespace', namespace, '--temporal-address', stack.temporalAddress, '--leader-elect', 'false'],
  ...['--address', '127.0.0.1', '--port', '0', ...flags],
];

async function start(): Promise<void> {
  millwrightRun = await supervise(() => millwright.start());
}

async function stop(): Promise<void> {
  await millwrightRun?.stop();
  millwrightRun = undefined;
}

/** The Nodes are in a cluster of their own. */
const targetKubeconfig = () => stack.clusters[1]!.kubeconfig;

const untilSo = <T>(what: string, check: (see: (seen: unknown) => unknown) => Promise<T | undefined>) =>
  until(what, check as () => Promise<T | undefined>, { timeoutMs, describe: () => millwright.story() });

const templateOf = (name: Name, className: string, more: object = {}) => ({
  metadata: { labels: { [labels.name]: name } },
  spec: { class: { kind: 'MachineClass', name: className }, ...more },
});

/** All deployments in their states, with a machine without a deployment. */
async function begin(): Promise<void> {
  millwright = await startInstallation({
    ...{ kubeconfig: stack.kubeconfig, temporalAddress: stack.temporalAddress, isStopped: true },
    targetKubeconfig: targetKubeconfig(),
    ...{ flags, cloud: { bootMs: 50, joinMs: 100, deleteMs: 50, statusUpdateMs: 2 ** 31 - 1 } },
  });
  await start();
  const { cloud, namespace, target } = millwright;
  await millwright.createClass('full', {
    providerSpec: {
      endpoint: cloud.url,
      machineType: 'small',
      region: 'here',
      tags: { cluster: namespace, is: 'full' },
    },
  });
  await cloud.setFaults({ kind: 'capacity', tags: { is: 'full' } });
  const taking = { strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 0, maxUnavailable: 1 } } };
  await millwright.createDeployment('rest', 2);
  await millwright.createDeployment('rolling', 3);
  await millwright.createDeployment('shrinking', 4, taking);
  await millwright.createDeployment('sick', many, { template: templateOf('sick', 'small', { healthTimeout: '1h' }) });
  await millwright.untilMachines(2 + 3 + 4 + many, 'Running', timeoutMs);

  await target.create(namespaces, { metadata: { name: namespace } });
  const { metadata } = await target.create(podDisruptionBudgets, {
    metadata: { namespace, name: 'shrinking' },
    spec: { selector: { matchLabels: { app: 'shrinking' } }, minAvailable: '100%' },
  });
  const counts = { currentHealthy: 4, desiredHealthy: 4, expectedPods: 4, disruptionsAllowed: 0 };
  const status = { observedGeneration: metadata.generation, ...counts };
  await target.patch(podDisruptionBudgets, metadata, mergePatch({ status }), { subresource: 'status' });
  for (const { metadata: of } of await millwright.machinesOf('shrinking')) {
    await target.create(pods, {
      metadata: { namespace, name: of.name, labels: { app: 'shrinking' } },
      spec: { nodeName: of.name, containers: [{ name: 'app', image: 'app' }] },
    });
  }
  await millwright.scale('shrinking', 2);
  await millwright.changeDeployment('rolling', { spec: { template: { spec: { class: { name: 'full' } } } } });
  await untilSo('two are being deleted, and one waits for capacity', async () => {
    const leaving = (await millwright.machinesOf('shrinking')).filter((machine) => !isActive(machine));
    const waiting = (await millwright.machinesOf('rolling')).filter((each) => phaseOf(each) === 'CrashLoopBackOff');
    return leaving.length === 2 && waiting.length === 1 ? true : undefined;
  });
  const [sick] = await millwright.machinesOf('sick');
  await reportCondition(target, sick!.metadata.name, 'Ready', 'Unknown');
  await millwright.untilPhase({ namespace, name: sick!.metadata.name }, 'Unknown');
}

/** VMs of machines by the deployments that had them when the disaster struck. */
type Vms = ReadonlyMap<Name, readonly string[]>;

async function vmsByDeployment(): Promise<Vms> {
  const vms = await millwright.cloud.vms();
  const namesOf = Object.keys(healthy) as Name[];
  return new Map(
    await Promise.all(
      namesOf.map(async (name) => {
        const own = new Set((await millwright.machinesOf(name)).map(({ metadata }) => metadata.name));
        return [name, vms.filter((vm) => own.has(vm.name)).map(({ id }) => id)] as const;
      }),
    ),
  );
}

/** How many of these VMs are there. */
async function countAlive(before: Vms): Promise<Record<Name, number>> {
  const alive = new Set((await millwright.cloud.vms()).filter(({ state }) => state === 'running').map(({ id }) => id));
  const counts = [...before].map(([name, ids]) => [name, ids.filter((id) => alive.has(id)).length] as const);
  return Object.fromEntries(counts) as Record<Name, number>;
}

async function expectHealthyOnesAlive(before: Vms): Promise<void> {
  const alive = await countAlive(before);
  const missing = (Object.keys(healthy) as Name[]).filter((name) => alive[name] < healthy[name]);
  expect([missing, alive]).toEqual([[], alive]);
}

/** A sweep is due: it runs to its end, or waits for approval. */
async function sweep(): Promise<string> {
  await untilOld(millwright);
  return (await millwright.command('sweep')).output;
}

/** The unhealthy machine is replaced once its health timeout is that of the others: so is every machine that counts as unhealthy. */
async function untilSickIsReplaced(): Promise<void> {
  await millwright.changeDeployment('sick', { spec: { template: { spec: { healthTimeout: null } } } });
  await untilSo('the unhealthy machine is replaced', async (see) => {
    const found = await millwright.machinesOf('sick');
    see(found.map(phaseOf));
    return (found.length === many && found.every((each) => phaseOf(each) === 'Running')) || undefined;
  });
}

/** Everything becomes as it was asked for, nothing is left, and nothing waits. */
async function untilConverged(): Promise<void> {
  const { cloud, namespace, target, temporal } = millwright;
  await cloud.setFaults();
  await target.delete(podDisruptionBudgets, { namespace, name: 'shrinking' }).catch(() => undefined);
  const wanted = { rest: 2, rolling: 3, shrinking: 2, sick: many };
  for (const [name, count] of Object.entries(wanted)) {
    await untilSo(`${name} has ${count} machines`, async (see) => {
      const found = await millwright.machinesOf(name);
      see(found.map((each) => [each.metadata.name, phaseOf(each)]));
      const isDone = (each: Machine) =>
        isActive(each) && phaseOf(each) === 'Running' && (name !== 'rolling' || each.spec?.class?.name === 'full');
      return (found.length === count && found.every(isDone)) || undefined;
    });
  }
  await untilSo('each machine has its VM, and there is no other', async (see) => {
    const own = (await millwright.machines()).map(({ metadata }) => metadata.name).toSorted();
    const vms = (await cloud.vms()).map(({ name }) => name).toSorted();
    return String(see(vms)) === String(own) || undefined;
  });
  await untilSo('nothing waits', async (see) => {
    const blocked = see(await listBlocked({ client: temporal, name: namespace })) as readonly unknown[];
    return blocked.length === 0 || undefined;
  });
}

/** Loses the Nodes of all machines. Answers them, for whoever starts their kubelets again. */
async function removeNodes(): Promise<Node[]> {
  const lost = await millwright.nodesOf(await millwright.machines());
  await loseNodes(stack, '/cluster-2');
  await untilSo('the Nodes are gone', async () => (await millwright.nodesOf(await millwright.machines())).length === 0);
  return lost;
}

async function registerAgain(lost: readonly Node[]): Promise<void> {
  const { target } = millwright;
  for (const { metadata, spec, status } of lost) {
    const { name, labels: own = {} } = metadata;
    const present = await target.find(nodes, { name });
    if (present !== undefined) continue;
    await target.create(nodes, { metadata: { name, labels: own }, spec: { ...spec } });
    await target.patch(nodes, { name }, mergePatch({ status }), { subresource: 'status' });
  }
}

/** Strikes, sees what is said, and heals what only people can heal. Between the two no healthy VM may go. */
type Disaster = () => Promise<void>;

/** A backup of etcd, or one of Temporal as well, is put back, which does not have a machine that was made since. */
async function restoreEtcd({ isBumped = false, withTemporal = false } = {}): Promise<void> {
  const { namespace } = millwright;
  await stop();
  if (withTemporal) await aroundTemporal(stack, backUp);
  await aroundEtcd(stack, backUp);
  await start();
  await millwright.createMachine(`late-${namespace}`);
  await millwright.untilPhase({ namespace, name: `late-${namespace}` }, 'Running', timeoutMs);
  const before = await revisionOf(stack);
  await stop();
  if (withTemporal) await aroundTemporal(stack, putBack);
  await aroundEtcd(stack, putBack, async () => {
    if (isBumped) await bumpRevision(stack, before + 1_000);
  });
  await start();
  await untilSickIsReplaced();

  const output = await sweep();
  expect(output).toContain(`late-${namespace}`);
  expect(output).toContain('approv');
  if (withTemporal) expect(output).toContain(`1 orphan may be healthy (late-${namespace}: Temporal does not say that`);
  expect((await millwright.cloud.vms()).map(({ name }) => name)).toContain(`late-${namespace}`);
  const { code } = await millwright.command('sweep', 'approve', `late-${namespace}`);
  expect(code).toBe(0);
}

/** Nobody has to do anything. */
async function untilItWorks(): Promise<void> {
  await untilSickIsReplaced();
  await sweep();
}

const disasters: Readonly<Record<string, Disaster>> = {
  'etcd is restored from a backup': () => restoreEtcd(),
  'etcd is restored with a higher revision': () => restoreEtcd({ isBumped: true }),
  'objects are created again with their status': async () => {
    await stop();
    await recreate(millwright, { withStatus: true });
    await start();
    await untilItWorks();
  },
  'objects are created again without status': async () => {
    await stop();
    await recreate(millwright, { withStatus: false });
    await start();
    await untilItWorks();
  },
  'the Nodes are gone': async () => {
    const lost = await removeNodes();
    await millwright.untilEvent('rest', 'ReplacementHeld');
    await sweep();
    const { output } = await millwright.command('stuck');
    expect(output).toMatch(/Outage: \d rollouts\./);
    await registerAgain(lost);
    await untilSickIsReplaced();
  },
  'the kubeconfig leads to another cluster': async () => {
    const { control, temporal, namespace } = millwright;
    const key = { namespace, name: `doomed-${namespace}` };
    await millwright.createMachine(key.name);
    await millwright.untilPhase(key, 'Running', timeoutMs);
    await stop();
    const clusters = ['--control-kubeconfig', stack.kubeconfig, '--target-kubeconfig', stack.kubeconfig];
    const wrong = startProcess(['run', ...clusters, ...commonArgs(namespace)]);
    await control.delete(machines, key);
    await untilSo('a deletion waits', async (see) => {
      const blocked = await listBlocked({ client: temporal, name: namespace });
      see([blocked.map((each) => each.blockedOn), wrong.logs().slice(-2_000)]);
      return blocked.some(({ blockedOn }) => blockedOn === 'KubernetesApi') || undefined;
    });
    expect((await millwright.command('stuck')).output).toContain('the cluster of the Nodes is another one than before');
    await sweep();
    expect((await millwright.cloud.vms()).map(({ name }) => name)).toContain(key.name);
    await wrong.stop();
    await start();
    await untilSickIsReplaced();
  },
  'Temporal loses its database': async () => {
    await aroundTemporal(stack, lose);
    await untilItWorks();
  },
  'Temporal is restored from a backup': async () => {
    await stop();
    await aroundTemporal(stack, backUp);
    await start();
    await millwright.createMachine(`later-${millwright.namespace}`);
    await millwright.untilPhase(
      { namespace: millwright.namespace, name: `later-${millwright.namespace}` },
      'Running',
      timeoutMs,
    );
    await aroundTemporal(stack, putBack);
    await untilItWorks();
  },
  'etcd and Temporal are restored from backups': () => restoreEtcd({ withTemporal: true }),
  'the cloud lists nothing': async () => {
    await hide({ kind: 'hidden', operation: 'list' });
    await untilItWorks();
    await hide();
    await sweep(); // of the VM of the replaced machine, which nobody could find
  },
  'the cloud answers with a former state': async () => {
    const since = new Date().toISOString();
    await millwright.createMachine(`young-${millwright.namespace}`);
    await millwright.untilPhase(
      { namespace: millwright.namespace, name: `young-${millwright.namespace}` },
      'Running',
      timeoutMs,
    );
    await hide({ kind: 'hidden', since });
    await sweep();
    await hide();
    await untilItWorks();
  },
  'the credentials are those of another account': async () => {
    await hide({ kind: 'hidden' });
    await sweep();
    await hide();
    await untilItWorks();
  },
};

/** Has the cloud show less than there is, besides what it lacks anyway. */
function hide(...faults: Parameters<Installation['cloud']['setFaults']>): Promise<void> {
  return millwright.cloud.setFaults({ kind: 'capacity', tags: { is: 'full' } }, ...faults);
}

describe('the table of what has been lost or restored', () => {
  it('lists each disaster', async () => {
    const page = await readFile(join(root, 'docs/how-to/disaster-recovery.md'), 'utf8');
    const rows = /^\| what happens \| what waits [^]*?\n\n/m.exec(page)?.[0].trim().split('\n').slice(2) ?? [];
    expect(rows.map((row) => row.split('|')[1]?.trim())).toEqual(Object.keys(disasters));
  });
});

const chosen = isLong() ? Object.keys(disasters) : ['objects are created again without status', 'the Nodes are gone'];

describe('[invariant 4] [invariant 6] no healthy VM goes without approval, and everything converges', () => {
  it.each(chosen)(
    'when %s',
    async (name) => {
      await begin();
      const before = await vmsByDeployment();

      await disasters[name]!();

      await expectHealthyOnesAlive(before);
      await untilConverged();
    },
    5 * timeoutMs,
  );
});
