/** The servers, cloud and processes that a bench measures, and what it asks them. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from '@temporalio/client';
import { labels } from '../../api/gardener/names.ts';
import { machineClasses, machineDeployments, machines } from '../../api/gardener/resources.ts';
import { searchAttributes } from '../../api/names.ts';
import { installCrds } from '../../deploy/local/crds.ts';
import { startSimulatedCloud } from '../../deploy/local/simulated-cloud/admin.ts';
import { startStack } from '../../deploy/local/stack.ts';
import { createKubeClient } from '../../kube/client.ts';
import { loadKubeconfig } from '../../kube/config.ts';
import { namespaces, secrets } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { connectClient } from '../../temporal/connection.ts';
import { startFaultProxy } from '../faults/proxy.ts';
import { startHost, startHosted } from '../support/hosted.ts';
import { startMillwright } from '../support/millwright.ts';
import { runBareWorkflows } from './probe.ts';
import type { Processes } from './usage.ts';

/** From the create call to its answer, ms: what the figures of docs/performance.md were measured with. */
export const createMs = 200;
/** From that answer to the registration of the Node, ms. */
export const joinMs = 1_000;

/** Kubelets that neither renew Leases nor send heartbeats: a fifth of `create 1000` would be theirs. */
const quiet = { leaseRenewMs: 2 ** 31 - 1, statusUpdateMs: 2 ** 31 - 1 };

/** What the shared process has otherwise in tests. */
const inProduction = ['--fast-workflow-sandbox', 'false'];

export interface WorldOptions {
  /** Of a cluster that runs already, with the CRDs. Default: one is started. */
  readonly kubeconfig?: string | undefined;
  /** `host:port` of a Temporal server that runs already. Default: one is started. */
  readonly temporalAddress?: string | undefined;
  /** Audit log of that cluster. Without one its requests are not counted. */
  readonly auditLog?: string | undefined;
  /** Namespace of the machines. Default: a new one. Give it with `isForeign`, whose controller has to watch it. */
  readonly namespace?: string | undefined;
  /** A MachineClass of that namespace, and one that differs. Default: classes of a simulated cloud are made. */
  readonly classes?: readonly [string, string] | undefined;
  /** Another controller runs, which is not started and stopped here. */
  readonly isForeign: boolean;
  /**
   * How many processes with workers each installation has, beside one with its controllers. Default: one process with
   * both.
   */
  readonly workers?: number | undefined;
  /**
   * How many installations there are, each with a namespace, machines and Nodes of its own. One process serves them
   * all, unless `workers` is given. Default: one, in a process as people run it.
   */
  readonly installations?: number | undefined;
}

export type World = Awaited<ReturnType<typeof startWorld>>;

/** A namespace with machines. Its MachineDeployment has the same name, so that no two Nodes have one name. */
interface Installation {
  readonly namespace: string;
  readonly classes: readonly [string, string];
  /** Shows the Nodes of this installation alone. Left out: the control cluster. */
  readonly targetKubeconfig?: string;
}

/** A process of Millwright. Those of one name are a row. */
interface Running {
  readonly name: string;
  readonly pid: number;
  stop(): Promise<void>;
  kill(signal: 'SIGKILL'): Promise<unknown>;
}

/** Label of the Nodes of an installation. */
const nodeLabel = 'bench';

