/** A Millwright of its own for one test: namespace, processes, simulated cloud, and what to ask them. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, Connection, type WorkflowHandle } from '@temporalio/client';
import { labels } from '../../api/gardener/names.ts';
import { machineClasses, machineDeployments, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { names } from '../../api/names.ts';
import { type WorkflowKind, workflowId } from '../../api/workflow-id.ts';
import { installCrds } from '../../deploy/local/crds.ts';
import { type SimulatedCloudOptions, startSimulatedCloud } from '../../deploy/local/simulated-cloud/admin.ts';
import { createKubeClient, type KubeClient } from '../../kube/client.ts';
import { loadKubeconfig } from '../../kube/config.ts';
import { type Node, namespaces, nodes, secrets } from '../../kube/core.ts';
import { isNotFound } from '../../kube/errors.ts';
import { mergePatch } from '../../kube/patch.ts';
import type { MachineDescription } from '../../workflows/machine/messages.ts';
import { recordHistories } from '../replay/record.ts';
import { type HostedMillwright, startHosted } from './hosted.ts';
import { type MillwrightOptions, type MillwrightProcess, startMillwright } from './millwright.ts';
import { until } from './until.ts';

export interface InstallationOptions {
  /** Of the cluster of the Machines. Default: the first API server of the test stack. */
  readonly kubeconfig?: string;
  /** Default: the Temporal server of the test stack. */
  readonly temporalAddress?: string;
  /** Default: a new one. */
  readonly namespace?: string;
  /** Flags for the process, beside those that say where everything is. */
  readonly flags?: readonly string[];
  readonly cloud?: Partial<SimulatedCloudOptions>;
  /** Cluster that the nodes join, where it is not the one of the Machines. */
  readonly targetKubeconfig?: string;
  /** What the processes use to reach the control cluster, for example through a proxy. */
  readonly processKubeconfig?: string;
  /** Starts no process: the test will. */
  readonly isStopped?: boolean;
  /**
   * Why it needs a `millwright run` of its own, in words. Those with other servers or a proxy have one anyway; all others
   * share one process.
   */
  readonly alone?: string;
}

/** Whether workers remember workflows, as they do but for one run of the suite. */
export const isCached = process.env.MILLWRIGHT_MAX_CACHED_WORKFLOWS !== '0';

/** For what a whole OpenStack does while other tests run. */
const slowCloudMs = 120_000;

/** User data without placeholders, and the token that the cloud accepts. */
export const plainSecret = { token: 'letmein', userData: '#!/bin/sh\nexec kubelet' };

