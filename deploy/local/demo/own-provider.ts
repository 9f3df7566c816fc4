/** The demo with a provider of the user: a class, and a worker that makes its VMs in a cloud of the user. */
import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectionLike } from '@temporalio/client';
import { stringify } from 'yaml';
import { machineDeployments, machineSets, machines } from '../../../api/gardener/resources.ts';
import { providerTaskQueue } from '../../../api/names.ts';
import { UsageError } from '../../../cli/options.ts';
import { listPollers } from '../../../temporal/task-queues.ts';
import { readClassFile } from '../../../test/conformance/class-file.ts';
import { prepareGivenWorker } from '../../../test/conformance/given-worker.ts';
import { baseEnvironment, createWorkerProcess } from '../../../test/conformance/worker-process.ts';
import { logTail } from '../process.ts';
import type { Screen } from './screen.ts';
import { type Demo, installation, namespace, quoted, startDemo, startServers, timed } from './set-up.ts';
import { expectIn, oldestMachine, type Stop } from './tour.ts';

/** What `--class` and `--worker` name. */
export interface OwnProvider {
  /** Path of the file with the class, from the root on. */
  readonly file: string;
  /** Of the class. */
  readonly className: string;
  /** As in the class. */
  readonly provider: string;
  /** Command line of the worker. */
  readonly worker: string;
}

/** Until the worker polls, ms: `go run .` may have to compile it. */
const pollsWithinMs = 300_000;
/** Before a restart, long enough to be seen, ms. */
const pauseMs = 1_000;

/**
 * Reads the flags; undefined where neither --class nor --worker is given. Throws UsageError with the flag, its value and the fix.
 * @param flags.cloud only where the command line has it
 */
export function readOwnProvider(flags: {
  readonly class?: string | undefined;
  readonly worker?: string | undefined;
  readonly cloud?: string | undefined;
}): OwnProvider | undefined {
  const { class: path, worker, cloud } = flags;
  if (path === undefined && worker === undefined) return undefined;
  if (cloud !== undefined) throw new UsageError(`--cloud is '${cloud}': leave it out with --class and --worker`);
  if (!path) throw new UsageError('--class is missing: give the path of a file with a MachineClass');
  if (!worker) throw new UsageError('--worker is missing: give the command that starts the worker of the provider');

  const { name, provider, ...file } = readClassFile(path, namespace);
  const refuse = (what: string) => new UsageError(`--class is '${path}', ${what}`);
  if (!provider) throw refuse('whose class has no provider: set provider to the name of yours');
  const elsewhere = [file, ...file.secrets].find((each) => each.namespace !== namespace);
  if (elsewhere)
    throw refuse(`where metadata.namespace is '${elsewhere.namespace}': leave it out, the demo is in '${namespace}'`);
  const missing = file.credentials.find(
    (ref) => !file.secrets.some((each) => each.name === ref.name && each.namespace === ref.namespace),
  );
  if (missing)
    throw refuse(`whose class names the Secret ${missing.namespace}/${missing.name}: add it to the file as a document`);
  return { file: resolve(path), className: name, provider, worker };
}

/** Like `setUp`. Throws also if the worker ends, or polls another task queue. */
export async function setUpWithWorker(
  own: OwnProvider,
  dir: string,
  screen: Screen,
  ending: (() => Promise<void>)[],
): Promise<Demo> {
  const servers = await startServers({ dir }, screen, ending);
  // No Node can join: the VMs are in another network, and the account of the worker may not make any.
  const millwright = { providers: '', targetKubeconfig: 'none', env: {} };
  const demo = await startDemo(servers, { millwright, addresses: {} }, screen, ending);
  const print = (line: string) => screen.print(line);
  const { connection } = demo.temporal;
  await timed(screen, `the worker of the provider ${own.provider}`, async () => {
    ending.push(await startWorker(own, { ...servers, connection, installation, print }));
  });
  await writeFile(join(dir, 'machines.yaml'), stringify(deploymentOf(own)));
  screen.print(
    `\n${dir}/machines.yaml is a MachineDeployment of one machine, and ${dir}/worker.log the log of the worker.\n` +
      'Millwright looks for no Nodes: a Machine is Available as soon as its VM is running.',
  );
  return demo;
}

/**
 * Starts the worker, and resolves when it polls its task queue: with the function that stops it. Whenever it ends later
 * it is restarted, as a Deployment would do.
 */
