/**
 * An installation for one test: its namespace and simulated cloud, in the process that all tests share or in its own.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '@temporalio/client';
import { machineClasses, machines } from '../../api/gardener/resources.ts';
import { installCrds } from '../../deploy/local/crds.ts';
import type { SimulatedCloudOptions } from '../../deploy/local/simulated-cloud/admin.ts';
import { createKubeClient, type KubeClient } from '../../kube/client.ts';
import { loadKubeconfig } from '../../kube/config.ts';
import { type Node, namespaces, nodes, secrets } from '../../kube/core.ts';
import { isNotFound } from '../../kube/errors.ts';
import { mergePatch } from '../../kube/patch.ts';
import { recordHistories } from '../replay/record.ts';
import { serveSimulatedCloud } from './cloud-here.ts';
import { fromSetup } from './from-setup.ts';
import { type HostedMillwright, startHosted } from './hosted.ts';
import { commandVerbs } from './installation/commands.ts';
import { deploymentVerbs } from './installation/deployments.ts';
import { eventVerbs } from './installation/events.ts';
import { machineVerbs, phaseOf } from './installation/machines.ts';
import { nodeVerbs } from './installation/nodes.ts';
import type { Scene } from './installation/scene.ts';
import { type MillwrightOptions, type MillwrightProcess, startMillwright } from './millwright.ts';
import { connectTemporal } from './temporal.ts';

export { fromSetup } from './from-setup.ts';
export { isCached, phaseOf } from './installation/machines.ts';

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
  /** Its processes lead only with their Leases, as in production. Default: without leader election. */
  readonly isElected?: boolean;
  /** Whether the test waits until Leases of a killed leader expire: they do so after 6 s. Default: false. */
  readonly awaitsExpiry?: boolean;
  /**
   * Why it needs a `millwright run` of its own, in words. Those with another Temporal server or a proxy have one
   * anyway; all others share one process.
   */
  readonly alone?: string;
}

/** In a log, characters. With a stack trace of its cause an error has up to 5,000. */
const longestLine = 20_000;

/** User data without placeholders, and the token that the cloud accepts. */
export const plainSecret = { token: 'letmein', userData: '#!/bin/sh\nexec kubelet' };

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
  const connection = await connectTemporal(temporalAddress);
  const temporal = new Client({ connection });

  if (options.kubeconfig !== undefined) await installCrds(kubeconfig); // those of the test stack have them
  await control.create(namespaces, { metadata: { name: namespace } });
  // Without heartbeats: a request for each Node every 10 s.
  const fast = { bootMs: 50, joinMs: 100, deleteMs: 50, leaseRenewMs: 2 ** 31 - 1 };
  const cloud = await serveSimulatedCloud({
    dir: join(dir, 'cloud'),
    kubeconfig: targetKubeconfig,
    ...fast,
    ...options.cloud,
  });

  const processes: MillwrightProcess[] = [];
  const hosted: HostedMillwright[] = [];
  const logsOf = () => [...hosted, ...processes].map((millwright) => millwright.logs());
  async function start(command: MillwrightOptions['command'] = 'run'): Promise<MillwrightProcess> {
    const { isElected = false, awaitsExpiry = false, flags = [] } = options;
    const clusters =
      options.processKubeconfig === undefined
        ? { kubeconfig, targetKubeconfig }
        : {
            kubeconfig: options.processKubeconfig,
            targetKubeconfig: options.targetKubeconfig ?? options.processKubeconfig,
          };
    const election = { isElected, awaitsExpiry };
    const millwright = await startMillwright({ ...clusters, namespace, temporalAddress, command, ...election, flags });
    processes.push(millwright);
    return millwright;
  }

  async function story(): Promise<string> {
    const { items } = await control.list(machines, { namespace });
    const states = items.map((machine) => `${machine.metadata.name} ${phaseOf(machine) || '(new)'}`);
    const failed = items.flatMap(({ status }) =>
      status?.lastOperation?.state === 'Failed' ? (status.lastOperation.description ?? '') : [],
    );
    const logs = logsOf().map((log) => log.split('\n').slice(-15).join('\n'));
    return [...states.slice(0, 10), ...failed.slice(0, 3), ...logs].join('\n');
  }

  const scene: Scene = { namespace, control, target, cloud, temporal, story };
  let scenario: string | undefined;
  const installation = {
    ...scene,
    ...machineVerbs(scene),
    ...deploymentVerbs(scene),
    ...nodeVerbs(scene),
    ...eventVerbs(scene),
    ...commandVerbs({ namespace, targetKubeconfig, temporalAddress }),
    /** Its own processes. Empty while it runs in the one that tests share. */
    processes,
    /** Starts a Millwright process for the namespace. */
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

    /** Has `npm run record` keep what the workflows will have done at the end, as test/histories/<name>. */
    recordAs(name: string): void {
      scenario = name;
    },

    /** Ends the processes and removes what they leave. */
    async stop(): Promise<void> {
      let left: readonly Node[] = [];
      try {
        for (const millwright of [...hosted, ...processes]) await millwright.stop();
        left = await installation.nodes().catch(() => []); // after a failure the API server may be down
      } finally {
        await cloud.stop(); // it would go on in the process of the tests
      }
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
      const lines = logsOf().flatMap((log) => log.split('\n'));
      const unlike = lines.find((line) => line.includes('TMPRL1100'));
      if (unlike !== undefined) throw new Error(`a workflow is not deterministic:\n${unlike}`);
      const long = lines.find(({ length }) => length > longestLine);
      if (long)
        throw new Error(`nobody can read a line of ${long.length} characters in a log:\n${long.slice(0, 2_000)}`);
    },
  };

  try {
    await installation.putSecret('pool', plainSecret);
    await installation.createClass('small');
    const { alone, temporalAddress: otherTemporal, processKubeconfig, flags = [] } = options;
    const isShared = [alone, otherTemporal, processKubeconfig].every((each) => each === undefined);
    if (options.isStopped === true) return installation;
    if (!isShared) await start();
    else hosted.push(await startHosted({ namespace, kubeconfig, targetKubeconfig, temporalAddress, flags }));
    return installation;
  } catch (error) {
    await cloud.stop();
    throw error;
  }
}

function ignoreMissing(error: unknown): void {
  if (!isNotFound(error)) throw error;
}

function clientOf(kubeconfig: string): KubeClient {
  return createKubeClient({ access: loadKubeconfig(kubeconfig), userAgent: 'millwright-test', qps: 500, burst: 1000 });
}
