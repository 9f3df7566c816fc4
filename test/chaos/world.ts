/** The servers, the cloud and the processes of a run, and what acts use to reach them. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from '@temporalio/client';
import { labels } from '../../api/gardener/names.ts';
import { machineClasses, machineDeployments, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import { installCrds } from '../../deploy/local/crds.ts';
import type { ServerHandle } from '../../deploy/local/process.ts';
import { startSimulatedCloud } from '../../deploy/local/simulated-cloud/admin.ts';
import { startStack } from '../../deploy/local/stack.ts';
import { createKubeClient } from '../../kube/client.ts';
import { loadKubeconfig } from '../../kube/config.ts';
import { namespaces, secrets } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { connectClient } from '../../temporal/connection.ts';
import { startFaultProxy } from '../faults/proxy.ts';
import { startTcpProxy } from '../faults/tcp-proxy.ts';
import type { MillwrightOptions } from '../support/millwright.ts';
import { until } from '../support/until.ts';
import { createClock } from './clock.ts';
import { startNodeControllers } from './node-controllers.ts';
import { observe } from './observer.ts';
import { startChaosProcess, type Victim } from './process.ts';
import { createStrangers } from './strangers.ts';

export type World = Awaited<ReturnType<typeof startWorld>>;

/** User agent of everything that a run asks of the API server, and the beginning of Millwright's. */
export const agents = { chaos: 'chaos', millwright: 'millwright' } as const;

export const namespace = 'chaos';

/** The deployment that nobody touches: its machines have to stay as they are. */
export const untouched = 'still';

/** Replicas that each deployment begins with. */
export const deploymentsAtFirst = { [untouched]: 2, api: 2, batch: 2, web: 3 } as const;

/** MachineClasses. */
export const classes = ['first', 'second'] as const;

/** The disturbance in which etcd is put back from its backup. */
export const restoreOfEtcd = 'restore of etcd';

/** The disturbance in which the cloud denies that VMs exist. */
export const hiding = 'hiding of VMs';

/** Timeouts are short, so that what a fault has broken is replaced within the run. */
const timeouts = [
  ...['--machine-creation-timeout', '90s', '--machine-health-timeout', '15s', '--resource-exhausted-retry', '5s'],
  ...['--machine-drain-timeout', '60s'],
];
const flags = {
  controllers: [...timeouts, '--machine-safety-orphan-vms-period', '15s'],
  worker: [...timeouts, '--orphan-minimum-age', '10s', '--orphan-confirm-after', '2s'],
} as const;

/** A Machine that the autoscaler has named. */
export interface NamedMachine {
  /** When the API server had confirmed that, ms since 1970. */
  readonly atMs: number;
  readonly uid: string;
  readonly name: string;
  /** UID of the MachineDeployment whose annotation names it. */
  readonly deployment: string;
}

/** A time during which something that a run had broken may have swallowed an answer. */
export interface Disturbance {
  readonly what: string;
  readonly fromMs: number;
  toMs: number;
}

/**
 * Starts everything, with the deployments of `deploymentsAtFirst` Running.
 * @param dir for data and logs; it stays
 */
