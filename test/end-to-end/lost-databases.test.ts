/**
 * What becomes of machines when a database is lost or restored from a backup. `npm test` restores Temporal, with few
 * machines.
 */
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { machineDeployments, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import { names } from '../../api/names.ts';
import { workflowId } from '../../api/workflow-id.ts';
import { type Stack, startStack } from '../../deploy/local/stack.ts';
import { loadKubeconfig } from '../../kube/config.ts';
import { nodes, podDisruptionBudgets, pods } from '../../kube/core.ts';
import { mergePatch, strategicMergePatch } from '../../kube/patch.ts';
import { ignoreGoneOrChanged } from '../../kube/update.ts';
import { listOpenWorkflows } from '../../temporal/workflows.ts';
import { retryNowSignal } from '../../workflows/messages.ts';
import { startControllersHere } from '../support/controllers.ts';
import { type Installation, isCached, phaseOf, startInstallation } from '../support/installation.ts';
import { isLong, isThorough } from '../support/long.ts';
import { refOf } from '../support/refs.ts';
import { type Supervised, supervise } from '../support/supervised.ts';
import { until } from '../support/until.ts';

interface Sizes {
  /** Machines in each of these states. */
  readonly running: number;
  readonly creating: number;
  readonly draining: number;
  /** From the copy of a database until it is put back, at least, ms. */
  readonly gapMs: number;
  /** How often controllers look again; undefined: as people run them, in a process of their own. */
  readonly resyncMs?: number;
  /** The longest that anything may take, ms. */
  readonly timeoutMs: number;
}

/** Defines the tests. They have a stack of their own, and each an installation. */
function describeLostDatabases(sizes: Sizes): void {
  const { running, creating, draining, gapMs, timeoutMs } = sizes;
  let dir: string;
  let stack: Stack;
  let millwright: Installation;
  let stopProcesses: () => Promise<void>;
  let worker: Supervised;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'millwright-lost-'));
    stack = await startStack({ dir, temporal: { dbFile: join(dir, 'temporal.db'), isBare: true } });
  });
  afterEach(async () => {
    await stopProcesses?.();
    await millwright?.stop();
  });
  afterAll(async () => {
    await stack?.stop();
    await rm(dir, { recursive: true, force: true });
  });

  async function startAll(): Promise<void> {
    const { kubeconfig, temporalAddress } = stack;
    const localRequest = { bootMs: 50, joinMs: 100, deleteMs: 50, maxGraceMs: 200 };
    millwright = await startInstallation({
      kubeconfig,
      temporalAddress,
      isStopped: true,
      isElected: true,
      awaitsExpiry: true,
      cloud: localRequest,
    });
    worker = await supervise(() => millwright.start('worker'));
    const stopControllers = await startThem();
    stopProcesses = async () => {
      await stopControllers();
      await worker.stop();
      // A worker has seen more of a workflow than a server that was restored: it says that the two differ, and reads
      // again.
      millwright.processes.splice(0);
    };
    const { cloud } = millwright;
    for (const fault of ['held', 'kept']) {
      await millwright.createClass(fault, {
        providerSpec: { endpoint: cloud.url, machineType: 'small', region: 'here', tags: { fault } },
      });
    }
    await cloud.setFaults(...faults);
  }

  /** Machines of the class `held` are being created, and those of `kept` deleted, until `release`. */
  const faults = [
    { kind: 'hang', effect: 'done', operation: 'create', tags: { fault: 'held' } },
    { kind: 'hang', effect: 'done', operation: 'delete', tags: { fault: 'kept' } },
  ] as const;
  const release = () => millwright.cloud.setFaults();

  async function startThem(): Promise<() => Promise<void>> {
    if (sizes.resyncMs === undefined) return (await supervise(() => millwright.start('controllers'))).stop;
    return startControllersHere(millwright, loadKubeconfig(stack.kubeconfig), sizes.resyncMs);
  }

  /** Names of nodes, and so of the machines that have them, are one for the whole cluster. */
  const own = (name: string) => `${name}-${millwright.namespace}`;
  const create = (name: string, machineClass = 'small') =>
    millwright.createMachine(own(name), { class: { kind: 'MachineClass', name: machineClass } });
  const keyOf = (name: string) => ({ namespace: millwright.namespace, name: own(name) });
  const createHeld = (name: string, replicas: number) =>
    millwright.createDeployment(name, replicas, {
      template: {
        metadata: { labels: { name } },
        spec: { class: { kind: 'MachineClass', name: 'held' } },
      },
      selector: { matchLabels: { name } },
    });

  const untilSo = <T>(what: string, check: () => Promise<T | undefined>) =>
    until(what, check, { timeoutMs, describe: story });
  async function story(): Promise<string> {
    const atWork = (await millwright.machines()).filter((machine) => phaseOf(machine) !== 'Running');
    const reported = atWork.slice(0, 5).map(async (machine) => {
      const handle = millwright.temporal.workflow.getHandle(
        workflowId(millwright.namespace, 'Machine', refOf(machine)),
      );
      const [says, { raw }] = await Promise.all([describeOf(machine), handle.describe()]);
      return JSON.stringify([machine.metadata.name, says, raw.pendingActivities, raw.pendingWorkflowTask]);
    });
    return [...(await Promise.all(reported.map((each) => each.catch(String)))), await millwright.story()].join('\n');
  }
  const untilPhase = (phase: string, count: number, prefix = '') =>
    untilSo(`${count} machines ${prefix} are ${phase}`, async () => {
      const found = (await ofPrefix(prefix)).filter((machine) => phaseOf(machine) === phase);
      return found.length === count ? found : undefined;
    });
  const untilGone = (prefix: string) => untilSo(`${prefix} is gone`, async () => (await ofPrefix(prefix)).length === 0);
  const ofPrefix = async (prefix: string): Promise<Machine[]> =>
    (await millwright.machines()).filter(({ metadata }) => metadata.name.startsWith(prefix));
  const describeOf = (machine: Machine) => millwright.describe(refOf(machine)).catch(() => undefined);

  /** Which VMs there are, as `<Machine UID> <id>`. */
  const vms = async () =>
    (await millwright.cloud.vms()).map(({ id, tags }) => `${tags[names.machineUid]} ${id}`).sort();
  const uidsOf = (found: readonly Machine[]) => found.map(({ metadata }) => metadata.uid).sort();
  const vmsEver = async () => (await millwright.cloud.stats()).vmsEver;

  /** Machines whose drains a budget blocks: deleted, and not gone before `endDrains`. */
  async function startDrains(prefix: string, isDeleted = true): Promise<void> {
    const { namespace, target } = millwright;
    const key = { namespace, name: prefix };
    const guarded = await untilPhase('Running', draining, prefix);
    const { metadata } = await target.create(podDisruptionBudgets, {
      metadata: key,
      spec: { selector: { matchLabels: { app: prefix } }, minAvailable: '100%' },
    });
    const counts = {
      currentHealthy: draining,
      desiredHealthy: draining,
      expectedPods: draining,
      disruptionsAllowed: 0,
    };
    const status = { observedGeneration: metadata.generation, ...counts };
    await target.patch(podDisruptionBudgets, key, mergePatch({ status }), { subresource: 'status' });
    for (const { metadata: of } of guarded) {
      await target.create(pods, {
        metadata: { namespace, name: of.name, labels: { app: prefix } },
        spec: { nodeName: of.name, containers: [{ name: 'app', image: 'app' }] },
      });
    }
    if (isDeleted) await deleteDrained(prefix);
  }
  async function deleteDrained(prefix: string): Promise<void> {
    for (const machine of await ofPrefix(prefix)) await millwright.control.delete(machines, refOf(machine));
    await untilSo('their drains are blocked', async () => {
      const reported = await Promise.all((await ofPrefix(prefix)).map(describeOf));
      return reported.every((each) => each?.blockedOn === 'PodDisruptionBudget');
    });
  }
  const endDrains = (prefix: string) =>
    millwright.target.delete(podDisruptionBudgets, { namespace: millwright.namespace, name: prefix });

  /** Stops the server, does something with its files, and starts it again. */
  async function aroundTemporal(change: (file: string, copy: string) => Promise<void>): Promise<void> {
    await stack.temporal.kill('SIGKILL');
    for (const suffix of ['', '-wal', '-shm'])
      await change(join(dir, `temporal.db${suffix}`), join(dir, `copy${suffix}`));
    await stack.temporal.restart();
  }
  async function aroundEtcd(change: (folder: string, copy: string) => Promise<void>): Promise<void> {
    const [{ apiServer }] = stack.clusters;
    await apiServer.kill('SIGKILL'); // it would wait for its watchers
    await stack.etcd.kill();
    await change(join(dir, 'etcd'), join(dir, 'etcd-copy'));
    await stack.etcd.restart();
    // With all clients upon it at once it may take longer than a server gets.
    await untilSo('the API server is back', () =>
      apiServer.restart().then(
        () => true,
        () => undefined,
      ),
    );
  }
  async function copy(from: string, to: string): Promise<void> {
    await rm(to, { recursive: true, force: true });
    await cp(from, to, { recursive: true }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error; // SQLite has no -wal after a clean end
    });
  }
  const putBack = (file: string, backup: string) => copy(backup, file);
  const untilPast = (timeMs: number) => untilSo('the copy is old enough', async () => Date.now() >= timeMs);

  /** No workflow is open but those of objects that are there. */
  async function untilNoStrays(): Promise<void> {
    const { namespace, temporal } = millwright;
    await untilSo('no workflow of a machine that is gone is open', async () => {
      const present = new Set(
        (await millwright.machines()).map((each) => workflowId(namespace, 'Machine', refOf(each))),
      );
      const open = await listOpenWorkflows({ client: temporal, name: namespace });
      const strays = open.filter(({ id }) => id.startsWith(`${namespace}/machine/`) && !present.has(id));
      return strays.length === 0;
    });
  }

  /** In the end everything goes, and nothing is left of it. */
  async function deleteAll(): Promise<void> {
    const { control, namespace } = millwright;
    const { items } = await control.list(machineDeployments, { namespace });
    for (const { metadata } of items) await control.delete(machineDeployments, metadata);
    for (const machine of await millwright.machines()) {
      await ignoreGoneOrChanged(() => control.delete(machines, refOf(machine))); // its deployment may have been faster
    }
    await untilGone('');
  }

  describe('[invariant 1] [invariant 6] without its past', () => {
    if (isThorough()) {
      it(
        'Temporal loses its database: all machines go on as they are',
        async () => {
          await startAll();
          millwright.recordAs('temporal-lost');
          for (let i = 0; i < draining; i++) await create(`drain-${i}`);
          await startDrains('drain');
          await millwright.createDeployment('kept', running);
          const kept = await untilPhase('Running', running, 'kept');
          await createHeld('fresh', creating);
          await untilSo('all are being created', async () => {
            return (await vmsEver()) === running + creating + draining;
          });
          const before = await vms();

          await aroundTemporal((file) => rm(file, { force: true }));
          await release();

          await untilPhase('Running', creating, 'fresh');
          expect(uidsOf(await untilPhase('Running', running, 'kept'))).toEqual(uidsOf(kept));
          expect(await vms()).toEqual(before);
          await endDrains('drain');
          await untilGone('drain');
          expect(await vmsEver()).toBe(running + creating + draining);
          await deleteAll();
          expect(await vms()).toEqual([]);
        },
        10 * timeoutMs,
      );
    }

    it(
      'Temporal is restored from a backup: what happened since stays as it is',
      async () => {
        await startAll();
        millwright.recordAs('temporal-restored');
        const { cloud, control } = millwright;
        for (let i = 0; i < draining; i++) await create(`drain-${i}`);
        await startDrains('drain');
        await create('leaving');
        await untilPhase('Running', 1, 'leaving');
        await millwright.createDeployment('doomed', 2);
        await millwright.createDeployment('kept', running);
        await untilPhase('Running', 2, 'doomed');
        await untilPhase('Running', running, 'kept');
        await createHeld('fresh', creating);
        await create('lost', 'held');
        await untilSo('all are being created', async () => {
          return (await vmsEver()) === running + creating + draining + 4;
        });
        await aroundTemporal(copy);
        const copiedAt = Date.now();

        await release();
        await untilPhase('Running', creating, 'fresh');
        await untilPhase('Running', 1, 'lost');
        await control.delete(machines, keyOf('lost'));
        await control.delete(machines, keyOf('leaving'));
        await control.delete(machineDeployments, { namespace: millwright.namespace, name: 'doomed' });
        await millwright.scale('kept', running - 1);
        await millwright.createClass('new');
        await create('later', 'new');
        await millwright.createDeployment('later', 2);
        for (const gone of ['lost', 'leaving', 'doomed']) await untilGone(gone);
        await untilPhase('Running', 3, 'later');
        await untilSo('one is gone', async () => (await ofPrefix('kept')).length === running - 1);
        // An open run that goes on after the copy: the worker's memory is ahead of the restored server.
        const [blocked] = await ofPrefix('drain');
        const handle = millwright.handleOf(refOf(blocked!));
        for (let sent = 0; sent < 10; sent++) await handle.signal(retryNowSignal);
        await untilSo('they are handled', async () => !(await handle.describe()).raw.pendingWorkflowTask || undefined);
        await untilPast(copiedAt + gapMs);
        const [before, vmsBefore, ever] = [await millwright.machines(), await vms(), await vmsEver()];
        await cloud.setFaults();
        expect(worker.ends).toBe(0); // a restart alone is nothing
        await aroundTemporal(putBack);

        if (isCached) {
          await untilSo('the worker has noticed', async () => worker.ends === 1);
          expect(worker.logs()).toContain('Temporal was restored from a backup');
        }
        await untilNoStrays();
        await endDrains('drain');
        await untilGone('drain');
        const staying = before.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
        expect(uidsOf(await untilPhase('Running', staying.length))).toEqual(uidsOf(staying));
        expect(await vms()).toEqual(
          vmsBefore.filter((vm) => staying.some(({ metadata }) => vm.startsWith(metadata.uid))),
        );
        expect(await vmsEver()).toBe(ever);
        await deleteAll();
        expect(await vms()).toEqual([]);
      },
      10 * timeoutMs,
    );

    if (isThorough()) {
      it(
        'etcd is restored from a backup: no VM of a machine that it knows is deleted, and no second one is created',
        async () => {
          await startAll();
          millwright.recordAs('etcd-restored');
          const { cloud, control, target } = millwright;
          for (let i = 0; i < draining; i++) await create(`drain-${i}`);
          await startDrains('drain', false);
          await create('leaving');
          await create('kept', 'kept');
          await untilPhase('Running', 1, 'leaving');
          await untilPhase('Running', 1, own('kept'));
          await millwright.createDeployment('pool', running);
          await untilPhase('Running', running, 'pool');
          await createHeld('fresh', creating);
          await control.delete(machines, keyOf('kept'));
          await untilSo('all are being created', async () => {
            return (await vmsEver()) === running + creating + draining + 2;
          });
          await untilPhase('Terminating', 1, own('kept'));
          await aroundEtcd(copy);
          const copiedAt = Date.now();

          await release();
          await untilPhase('Running', creating, 'fresh');
          await untilGone(own('kept'));
          await control.delete(machines, keyOf('leaving'));
          await untilGone('leaving');
          await deleteDrained('drain');
          await create('later');
          await untilPhase('Running', 1, 'later');
          await untilPast(copiedAt + gapMs);
          const [before, ever] = [await vms(), await vmsEver()];
          await aroundEtcd(putBack);

          // A kubelet whose Node is lost registers it with its next start.
          const findLost = async () => {
            const present = new Set((await target.list(nodes)).items.map(({ metadata }) => metadata.name));
            return (await cloud.vms()).filter((vm) => vm.name.startsWith('fresh') && !present.has(vm.name));
          };
          for (const { id } of await findLost()) await cloud.restartVm(id);
          await untilSo('the nodes that were lost are registered again', async () => (await findLost()).length === 0);
          await untilGone(own('kept'));
          await untilPhase('Running', running, 'pool');
          await untilPhase('Running', creating, 'fresh');
          await untilSo('the drains have been given up', async () => {
            const reported = await Promise.all((await ofPrefix('drain')).map(describeOf));
            return reported.every((each) => each === undefined || each.doing === 'running');
          });
          await untilPhase('Running', draining, 'drain');
          await untilNoStrays();
          expect(await ofPrefix('later')).toEqual([]);
          expect([await vms(), await vmsEver()]).toEqual([before, ever]);

          // The Machine is back from the dead. Its Node shows it: no kubelet reports for it any more.
          const [back] = await untilPhase('Running', 1, 'leaving');
          const silence = { type: 'Ready', status: 'Unknown', reason: 'NodeStatusUnknown', message: 'no kubelet' };
          const patch = strategicMergePatch({ status: { conditions: [silence] } });
          await target.patch(nodes, { name: own('leaving') }, patch, { subresource: 'status' });
          await untilPhase('Unknown', 1, 'leaving');
          expect(await vmsEver()).toBe(ever);
          expect(back?.metadata.deletionTimestamp).toBeUndefined();
          await endDrains('drain');
          await deleteAll();
          expect(await vms()).toHaveLength(1); // that of the Machine that etcd has forgotten: the orphan sweep's
        },
        10 * timeoutMs,
      );
    }
  });
}

describeLostDatabases(
  isLong()
    ? { running: 100, creating: 20, draining: 10, gapMs: 60_000, timeoutMs: 600_000 }
    : { running: 4, creating: 2, draining: 2, gapMs: 2_000, resyncMs: 2_000, timeoutMs: 180_000 },
);
