/**
 * `kill -9` in the middle of the work: of the two processes together in `npm test`, of each of them and of the servers
 * in `npm run test:long`.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { finalizers } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets } from '../../api/gardener/resources.ts';
import { searchAttributes, signingKeySecret } from '../../api/names.ts';
import type { ServerHandle } from '../../deploy/local/process.ts';
import type { Stats } from '../../deploy/local/simulated-cloud/state.ts';
import { type Stack, startStack } from '../../deploy/local/stack.ts';
import { nodes, secrets } from '../../kube/core.ts';
import { listOpenWorkflows } from '../../temporal/workflows.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { isLong, isThorough } from '../support/long.ts';
import { type Supervised, supervise } from '../support/supervised.ts';
import { until } from '../support/until.ts';

const latency = { kind: 'latency', ms: 300, maxMs: 2_000 } as const;
/**
 * So that some VMs are not done before the kill: a call that hangs is given up after 15 s. Their parts have no type.
 */
const hang = { kind: 'hang', effect: 'none', machineType: 'small', every: 3 } as const;
/** So that disks, NICs and addresses have to be deleted, too. */
const leak = { kind: 'leak', operation: 'delete' } as const;
/** For each step, on a busy machine. */
const conditionTimeoutMs = 300_000;

/** An installation with its two processes as Deployments would have them. */
interface Scene {
  readonly millwright: Installation;
  readonly controllers: Supervised;
  readonly worker: Supervised;
}

type Work = 'creation' | 'deletion';

/** Kills something and answers with how to have it back. */
type Kill = (scene: Scene, during: Work) => Promise<() => Promise<void>>;

/** What was started under a name. Throws where nothing was: a test of nothing would pass. */
function runOf(runs: ReadonlyMap<string, Promise<void>>, name: string): Promise<void> {
  const run = runs.get(name);
  if (run === undefined) throw new Error(`nothing was started for ${name}`);
  return run;
}