export async function startWorker(
  { provider, worker: command }: Pick<OwnProvider, 'provider' | 'worker'>,
  place: {
    /** Of worker.log and of the files of its account. */
    readonly dir: string;
    readonly kubeconfig: string;
    readonly temporalAddress: string;
    readonly connection: ConnectionLike;
    /** A namespace, too, in which the account of the worker is. */
    readonly installation: string;
    readonly print: (line: string) => void;
    /** Until it polls, ms. Default: five minutes. */
    readonly withinMs?: number;
  },
): Promise<() => Promise<void>> {
  const { dir, connection, print, withinMs = pollsWithinMs } = place;
  const logFile = join(dir, 'worker.log');
  const queue = providerTaskQueue(place.installation, provider);
  const { env, ...prepared } = await prepareGivenWorker(command, place, place.installation, dir);
  const worker = await createWorkerProcess({ ...prepared, env: { ...baseEnvironment(), ...env } }, logFile);
  const stopping = new AbortController();

  async function untilPolling(): Promise<void> {
    const deadline = Date.now() + withinMs;
    let how: string | undefined;
    void worker.ended().then((end) => (how = end));
    while ((await listPollers(connection, 'default', queue, 'activity')).length === 0) {
      if (how !== undefined)
        throw refusal(`which has ended (${how}) before it polled ${queue}: give one that keeps running`);
      if (Date.now() > deadline)
        throw refusal(`and nothing polls ${queue} after ${withinMs / 1_000} s: let the worker poll this task queue`);
      await sleep(100);
    }
  }

  function refusal(what: string): UsageError {
    return new UsageError(`--worker is '${command}', ${what}. Its log:\n${logTail(logFile)}`);
  }

  async function supervise(): Promise<void> {
    for (;;) {
      const how = await worker.ended();
      if (stopping.signal.aborted) return;
      print(`The worker has ended (${how}) and is restarted: see ${logFile}`);
      await sleep(pauseMs, undefined, { signal: stopping.signal }).catch(() => undefined);
      if (stopping.signal.aborted) return;
      await worker.start();
    }
  }

  async function stop(): Promise<void> {
    stopping.abort();
    await worker.stop();
  }

  await worker.start();
  try {
    await untilPolling();
  } catch (error) {
    await stop();
    throw error;
  }
  const supervised = supervise();
  return async () => {
    await stop();
    await supervised;
  };
}

/** Applies the class, its Secrets and the MachineDeployment. */
export function firstStopOf({ file }: OwnProvider): Stop<Demo> {
  return {
    title: 'The class gets a machine, which is Available',
    command: `kubectl apply -f ${quoted(file)} -f "$DEMO/machines.yaml"`,
    async missing({ kube }) {
      const { status } = await kube.get(machineDeployments, { namespace, name: 'workers' });
      if (status?.availableReplicas === 1) return undefined;
      const { items } = await kube.list(machines, { namespace });
      const seen = items.map(({ metadata, status }) => {
        const { description = 'nothing yet' } = status?.lastOperation ?? {};
        return `${metadata.name} is ${status?.currentStatus?.phase || 'new'}: ${description}`;
      });
      return seen.join('\n') || 'there is no Machine';
    },
  };
}

/** What works with every provider. */
export const ownTour: readonly Stop<Demo>[] = [
  {
    title: 'List the machines with what each of them waits for',
    command: 'millwright get machines',
    missing: async (_, output) => expectIn(output, 'FOR', 'Available'),
  },
  {
    title: 'Ask the workflow of the machine',
    command: `millwright describe machine ${oldestMachine}`,
    missing: async (_, output) => expectIn(output, 'Available', '://'),
  },
];

const owned = [machineDeployments, machineSets, machines].map(({ plural, group }) => `${plural}.${group}`);

/**
 * Deletes all machines, so that the cloud of the user keeps no VM of the demo. Fails in a terminal without the variables
 * of the demo, where kubectl has another cluster.
 */
export const removal: Stop<Demo> = {
  title: 'Delete all machines and their VMs',
  command: `: "\${DEMO:?}" && kubectl delete ${owned.join(',')} --all --wait=false`,
  async missing({ kube }) {
    const { items } = await kube.list(machines, { namespace });
    const left = items.map(({ metadata, spec }) => `${metadata.name} (${spec?.providerID || 'no provider ID'})`);
    if (left.length > 0) return `Machines are left, delete their VMs yourself: ${left.join(', ')}`;
    const { items: owners } = await kube.list(machineDeployments, { namespace });
    return owners.length > 0 ? 'a MachineDeployment is left, which may still make Machines' : undefined;
  },
};

function deploymentOf({ className }: OwnProvider) {
  const labels = { name: 'workers' };
  const strategy = { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } };
  const template = { metadata: { labels }, spec: { class: { kind: 'MachineClass', name: className } } };
  return {
    apiVersion: 'machine.sapcloud.io/v1alpha1',
    kind: 'MachineDeployment',
    metadata: { name: 'workers', namespace },
    spec: { replicas: 1, selector: { matchLabels: labels }, strategy, template },
  };
}
