/**
 * A disaster strikes while machines are in every state: at rest, in the middle of a rollout and of a scale-down, one of
 * many unhealthy, and a sweep is due. No healthy VM goes without approval, and in the end everything is as it was asked
 * for.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { labels } from '../../api/gardener/names.ts';
import { machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import type { Blocker } from '../../api/names.ts';
import { root } from '../../deploy/generators/root.ts';
import { type Stack, startStack } from '../../deploy/local/stack.ts';
import { type Node, namespaces, nodes, podDisruptionBudgets, pods } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { listBlocked } from '../../temporal/blocked.ts';
import { sweepScheduleId } from '../../temporal/schedules.ts';
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
import { type Process, startProcess } from '../support/millwright.ts';
import { reportCondition } from '../support/node-conditions.ts';
import { recreate } from '../support/recreated.ts';
import { type Supervised, supervise } from '../support/supervised.ts';
import { quickSweeps, untilOld } from '../support/sweeps.ts';
import { until } from '../support/until.ts';

const timeoutMs = 180_000;
/** Machines of the deployment one of whose Nodes is unhealthy. */
const many = isLong() ? 10 : 4;
/** How many machines each deployment has in the end. */
const wanted = { rest: 2, rolling: 3, shrinking: 2, sick: many } as const;
type Name = keyof typeof wanted;

const flags = [
  ...[...quickSweeps, '--machine-safety-orphan-vms-period', '5s'],
  ...['--machine-health-timeout', '5s', '--resource-exhausted-retry', '1s'],
];
/**
 * What keeps machines waiting before any disaster: no capacity for the rollout, a budget for the scale-down, a Node.
 */
const usual = ['CloudCapacity', 'PodDisruptionBudget', 'NodeHealth'];

let stack: Stack;
let millwright: Installation;
let millwrightRun: Supervised | undefined;
/** Of a kubeconfig that leads to another cluster. */
let wrongRun: Process | undefined;
/** Those of the machines that were Running, and stay, when the disaster struck. */
let healthyVms: readonly { readonly id: string; readonly name: string }[];
let sickName: string;