/** Environment variables that jest's global setup has set. */
export function fromSetup(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set: run the tests through npm test`);
  return value;
}

export type Installation = Awaited<ReturnType<typeof startInstallation>>;

/** Starts a simulated cloud and Millwright for a new namespace, with a Secret `pool` and a class `small`. */
export async function startInstallation(options: InstallationOptions = {}) {
  const kubeconfig = options.kubeconfig ?? fromSetup('MILLWRIGHT_TEST_KUBECONFIG');
  const targetKubeconfig = options.targetKubeconfig ?? kubeconfig;
  const temporalAddress = options.temporalAddress ?? fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS');
  const { namespace = `test-${randomBytes(4).toString('hex')}` } = options;
  const control = clientOf(kubeconfig);
  const target = targetKubeconfig === kubeconfig ? control : clientOf(targetKubeconfig);
  const dir = await mkdtemp(join(tmpdir(), 'millwright-test-'));
  const connection = await Connection.connect({ address: temporalAddress });
  const temporal = new Client({ connection });

  await installCrds(kubeconfig);
  await control.create(namespaces, { metadata: { name: namespace } });
  const fast = { bootMs: 50, joinMs: 100, deleteMs: 50 };
  const cloud = await startSimulatedCloud({
    dir: join(dir, 'cloud'),
    kubeconfig: targetKubeconfig,
    ...fast,
    ...options.cloud,
  });

  /** Its own. Empty while it runs in the process that tests share. */
  const processes: MillwrightProcess[] = [];
  const hosted: HostedMillwright[] = [];
  const logsOf = () => [...hosted, ...processes].map((millwright) => millwright.logs());
  /** Starts a Millwright process for the namespace. */
  async function start(command: MillwrightOptions['command'] = 'run'): Promise<MillwrightProcess> {
    const { flags = [] } = options;
    const clusters =
      options.processKubeconfig === undefined
        ? { kubeconfig, targetKubeconfig }
        : {
            kubeconfig: options.processKubeconfig,
            targetKubeconfig: options.targetKubeconfig ?? options.processKubeconfig,
          };
    const millwright = await startMillwright({ ...clusters, namespace, temporalAddress, command, flags });
    processes.push(millwright);
    return millwright;
  }

  let scenario: string | undefined;
  const installation = {
    namespace,
    control,
    target,
    cloud,
    temporal,
    processes,
    start,

    /** Makes a Secret, or changes its data. */
    async putSecret(name: string, stringData: Record<string, string>): Promise<void> {
      const present = await control.find(secrets, { namespace, name });
      if (present === undefined) await control.create(secrets, { metadata: { namespace, name }, stringData });
      else await control.patch(secrets, { namespace, name }, mergePatch({ stringData }));
    },

    /** Makes a class for the installation's cloud. */
    async createClass(name: string, changes: object = {}): Promise<void> {
      await control.create(machineClasses, {
        metadata: { namespace, name },
        provider: 'simulated',
        secretRef: { namespace, name: 'pool' },
        providerSpec: { endpoint: cloud.url, machineType: 'small', region: 'here', tags: { cluster: namespace } },
        ...changes,
      });
    },

    /** Makes a Machine by itself. */
    async createMachine(
      name: string,
      spec: object = { class: { kind: 'MachineClass', name: 'small' } },
    ): Promise<ObjectRef> {
      const { metadata } = await control.create(machines, { metadata: { namespace, name }, spec });
      return { dialect: 'gardener', namespace, name, uid: metadata.uid };
    },

    async createDeployment(name: string, replicas: number, changes: object = {}): Promise<void> {
      await control.create(machineDeployments, {
        metadata: { namespace, name },
        spec: {
          replicas,
          selector: { matchLabels: { [labels.name]: name } },
          strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
          template: {
            metadata: { labels: { [labels.name]: name } },
            spec: { class: { kind: 'MachineClass', name: 'small' } },
          },
          ...changes,
        },
      });
    },

    async scale(name: string, replicas: number): Promise<void> {
      await control.patch(machineDeployments, { namespace, name }, mergePatch({ spec: { replicas } }));
    },

    async machines(): Promise<Machine[]> {
      return (await control.list(machines, { namespace })).items;
    },

    /** Nodes of this installation's machines: their names are those of their VMs. */
    async nodes(): Promise<Node[]> {
      const names = new Set((await cloud.vms({ all: true })).map((vm) => vm.name));
      return findNodes(target, [...names].toSorted());
    },

    /** Nodes of these Machines, of any cloud. */
    async nodesOf(owners: readonly Machine[]): Promise<Node[]> {
      const providerIDs = new Set(owners.map(({ spec }) => spec?.providerID));
      const found = await findNodes(
        target,
        owners.map(({ metadata }) => metadata.labels?.[labels.node] ?? ''),
      );
      return found.filter(({ spec }) => providerIDs.has(spec?.providerID));
    },

    /** Waits until so many machines exist and all of them are in this phase. */
    async untilMachines(count: number, phase: string, timeoutMs?: number): Promise<Machine[]> {
      return until(
        `${count} machines are ${phase}`,
        async () => {
          const found = await installation.machines();
          return found.length === count && found.every((machine) => phaseOf(machine) === phase) ? found : undefined;
        },
        { ...(timeoutMs !== undefined && { timeoutMs }), describe: () => installation.story() },
      );
    },

    /** Waits until the Machine is in this phase, and returns it. */
    async untilPhase(ref: ObjectRef, phase: string, timeoutMs?: number): Promise<Machine> {
      return until(
        `${ref.name} is ${phase}`,
        async () => {
          const machine = await control.get(machines, ref);
          return phaseOf(machine) === phase && machine;
        },
        { ...(timeoutMs !== undefined && { timeoutMs }), describe: () => installation.story() },
      );
    },

    /** Waits until the Machine shows a failure with this code, and returns what it says. */
    async untilRefused(ref: ObjectRef, code: string): Promise<string> {
      return until(
        `${ref.name} fails with ${code}`,
        async () => {
          const { lastOperation } = (await control.get(machines, ref)).status ?? {};
          return lastOperation?.errorCode === code ? lastOperation.description : undefined;
        },
        { timeoutMs: slowCloudMs, describe: () => installation.story() },
      );
    },

    /** Waits until there are as many machines as these, all others, and all are Running. Returns them. */
    async untilReplaced(before: readonly Machine[], timeoutMs: number): Promise<Machine[]> {
      const uids = new Set(before.map(({ metadata }) => metadata.uid));
      return until(
        'all machines are replaced',
        async () => {
          const found = await installation.machines();
          const isNew = ({ metadata }: Machine) => !uids.has(metadata.uid);
          const areReplaced = found.every((each) => isNew(each) && phaseOf(each) === 'Running');
          return found.length === uids.size && areReplaced && found;
        },
        { timeoutMs, describe: () => installation.story() },
      );
    },

    /** Deletes the Machine, and waits until it does not exist any more. */
    async remove(ref: ObjectRef): Promise<void> {
      await control.delete(machines, ref);
      await installation.untilGone(ref, slowCloudMs);
    },

    /** Waits until the Machine does not exist any more. */
    async untilGone(ref: ObjectRef, timeoutMs?: number): Promise<void> {
      await until(`${ref.name} is gone`, async (see) => see(await control.find(machines, ref)) === undefined, {
        ...(timeoutMs !== undefined && { timeoutMs }),
        describe: () => installation.story(),
      });
    },

    /** The VMs that were ever made for a Machine, by the UID in their tags. */
    async vmsOf({ uid }: ObjectRef) {
      return (await cloud.vms({ all: true })).filter(({ tags }) => tags[names.machineUid] === uid);
    },

    /** The workflow of an object. */
    handleOf(ref: ObjectRef, kind: WorkflowKind = 'Machine'): WorkflowHandle {
      return temporal.workflow.getHandle(workflowId(namespace, kind, ref));
    },

    /** Answer of a machine's `describe` query. */
    async describe(ref: ObjectRef): Promise<MachineDescription> {
      const handle = installation.handleOf(ref);
      // Without a cache the SDK forgets the local activities of a task that comes with a question, and fails it: while
      // somebody asks again and again the workflow stands still.
      const isBusy = async () => !isCached && Boolean((await handle.describe()).raw.pendingWorkflowTask);
      await until('no task is under way', async (see) => !see(await isBusy()));
      return handle.query('describe');
    },

    /** What a person would want to see when a test waits in vain. */
    async story(): Promise<string> {
      const found = await installation.machines();
      const states = found.map((machine) => `${machine.metadata.name} ${phaseOf(machine) || '(new)'}`);
      const failed = found.flatMap(({ status }) =>
        status?.lastOperation?.state === 'Failed' ? (status.lastOperation.description ?? '') : [],
      );
      const logs = logsOf().map((log) => log.split('\n').slice(-15).join('\n'));
      return [...states.slice(0, 10), ...failed.slice(0, 3), ...logs].join('\n');
    },

    /** Has `npm run record` keep what the workflows will have done at the end, as test/histories/<name>. */
    recordAs(name: string): void {
      scenario = name;
    },

    /** Ends the processes and removes what they leave. */
    async stop(): Promise<void> {
      for (const millwright of [...hosted, ...processes]) await millwright.stop();
      const left = await installation.nodes().catch(() => []); // after a failure the API server may be down
      await cloud.stop();
      // Nobody else does, and whoever has a machine of that name later would find it taken.
      for (const { metadata } of left) {
        const released = mergePatch({ metadata: { finalizers: null } });
        await target.delete(nodes, metadata).catch(ignoreMissing);
        await target.patch(nodes, metadata, released).catch(ignoreMissing);
      }
      if (scenario !== undefined) await recordHistories({ client: temporal, installation: namespace, scenario });
      await connection.close();
      await control.close();
      if (target !== control) await target.close();
      await rm(dir, { recursive: true, force: true });
      // Whatever the test was about. TMPRL1100: a workflow has done something else when it was replayed.
      const [unlike] = logsOf().flatMap((log) => log.match(/.*TMPRL1100.*/) ?? []);
      if (unlike !== undefined) throw new Error(`a workflow is not deterministic:\n${unlike}`);
    },
  };

  await installation.putSecret('pool', plainSecret);
  await installation.createClass('small');
  const { alone, temporalAddress: otherTemporal, processKubeconfig, flags = [] } = options;
  const isShared = [alone, otherTemporal, processKubeconfig].every((each) => each === undefined);
  if (options.isStopped === true) return installation;
  if (!isShared) await start();
  else hosted.push(await startHosted({ namespace, kubeconfig, targetKubeconfig, temporalAddress, flags }));
  return installation;
}

/** Those that exist, by their names: a cluster has the Nodes of other tests, too. */
async function findNodes(target: KubeClient, names: readonly string[]): Promise<Node[]> {
  const found = await Promise.all(names.map((name) => target.find(nodes, { name })));
  return found.flatMap((node) => node ?? []);
}

function ignoreMissing(error: unknown): void {
  if (!isNotFound(error)) throw error;
}

export function phaseOf({ status }: Machine): string {
  return status?.currentStatus?.phase ?? '';
}

function clientOf(kubeconfig: string): KubeClient {
  return createKubeClient({ access: loadKubeconfig(kubeconfig), userAgent: 'millwright-test', qps: 500, burst: 1000 });
}