/** Starts what is not there yet. */
export async function startWorld(options: WorldOptions) {
  const ending: (() => Promise<void>)[] = [];
  const stop = async () => {
    for (const end of ending.toReversed()) await end();
  };
  try {
    return { ...(await open(options, ending)), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function open(options: WorldOptions, ending: (() => Promise<void>)[]) {
  const isOwnStack = options.kubeconfig === undefined || (options.temporalAddress === undefined && !options.isForeign);
  const stack = isOwnStack ? await startStack({ isAudited: true }) : undefined;
  if (stack) ending.push(() => stack.stop());
  const kubeconfig = options.kubeconfig ?? stack?.kubeconfig ?? '';
  const temporalAddress = options.temporalAddress ?? stack?.temporalAddress ?? '';
  if (options.kubeconfig === undefined) await installCrds(kubeconfig);
  const control = createKubeClient({ access: loadKubeconfig(kubeconfig), userAgent: 'bench', qps: 500, burst: 1_000 });
  ending.push(() => control.close());
  const dir = await mkdtemp(join(tmpdir(), 'millwright-bench-'));
  ending.push(() => rm(dir, { recursive: true, force: true }));
  const cloud = options.classes === undefined ? await startCloud() : undefined;
  const temporal = options.isForeign ? undefined : await openTemporal();
  const installations: Installation[] = [];
  for (let i = 0; i < (options.installations ?? 1); i++) installations.push(await prepareInstallation());
  let running: Running[] = [];
  ending.push(async () => {
    for (const { stop } of running.toReversed()) await stop();
  });

  async function startCloud() {
    const started = await startSimulatedCloud({ dir, kubeconfig, bootMs: 0, joinMs, deleteMs: 100, ...quiet });
    ending.push(() => started.stop());
    await started.setFaults({ kind: 'latency', operation: 'create', ms: createMs });
    return started;
  }

  async function openTemporal() {
    const connection = await connectClient({ address: temporalAddress, namespace: 'default', tls: false });
    ending.push(() => connection.close());
    return new Client({ connection });
  }

  async function prepareInstallation(): Promise<Installation> {
    const namespace = options.namespace ?? `bench-${randomBytes(3).toString('hex')}`;
    if (options.namespace === undefined) await control.create(namespaces, { metadata: { name: namespace } });
    return {
      namespace,
      classes: options.classes ?? (await createClasses(namespace)),
      ...(options.installations && { targetKubeconfig: await startTarget(namespace) }),
    };
  }

  async function createClasses(namespace: string): Promise<readonly [string, string]> {
    const name = 'cloud';
    const stringData = { token: 'letmein', userData: '#!/bin/sh\nexec kubelet' };
    await control.create(secrets, { metadata: { namespace, name }, stringData });
    for (const machineClass of ['first', 'second']) {
      const [tags, labels] = [{ cluster: namespace }, { [nodeLabel]: namespace }];
      await control.create(machineClasses, {
        metadata: { namespace, name: machineClass },
        provider: 'simulated',
        secretRef: { namespace, name },
        providerSpec: { endpoint: cloud?.url, machineType: 'small', tags, labels },
      });
    }
    return ['first', 'second'];
  }

  /**
   * The cluster as if it had no Nodes but those of an installation, which has a target cluster of its own elsewhere.
   */
  async function startTarget(namespace: string): Promise<string> {
    const proxy = await startFaultProxy(kubeconfig);
    ending.push(() => proxy.close());
    const labelSelector = `${nodeLabel}=${namespace}`;
    proxy.setRule(({ url }) => (url.pathname === '/api/v1/nodes' ? { kind: 'select', labelSelector } : undefined));
    const path = join(dir, `${namespace}.kubeconfig`);
    await proxy.writeKubeconfig(path);
    return path;
  }

  /** Starts one process for all installations. */
  async function startShared(): Promise<void> {
    const host = await startHost({ isSmall: true });
    running.push({ name: 'Millwright', ...host, kill: host.stop });
    for (const { namespace, targetKubeconfig = kubeconfig } of installations) {
      const hosted = await startHosted({
        namespace,
        kubeconfig,
        targetKubeconfig,
        temporalAddress,
        flags: inProduction,
      });
      ending.push(() => hosted.stop());
    }
  }

  /** Starts the processes of an installation. */
  async function startProcesses({ namespace, targetKubeconfig }: Installation): Promise<void> {
    const servers = { kubeconfig, temporalAddress, ...(targetKubeconfig !== undefined && { targetKubeconfig }) };
    const start = async (name: string, command: 'run' | 'controllers' | 'worker') => {
      const process = await startMillwright({ namespace, ...servers, command, isElected: false, isSmall: true });
      return { name, ...process };
    };
    const workers = Array.from({ length: options.workers ?? 0 }, (_, i) => start(`worker ${i + 1}`, 'worker'));
    const first = options.workers ? start('controllers', 'controllers') : start('Millwright', 'run');
    running.push(...(await Promise.all([first, ...workers])));
  }

  async function patchDeployments(toSpec: (installation: Installation) => object): Promise<void> {
    for (const each of installations) {
      const key = { namespace: each.namespace, name: each.namespace };
      await control.patch(machineDeployments, key, mergePatch({ spec: toSpec(each) }));
    }
  }

  async function untilMachinesOf(
    { namespace, classes }: Installation,
    count: number,
    which: 'first' | 'second',
    tell: (done: number) => void,
  ): Promise<void> {
    for (;;) {
      const { metadata, status } = await control.get(machineDeployments, { namespace, name: namespace });
      const { replicas = 0, updatedReplicas = 0, availableReplicas = 0 } = status ?? {};
      tell(count === 0 ? replicas : Math.min(updatedReplicas, availableReplicas));
      const says = [replicas, updatedReplicas, availableReplicas].every((number) => number === count);
      const isSeen = (status?.observedGeneration ?? 0) >= (metadata.generation ?? 0);
      if (says && isSeen && (await isProven())) return;
      await sleep(100);
    }

    async function isProven(): Promise<boolean> {
      const { items } = await control.list(machines, { namespace });
      const wanted = classes[which === 'first' ? 0 : 1];
      const good = items.filter(
        ({ spec, status }) => status?.currentStatus?.phase === 'Running' && spec?.class?.name === wanted,
      );
      return items.length === count && good.length === count;
    }
  }

  return {
    control,
    /** Left out where another controller runs. */
    temporal,
    namespaces: installations.map(({ namespace }) => namespace),
    /** Of the first installation. */
    classes: installations[0]?.classes ?? [],
    /** Where requests are counted from. */
    auditLog: options.auditLog ?? (options.kubeconfig === undefined ? stack?.clusters[0].auditLog : undefined),

    /** The processes that were started here. */
    processes(): Processes {
      const kube = options.kubeconfig === undefined && stack;
      const millwright: Record<string, number[]> = {};
      for (const { name, pid } of running) (millwright[name] ??= []).push(pid);
      return {
        ...millwright,
        ...(stack && options.temporalAddress === undefined && { Temporal: [stack.temporal.pid] }),
        ...(kube && { 'kube-apiserver': [kube.clusters[0].apiServer.pid], etcd: [kube.etcd.pid] }),
        ...(cloud && { 'simulated cloud': [cloud.pid] }),
        bench: [process.pid],
      };
    },

    /** Starts Millwright, and resolves when it is ready. Does nothing where another controller runs. */
    async startMillwright(): Promise<void> {
      if (options.isForeign) return;
      if (options.installations !== undefined && options.workers === undefined) return startShared();
      for (const installation of installations) await startProcesses(installation);
    },

    /** Kills Millwright as a crash would. */
    async killMillwright(): Promise<void> {
      await Promise.all(running.map(({ kill }) => kill('SIGKILL')));
      running = [];
    },

    async createDeployment(replicas: number): Promise<void> {
      for (const { namespace, classes } of installations) {
        const matchLabels = { [labels.name]: namespace };
        await control.create(machineDeployments, {
          metadata: { namespace, name: namespace },
          spec: {
            replicas,
            selector: { matchLabels },
            strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: '10%', maxUnavailable: 0 } },
            template: {
              metadata: { labels: matchLabels },
              spec: { class: { kind: 'MachineClass', name: classes[0] } },
            },
          },
        });
      }
    },

    /** Of each installation. */
    async scale(replicas: number): Promise<void> {
      await patchDeployments(() => ({ replicas }));
    },

    /** Asks for machines of the other class. */
    async changeTemplate(): Promise<void> {
      await patchDeployments(({ classes }) => ({ template: { spec: { class: { name: classes[1] } } } }));
    },

    /**
     * Waits until the status of each deployment says that so many machines are as they should be, and a list proves it.
     * @param tell - Called with how many there are in the installations that were looked at.
     */
    async untilMachines(count: number, which: 'first' | 'second', tell: (done: number) => void): Promise<void> {
      let before = 0;
      for (const installation of installations) {
        await untilMachinesOf(installation, count, which, (done) => tell(before + done));
        before += count;
      }
    },

    /** Runs workflows that do nothing, and answers their number; undefined where another controller runs. */
    async probe(): Promise<number | undefined> {
      return temporal && runBareWorkflows(temporal, temporalAddress);
    },

    /** Events in the histories of all machines so far, and of their owners; undefined where another controller runs. */
    async historyEvents(): Promise<{ readonly machines: number; readonly owners: number } | undefined> {
      if (temporal === undefined) return undefined;
      const counted = { machines: 0, owners: 0 };
      const names = installations.map(({ namespace }) => `'${namespace}'`);
      const query = `${searchAttributes.installation} IN (${names.join(', ')})`;
      const runs = temporal.workflow.list({ query })[Symbol.asyncIterator]();
      const countSome = async () => {
        for (let run = await runs.next(); !run.done; run = await runs.next()) {
          const { workflowId, runId, type } = run.value;
          const { historyLength } = await temporal.workflow.getHandle(workflowId, runId).describe();
          counted[type === 'machine' ? 'machines' : 'owners'] += historyLength;
        }
      };
      await Promise.all(Array.from({ length: 20 }, countSome));
      return counted;
    },
  };
}