/** Defines the tests, on a stack of their own, with so many machines each. */
function describeKills(replicas: number): void {
  let dir: string;
  /** Of our own: others could not go on with a killed one. */
  let stack: Stack;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'millwright-kills-'));
    stack = await startStack({ temporal: { dbFile: join(dir, 'temporal.db') } });
  });

  afterAll(async () => {
    await stack?.stop();
    await rm(dir, { recursive: true, force: true });
  });

  async function startScene(): Promise<Scene> {
    const { kubeconfig, temporalAddress } = stack;
    const leases = { isElected: true, awaitsExpiry: true };
    const millwright = await startInstallation({ kubeconfig, temporalAddress, isStopped: true, ...leases });
    const [controllers, worker] = await Promise.all([
      supervise(() => millwright.start('controllers')),
      supervise(() => millwright.start('worker')),
    ]);
    return { millwright, controllers, worker };
  }

  async function stopScene({ millwright, controllers, worker }: Scene): Promise<void> {
    await Promise.all([controllers.stop(), worker.stop()]);
    await millwright.stop();
  }

  const processes: Readonly<Record<string, Kill>> = isThorough()
    ? {
        'the controllers': ({ controllers }) => killProcesses(controllers),
        'the worker': ({ worker }) => killProcesses(worker),
      }
    : { 'the controllers and the worker': ({ controllers, worker }) => killProcesses(controllers, worker) };

  const servers = {
    'the Temporal server': ({ worker }) => killServer(stack.temporal, warnsFromNowOn(worker)),
    'kube-apiserver': ({ controllers, worker }, during) => {
      const [{ apiServer }] = stack.clusters;
      // A leader that cannot renew its Leases ends, as machine-controller-manager does: the second time, that is waited
      // for.
      if (during === 'deletion') return killServer(apiServer, () => controllers.ends > 0);
      const [one, other] = [warnsFromNowOn(controllers), warnsFromNowOn(worker)];
      return killServer(apiServer, () => one() && other());
    },
  } satisfies Record<string, Kill>;

  async function killProcesses(...victims: readonly Supervised[]): Promise<() => Promise<void>> {
    await Promise.all(victims.map((process) => process.kill()));
    return async () => undefined; // they come by themselves
  }

  async function killServer(server: ServerHandle, isNoticed: () => boolean): Promise<() => Promise<void>> {
    await server.kill('SIGKILL');
    return async () => {
      await until(`it is noticed that ${server.name} is gone`, async () => isNoticed(), {
        timeoutMs: conditionTimeoutMs,
      });
      await server.restart();
    };
  }

  function warnsFromNowOn(process: Supervised): () => boolean {
    const before = process.logs().length;
    return () => process.logs().slice(before).includes('"level":"warn"');
  }

  /** Has the cloud take its time, starts the work, and kills when some of the VMs are done and some are not. */
  async function killInTheMiddle(kill: Kill, scene: Scene, work: Work, start: () => Promise<unknown>): Promise<void> {
    const { millwright } = scene;
    const { cloud } = millwright;
    const operation = work === 'creation' ? 'create' : 'delete';
    await cloud.setFaults({ ...latency, operation }, { ...hang, operation }, leak);
    await start();
    const done = async () => countDone(await cloud.stats(), work);
    await until(`the ${work} of some VMs is done`, async (see) => see(await done()) >= 2, {
      timeoutMs: conditionTimeoutMs,
      describe: millwright.story,
    });

    const comeBack = await kill(scene, work);

    const doneThen = await done();
    await cloud.setFaults({ ...latency, operation }, leak);
    await comeBack(); // first, as others go on with the same servers
    expect(doneThen).toBeLessThan(replicas);
  }

  function countDone({ vmsEver, vmsNow }: Stats, work: Work): number {
    return work === 'creation' ? vmsEver : vmsEver - vmsNow;
  }

  /** What is there of machines: in the cluster, in the cloud, in Temporal. The class and its Secret keep theirs. */
  async function leftoversOf(millwright: Installation): Promise<string[]> {
    const { control, cloud, namespace, temporal } = millwright;
    const objects = [
      ...(await millwright.machines()),
      ...(await millwright.nodes()),
      ...(await control.list(machineSets, { namespace })).items,
      ...(await control.list(machineDeployments, { namespace })).items,
    ];
    const ofMachines = (await control.list(secrets, { namespace })).items.filter(
      ({ metadata: { name } }) => name !== 'pool' && name !== signingKeySecret,
    );
    const others = [...ofMachines, ...(await control.list(nodes)).items];
    const ours: readonly string[] = Object.values(finalizers);
    const finalized = others.filter(({ metadata }) => metadata.finalizers?.some((each) => ours.includes(each)));
    return [
      ...[...objects, ...finalized].map(({ metadata }) => metadata.name),
      ...(await cloud.resources()).map(({ id }) => id),
      ...(await listOpenWorkflows({ client: temporal, name: namespace })).map(({ id }) => id),
    ];
  }

  /** Messages of warnings. How often each comes is limited, so that few of them are a log that can be read. */
  const mostMessages = 15;

  function expectReadableLogs({ controllers, worker }: Scene): void {
    for (const process of [controllers, worker]) {
      const logs = process.logs();
      const warnings = logs.split('\n').filter((line) => line.startsWith('{"level":"warn"'));
      const messages = new Set(warnings.map((line) => JSON.parse(line).msg));

      expect(messages.size).toBeLessThan(mostMessages);
      expect(logs).not.toMatch(/\\n +at /); // a stack trace
    }
  }

  async function untilRunning(millwright: Installation): Promise<void> {
    await millwright.untilMachines(replicas, 'Running', conditionTimeoutMs);
    expect(await millwright.cloud.stats()).toMatchObject({ vmsEver: replicas, vmsNow: replicas });
  }

  async function untilNothingIsLeft(millwright: Installation): Promise<void> {
    const { cloud } = millwright;
    const leftovers = () => leftoversOf(millwright);
    // The cheap question first: to ask for everything ten times a second would keep the servers busy.
    await until('no VM is left', async (see) => see(await cloud.stats()).vmsNow === 0, {
      timeoutMs: conditionTimeoutMs,
      describe: millwright.story,
    });
    await until('nothing is left', async (see) => see(await leftovers()).length === 0, {
      timeoutMs: conditionTimeoutMs,
      describe: async () => [...(await leftovers()), await millwright.story()].join('\n'),
    });
    expect(await cloud.stats()).toMatchObject({ vmsEver: replicas, vmsNow: 0 });
  }

  async function expectNoFailure({ namespace, temporal }: Installation): Promise<void> {
    const failures = "ExecutionStatus IN ('Failed', 'Terminated', 'TimedOut', 'Canceled')";
    const query = `${searchAttributes.installation} = '${namespace}' AND ${failures}`;
    expect((await temporal.workflow.count(query)).count).toBe(0);
  }

  async function goThrough(victim: string, kill: Kill): Promise<void> {
    const scene = await startScene();
    const { millwright } = scene;
    millwright.recordAs(`killed-${victim.replace('the ', '').replace(' ', '-').toLowerCase()}`);
    try {
      await killInTheMiddle(kill, scene, 'creation', () => millwright.createDeployment('pool', replicas));
      await untilRunning(millwright);
      const { control, namespace } = millwright;
      const pool = { namespace, name: 'pool' };
      await killInTheMiddle(kill, scene, 'deletion', () => control.delete(machineDeployments, pool));
      await untilNothingIsLeft(millwright);

      await expectNoFailure(millwright);
      expectReadableLogs(scene);
    } finally {
      await stopScene(scene);
    }
  }

  const title =
    '[invariant 1] [invariant 2] [invariant 6] of %s: one VM for each machine ever, and nothing of any is left';
  const timeoutMs = 1_200_000;

  describe('kill -9 in the middle of making and of deleting machines', () => {
    describe('of our processes, which nobody else feels', () => {
      let running: Map<string, Promise<void>>;

      // Side by side, as most of it is waiting: for a Lease to expire, and for heartbeats to be missed.
      beforeAll(() => {
        running = new Map(Object.entries(processes).map(([victim, kill]) => [victim, goThrough(victim, kill)]));
        for (const each of running.values()) each.catch(() => undefined); // its test reports it
      });

      it.each(Object.keys(processes))(title, (victim) => runOf(running, victim), timeoutMs);
    });

    if (isLong()) it.each(Object.entries<Kill>(servers))(title, goThrough, timeoutMs);
  });
}

describeKills(isLong() ? 50 : 6);