export async function startWorld(dir: string, seed: number) {
  const ending: (() => Promise<unknown>)[] = [];
  const stop = async () => {
    for (const end of ending.splice(0).toReversed()) await end();
  };
  try {
    return { ...(await open(dir, seed, ending)), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function open(dir: string, seed: number, ending: (() => Promise<unknown>)[]) {
  await mkdir(dir, { recursive: true });
  const stack = await startStack({
    ...{ dir, temporal: { dbFile: join(dir, 'temporal.db') }, isAudited: true, controllerManager: true },
  });
  ending.push(stack.stop);
  const { kubeconfig, temporalAddress } = stack;
  const [{ apiServer, controllerManager, auditLog }] = stack.clusters;
  if (controllerManager === undefined || auditLog === undefined) throw new Error('the stack is not complete');
  await installCrds(kubeconfig);
  const control = createKubeClient({
    ...{ access: loadKubeconfig(kubeconfig), userAgent: agents.chaos, qps: 500, burst: 1_000 },
  });
  ending.push(control.close);
  const temporal = new Client({
    connection: await connectClient({ address: temporalAddress, namespace: 'default', tls: false }),
  });
  ending.push(() => temporal.connection.close());

  const credentials = Array.from({ length: 8 }, (_, i) => `chaos-token-${seed}-${i}`);
  const cloud = await startSimulatedCloud({
    ...{ dir: join(dir, 'cloud'), kubeconfig, tokens: credentials, bootMs: 300, joinMs: 300, deleteMs: 300 },
    ...{ leaseRenewMs: 2 ** 31 - 1, statusUpdateMs: 2 ** 31 - 1, maxGraceMs: 1_000 },
  });
  ending.push(cloud.stop);

  const proxies = {
    control: await startFaultProxy(kubeconfig),
    target: await startFaultProxy(kubeconfig),
    temporal: await startTcpProxy(temporalAddress),
  };
  for (const proxy of Object.values(proxies)) ending.push(proxy.close);
  const kubeconfigOf = async (name: 'control' | 'target') => {
    const path = join(dir, `${name}.kubeconfig`);
    await proxies[name].writeKubeconfig(path);
    return path;
  };

  await control.create(namespaces, { metadata: { name: namespace } });
  const observer = observe(control, namespace);
  ending.push(observer.stop);
  const strangers = await createStrangers(control, cloud, credentials[0] ?? '');
  const nodeControllers = startNodeControllers(control, cloud);
  ending.push(nodeControllers.stop);

  /** What the Secret of all classes holds: credentials of the cloud by number, and user data of their own. */
  const secretOf = (number: number) => ({
    token: credentials[number] ?? 'wrong',
    userData: `#!/bin/sh\n# chaos-data-${seed}-${number}\njoin <<BOOTSTRAP_TOKEN>>`,
  });
  const putSecret = (number: number) =>
    control.patch(secrets, { namespace, name: 'cloud' }, mergePatch({ stringData: secretOf(number) }));
  await control.create(secrets, { metadata: { namespace, name: 'cloud' }, stringData: secretOf(0) });
  for (const name of classes) {
    await control.create(machineClasses, {
      ...{ metadata: { namespace, name }, provider: 'simulated', secretRef: { namespace, name: 'cloud' } },
      providerSpec: { endpoint: cloud.url, machineType: 'small', region: 'here', tags: { cluster: namespace } },
    });
  }

  async function createDeployment(name: string, replicas: number): Promise<void> {
    const matchLabels = { [labels.name]: name };
    await control.create(machineDeployments, {
      metadata: { namespace, name },
      spec: {
        ...{ replicas, selector: { matchLabels } },
        strategy:
          name === 'batch'
            ? { type: 'Recreate' }
            : { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 1 } },
        template: { metadata: { labels: matchLabels }, spec: { class: { kind: 'MachineClass', name: classes[0] } } },
      },
    });
  }

  const clock = await createClock(join(dir, 'clock'));
  const reached: MillwrightOptions = {
    ...{ namespace, temporalAddress: proxies.temporal.address, awaitsExpiry: true },
    ...{ kubeconfig: await kubeconfigOf('control'), targetKubeconfig: await kubeconfigOf('target') },
    ...(clock && { env: clock.env }),
  };
  const processes = await Promise.all(
    (['controllers', 'worker'] as const).flatMap((command) =>
      [1, 2].map((number) => startChaosProcess(`${command}-${number}`, { ...reached, command, flags: flags[command] })),
    ),
  );
  for (const process of processes) ending.push(process.stop);

  const machinesNow = async () => (await control.list(machines, { namespace })).items;
  for (const [name, replicas] of Object.entries(deploymentsAtFirst)) await createDeployment(name, replicas);
  await until('all machines are Running', async (see) => {
    const phases = see((await machinesNow()).map(({ status }) => status?.currentStatus?.phase));
    const wanted = Object.values(deploymentsAtFirst).reduce((sum, each) => sum + each, 0);
    return phases.length === wanted && phases.every((phase) => phase === 'Running');
  });

  const server = (handle: ServerHandle): Victim => ({
    name: handle.name,
    get pid() {
      return handle.pid;
    },
    kill: () => handle.kill('SIGKILL'),
    // With all clients upon it at once it may take longer than a server gets.
    comeBack: () =>
      until(`${handle.name} is back`, () => handle.restart().then(() => true as const)).then(() => undefined),
  });
  const busy = new Set<string>();
  const disturbances: Disturbance[] = [];
  /** Ids of what a person has approved at the brake of a sweep. */
  const approved: string[] = [];
  const named: NamedMachine[] = [];

  return {
    ...{ dir, stack, auditLog, control, temporal, cloud, proxies, clock, processes, observer, nodeControllers },
    ...{ credentials, secretOf, putSecret, createDeployment, machinesNow, disturbances, approved, named, strangers },
    /** What acts kill and freeze, sorted by name. */
    victims: [
      ...processes,
      ...[stack.temporal, stack.etcd, apiServer, controllerManager].map(server),
      victimOf(cloud),
    ].toSorted((a, b) => (a.name < b.name ? -1 : 1)) as readonly Victim[],

    /** Machines that acts may touch, sorted by name. */
    async touchable(): Promise<Machine[]> {
      const others = (await machinesNow()).filter(({ metadata }) => metadata.labels?.[labels.name] !== untouched);
      return others.toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
    },

    /** Does something to these, unless another act has one of them. Throws then. */
    async use(what: string, names: readonly string[], act: () => Promise<void>): Promise<void> {
      const taken = names.find((name) => busy.has(name));
      if (taken !== undefined) throw new Error(`another act has ${taken}`);
      for (const name of names) busy.add(name);
      const disturbance: Disturbance = { what, fromMs: Date.now(), toMs: Number.POSITIVE_INFINITY };
      disturbances.push(disturbance);
      try {
        await act();
      } finally {
        disturbance.toMs = Date.now();
        for (const name of names) busy.delete(name);
      }
    },
  };
}

function victimOf(cloud: Awaited<ReturnType<typeof startSimulatedCloud>>): Victim {
  return {
    name: 'simulated cloud',
    get pid() {
      return cloud.pid;
    },
    kill: cloud.kill,
    comeBack: cloud.restart,
  };
}