beforeAll(async () => {
  const dir = await mkdtemp(join(tmpdir(), 'millwright-disasters-'));
  stack = await startStack({ dir, clusters: 2, temporal: { dbFile: join(dir, 'temporal.db'), isBare: true } });
});
afterEach(async () => {
  await wrongRun?.stop();
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

/**
 * All deployments in their states, with a machine without a deployment.
 * @param backUp what is backed up while all are at rest
 */
async function begin(backUp?: () => Promise<void>): Promise<void> {
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
  await millwright.createMachine(`doomed-${namespace}`);
  await millwright.untilMachines(2 + 3 + 4 + many + 1, 'Running', timeoutMs);

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
  await backUp?.();
  await applyChanges();
  await untilInTheMiddle(2);
  sickName = (await millwright.machinesOf('sick'))[0]!.metadata.name;
  await reportUnhealthy(sickName);
  if (backUp !== undefined) await goFurther();
  healthyVms = await listHealthyVms();
}

/** A scale-down that a budget holds up, and a rollout for which there is no capacity. */
async function applyChanges(): Promise<void> {
  await millwright.scale('shrinking', wanted.shrinking);
  await millwright.changeDeployment('rolling', { spec: { template: { spec: { class: { name: 'full' } } } } });
}

async function untilInTheMiddle(leavingCount: number): Promise<void> {
  await untilSo('some are being deleted, and one waits for capacity', async (see) => {
    const leaving = (await millwright.machinesOf('shrinking')).filter((machine) => !isActive(machine));
    const rolling = await millwright.machinesOf('rolling');
    see([leaving.length, rolling.map((each) => [each.spec?.class?.name, phaseOf(each)])]);
    const waiting = rolling.filter((each) => phaseOf(each) === 'CrashLoopBackOff');
    return (leaving.length === leavingCount && rolling.length === 4 && waiting.length === 1) || undefined;
  });
}

/** One more machine is created and one deleted in the rollout, and one deleted in the scale-down. */
async function goFurther(): Promise<void> {
  const { cloud, namespace, target } = millwright;
  const [leaving] = (await millwright.machinesOf('shrinking')).filter((machine) => !isActive(machine));
  await target.delete(pods, { namespace, name: leaving!.metadata.name });
  await millwright.untilGone({ namespace, name: leaving!.metadata.name }, timeoutMs);
  await cloud.setFaults();
  await untilSo('one machine is new', async () => {
    const found = await millwright.machinesOf('rolling');
    return found.some((each) => each.spec?.class?.name === 'full' && phaseOf(each) === 'Running') || undefined;
  });
  await hide();
  await untilSo('the rollout waits for capacity, or is over', async (see) => {
    const rolling = await millwright.machinesOf('rolling');
    const phases = see(rolling.map((each) => [each.spec?.class?.name, phaseOf(each)])) as unknown[][];
    const ofNew = phases.filter(([className]) => className === 'full').map(([, phase]) => phase);
    return (
      (ofNew.length > 1 && rolling.every(isActive) && !ofNew.includes('Pending') && !ofNew.includes('')) || undefined
    );
  });
}

/** As the node lifecycle controller does when a kubelet says nothing. */
async function reportUnhealthy(...names: readonly string[]): Promise<void> {
  const { namespace, target } = millwright;
  for (const name of names) {
    await reportCondition(target, name, 'Ready', 'Unknown');
    await millwright.untilPhase({ namespace, name }, 'Unknown', timeoutMs);
  }
}

async function listHealthyVms(): Promise<typeof healthyVms> {
  const found = await Promise.all(Object.keys(wanted).map((name) => millwright.machinesOf(name)));
  const isHealthy = (each: Machine) => isActive(each) && phaseOf(each) === 'Running';
  const names = new Set(
    found
      .flat()
      .filter(isHealthy)
      .map(({ metadata }) => metadata.name),
  );
  const healthy = (await millwright.cloud.vms()).filter(({ name }) => names.has(name));
  expect(healthy.length).toBeGreaterThanOrEqual(2 + 3 + 2 + many - 1);
  return healthy;
}

async function expectHealthyOnesAlive(): Promise<void> {
  const alive = new Set((await millwright.cloud.vms()).filter(({ state }) => state === 'running').map(({ id }) => id));
  expect(healthyVms.filter(({ id }) => !alive.has(id))).toEqual([]);
}

/** A sweep of the Schedule that begins from now on has ended, or one waits for approval. */
async function untilSwept(): Promise<void> {
  const { namespace, temporal } = millwright;
  await untilOld(millwright);
  const since = new Date().toISOString();
  const scheduled = `TemporalScheduledById = '${sweepScheduleId(namespace)}'`;
  const ended = `ExecutionStatus = 'Completed' AND StartTime > '${since}'`;
  const held = "ExecutionStatus = 'Running' AND MillwrightBlockedOn = 'Brake'";
  await untilSo('a sweep was due', async () => {
    const { count } = await temporal.workflow.count(`${scheduled} AND ((${ended}) OR (${held}))`);
    return count > 0 || undefined;
  });
}

/**
 * Waits until only these causes keep something waiting that nothing has kept before. Answers what `millwright stuck`
 * says.
 */
async function untilStuckOn(...causes: readonly Blocker[]): Promise<string> {
  const { namespace, temporal } = millwright;
  await untilSo(`what waits is ${causes}`, async (see) => {
    const blocked = await listBlocked({ client: temporal, name: namespace });
    const found = new Set(blocked.map(({ blockedOn }) => blockedOn).filter((each) => !usual.includes(each)));
    see(blocked.map(({ blockedOn, workflowId }) => [blockedOn, workflowId]));
    return String([...found].toSorted()) === String(causes.toSorted()) || undefined;
  });
  const { output } = await millwright.command('stuck');
  const said = [...output.matchAll(/^(\w+): \d/gm)].map(([, cause]) => cause!);
  expect([said.filter((cause) => !usual.includes(cause)).toSorted(), output]).toEqual([causes.toSorted(), output]);
  return output;
}

/** Meanwhile one machine is created, one is deleted, and one is to be replaced. Answers the one that is created. */
async function changeSome(): Promise<ObjectRef> {
  const { control, namespace } = millwright;
  const made = await millwright.createMachine(`made-${namespace}`);
  await control.delete(machines, { namespace, name: `doomed-${namespace}` });
  await replaceSick();
  return made;
}

async function untilChanged(made: ObjectRef): Promise<void> {
  const { namespace } = millwright;
  await millwright.untilPhase(made, 'Running', timeoutMs);
  await millwright.untilGone({ namespace, name: `doomed-${namespace}` }, timeoutMs);
  await untilSickIsReplaced();
  expect(await millwright.vmsOf(made)).toHaveLength(1);
}

/** A sweep runs to its end, or waits for approval. */
async function sweep(): Promise<string> {
  await untilOld(millwright);
  return (await millwright.command('sweep')).output;
}

/**
 * The unhealthy machine is replaced once its health timeout is that of the others: so is every machine that counts as
 * unhealthy.
 */
async function replaceSick(): Promise<void> {
  await millwright.changeDeployment('sick', { spec: { template: { spec: { healthTimeout: null } } } });
}

async function untilSickIsReplaced(): Promise<void> {
  await replaceSick();
  await untilSo('the unhealthy machine is replaced', async (see) => {
    const found = await millwright.machinesOf('sick');
    see(found.map(phaseOf));
    const isThere = found.some(({ metadata }) => metadata.name === sickName);
    return (!isThere && found.length === many && found.every((each) => phaseOf(each) === 'Running')) || undefined;
  });
}

/** Everything becomes as it is asked for, nothing is left, and nothing waits. */
async function untilConverged(): Promise<void> {
  const { cloud, namespace, target, temporal } = millwright;
  await applyChanges(); // a backup may be from before them
  await cloud.setFaults();
  await target.delete(podDisruptionBudgets, { namespace, name: 'shrinking' }).catch(() => undefined);
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

async function backUpEtcd(): Promise<void> {
  await stop();
  await aroundEtcd(stack, backUp);
  await start();
}

async function backUpTemporal(): Promise<void> {
  await stop();
  await aroundTemporal(stack, backUp);
  await start();
}

/**
 * A backup of etcd, or one of Temporal as well, is put back: it lacks machines that were made since, and has deleted
 * ones.
 */
async function restoreEtcd({ isBumped = false, withTemporal = false } = {}): Promise<void> {
  const { namespace, cloud, target } = millwright;
  await millwright.createMachine(`late-${namespace}`);
  await millwright.untilPhase({ namespace, name: `late-${namespace}` }, 'Running', timeoutMs);
  const before = await revisionOf(stack);
  await stop();
  if (withTemporal) await aroundTemporal(stack, putBack);
  await aroundEtcd(stack, putBack, async () => {
    if (isBumped) await bumpRevision(stack, before + 1_000);
  });
  await start();
  await untilSwept();
  expect(await untilStuckOn('Brake')).toContain('waits for approval');
  const namesVm = ({ spec }: Machine) => spec?.providerID !== undefined;
  const found = (await millwright.machines()).filter(namesVm).map(({ metadata }) => metadata.name);
  const vms = (await cloud.vms()).map(({ name }) => name);
  const withoutVm = found.filter((name) => !vms.includes(name));
  await reportUnhealthy(sickName, ...withoutVm);
  // As the garbage collector of pods does when their Node is gone.
  for (const name of withoutVm) {
    await target.delete(pods, { namespace, name }, { gracePeriodSeconds: 0 }).catch(() => undefined);
  }
  await untilSickIsReplaced();
  await untilSo('what had been deleted before is replaced', async (see) => {
    const active = (await millwright.machines()).filter((each) => isActive(each) && namesVm(each));
    see(active.map((each) => [each.metadata.name, phaseOf(each)]));
    const isLeft = active.some(({ metadata }) => withoutVm.includes(metadata.name));
    return (!isLeft && active.every((each) => phaseOf(each) === 'Running')) || undefined;
  });
  await expectHealthyOnesAlive();

  const orphans = vms.filter((name) => !found.includes(name));
  healthyVms = healthyVms.filter(({ name }) => !orphans.includes(name));
  const output = await sweep();
  expect(output).toContain(`late-${namespace}`);
  expect(output).toContain('approv');
  if (withTemporal) expect(output).toContain(`1 orphan may be healthy (late-${namespace}: Temporal does not say that`);
  expect((await millwright.cloud.vms()).map(({ name }) => name)).toContain(`late-${namespace}`);
  const { code } = await millwright.command('sweep', 'approve', ...orphans);
  expect(code).toBe(0);
}

/** Nobody has to do anything. */
async function untilItWorks(): Promise<void> {
  await untilSwept();
  await untilStuckOn();
  await untilSickIsReplaced();
}

/** So it is while some machines change. */
async function untilItWorksMeanwhile(): Promise<void> {
  await untilChanged(await changeSome());
  await untilSwept();
  await untilStuckOn();
}

/** What is backed up before the rollout and the scale-down begin. */
const backUps: Readonly<Record<string, () => Promise<void>>> = {
  'etcd is restored from a backup': backUpEtcd,
  'etcd is restored from a backup with `--bump-revision`': backUpEtcd,
  'Temporal is restored from a backup': backUpTemporal,
};

const disasters: Readonly<Record<string, Disaster>> = {
  'etcd is restored from a backup': () => restoreEtcd(),
  'etcd is restored from a backup with `--bump-revision`': () => restoreEtcd({ isBumped: true }),
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
    await untilSwept();
    const installation = { client: millwright.temporal, name: millwright.namespace };
    await untilSo('all machines at rest wait for their Nodes', async (see) => {
      const waiting = (await listBlocked(installation)).filter(({ blockedOn }) => blockedOn === 'NodeHealth');
      see(waiting.map(({ workflowId }) => workflowId));
      const rest = await millwright.machinesOf('rest');
      return (
        rest.every(({ metadata: { uid } }) => waiting.some(({ workflowId }) => workflowId.endsWith(uid))) || undefined
      );
    });
    const { output } = await millwright.command('stuck');
    expect(output).toMatch(/Outage: \d rollouts\./);
    await registerAgain(lost);
    await untilSickIsReplaced();
  },
  'the kubeconfig leads to another cluster': async () => {
    const { temporal, namespace } = millwright;
    await stop();
    const clusters = ['--control-kubeconfig', stack.kubeconfig, '--target-kubeconfig', stack.kubeconfig];
    wrongRun = startProcess(['run', ...clusters, ...commonArgs(namespace)]);
    const made = await changeSome();
    await untilSo('a deletion waits', async (see) => {
      const blocked = await listBlocked({ client: temporal, name: namespace });
      see([blocked.map((each) => [each.blockedOn, each.workflowId]), wrongRun?.logs().slice(-2_000)]);
      const waiting = blocked.filter(({ blockedOn }) => blockedOn === 'KubernetesApi');
      return waiting.some(({ workflowId }) => workflowId.includes(`/doomed-${namespace}/`)) || undefined;
    });
    expect((await millwright.command('stuck')).output).toContain('the cluster of the Nodes is another one than before');
    await untilSwept();
    expect((await millwright.cloud.vms()).map(({ name }) => name)).toContain(`doomed-${namespace}`);
    expect((await millwright.machinesOf('sick')).map(({ metadata }) => metadata.name)).toContain(sickName);
    await millwright.untilPhase(made, 'Pending', timeoutMs);
    await wrongRun.stop();
    await start();
    await untilChanged(made);
  },
  'Temporal loses its database': async () => {
    const { control, namespace } = millwright;
    const lost = { namespace, name: `doomed-${namespace}` };
    await control.delete(machines, lost);
    await control.patch(machines, lost, mergePatch({ metadata: { finalizers: null } })).catch(() => undefined);
    const said = new Set<string>();
    await aroundTemporal(stack, async (path) => {
      await lose(path, path);
      if (said.size === 0) said.add((await millwright.command('stuck')).output);
    });
    expect([...said]).toEqual([expect.stringContaining(stack.temporalAddress)]);
    await untilSwept();
    expect(await untilStuckOn('Brake')).toContain('waits for approval');
    expect((await millwright.cloud.vms()).map(({ name }) => name)).toContain(lost.name);
    expect((await millwright.command('sweep', 'approve', lost.name)).code).toBe(0);
    await untilItWorks();
  },
  'Temporal is restored from a backup': async () => {
    await millwright.createMachine(`later-${millwright.namespace}`);
    await millwright.untilPhase(
      { namespace: millwright.namespace, name: `later-${millwright.namespace}` },
      'Running',
      timeoutMs,
    );
    await aroundTemporal(stack, putBack);
    await untilItWorks();
  },
  'etcd and Temporal are restored from backups': async () => {
    await backUpTemporal();
    await backUpEtcd();
    await restoreEtcd({ withTemporal: true });
  },
  'the cloud lists nothing': async () => {
    await hide({ kind: 'hidden', operation: 'list' });
    await untilItWorksMeanwhile();
    await hide();
    await untilSwept();
  },
  'the cloud answers with a former state': async () => {
    const since = new Date().toISOString();
    const young = { namespace: millwright.namespace, name: `young-${millwright.namespace}` };
    await millwright.createMachine(young.name);
    await millwright.untilPhase(young, 'Running', timeoutMs);
    await hide({ kind: 'hidden', since });
    await untilItWorksMeanwhile();
    await hide();
    await untilSwept();
  },
  'the credentials are those of another account': async () => {
    const since = new Date().toISOString();
    await hide({ kind: 'hidden', before: since });
    await untilItWorksMeanwhile();
    await hide({ kind: 'hidden', since, before: new Date().toISOString() });
    await untilSwept();
    await untilStuckOn();
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
    expect(Object.keys(disasters)).toEqual(expect.arrayContaining(Object.keys(backUps)));
  });
});

const chosen = isLong() ? Object.keys(disasters) : ['objects are created again without status', 'the Nodes are gone'];

describe('[invariant 4] [invariant 6] no healthy VM goes without approval, and everything converges', () => {
  it.each(chosen)(
    'when %s',
    async (name) => {
      await begin(backUps[name]);

      await disasters[name]!();

      await expectHealthyOnesAlive();
      await untilConverged();
    },
    5 * timeoutMs,
  );
});
