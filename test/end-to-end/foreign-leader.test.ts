/** machine-controller-manager takes over and gives back: the workers of Millwright act only while it does not lead. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { machineDeployments, machines } from '../../api/gardener/resources.ts';
import { names as ourNames } from '../../api/names.ts';
import { leases, pods } from '../../kube/core.ts';
import { toMicroTime } from '../../kube/events.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type FaultProxy, type SeenRequest, startFaultProxy, statusBody } from '../faults/proxy.ts';
import { fromSetup, type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { isThorough } from '../support/long.ts';
import { type MillwrightProcess, startMillwright } from '../support/millwright.ts';
import { until } from '../support/until.ts';

const names = ['machine-controller-manager', 'machine-controller'] as const;
/** As machine-controller-manager calls itself: host and UUID. */
const mcm = 'machine-controller-manager-7b5c_5e0f2c4e-0000-4000-8000-000000000001';
const folder = mkdtempSync(join(tmpdir(), 'millwright-foreign-test-'));
const proxied = join(folder, 'proxy.kubeconfig');
let proxy: FaultProxy;
let millwright: Installation;

beforeAll(async () => {
  proxy = await startFaultProxy(fromSetup('MILLWRIGHT_TEST_KUBECONFIG'));
  await proxy.writeKubeconfig(proxied);
});

beforeEach(async () => {
  millwright = await startInstallation({ isStopped: true, cloud: { bootMs: 300, joinMs: 300 } });
});

afterEach(async () => {
  proxy.setRule();
  await millwright.stop();
});

afterAll(async () => {
  await proxy.close();
  rmSync(folder, { recursive: true });
});

/** Starts workers whose requests to the API server can be seen. */
async function startWorker(): Promise<MillwrightProcess> {
  const { namespace, processes } = millwright;
  const worker = await startMillwright({ namespace, command: 'worker', kubeconfig: proxied });
  processes.push(worker);
  return worker;
}

async function startControllers(): Promise<MillwrightProcess> {
  const { namespace, processes } = millwright;
  const controllers = await startMillwright({ namespace, command: 'controllers' });
  processes.push(controllers);
  return controllers;
}

/** Puts a holder into a Lease, '' for nobody. */
async function hold(name: string, holderIdentity: string): Promise<void> {
  const { control, namespace } = millwright;
  const now = toMicroTime(new Date());
  const leaseDurationSeconds = holderIdentity === '' ? 1 : 3_600;
  const spec = { holderIdentity, leaseDurationSeconds, acquireTime: now, renewTime: now };
  const key = { namespace, name };
  if (await control.find(leases, key)) await control.patch(leases, key, mergePatch({ spec }));
  else await control.create(leases, { metadata: key, spec });
}

async function readiness({ url }: MillwrightProcess) {
  const answer = await fetch(`${url}/readyz`);
  const { missing } = (await answer.json()) as { missing: string[] };
  const metrics = await (await fetch(`${url}/metrics`)).text();
  return { status: answer.status, missing, paused: /\nmillwright_workers_paused (\d)\n/.exec(metrics)?.[1] };
}

const working = { status: 200, missing: [], paused: '0' };
const pausedBy = (lease: string) => ({
  status: 503,
  missing: [
    `the workers pause: the Lease ${lease} is held by ${mcm}, which is not a Millwright process; ` +
      'they go on when it is released or expires. Stop that process if Millwright should work',
  ],
  paused: '1',
});

const untilReadiness = (worker: MillwrightProcess, wanted: object) =>
  until(`readiness is ${JSON.stringify(wanted)}`, async (see) => {
    const present = see(await readiness(worker));
    return JSON.stringify(present) === JSON.stringify(wanted);
  });

const isLease = ({ url }: SeenRequest) => url.pathname.includes('/leases/');

/** Waits until the workers have looked at the Leases so many times more. */
async function untilLooked(times: number): Promise<void> {
  const looks = () => proxy.seen.filter(({ url }) => url.pathname.endsWith(`/leases/${names[1]}`)).length;
  const before = looks();
  await until(`the Leases were looked at ${times} times`, async () => looks() >= before + times);
}

describe('the workers', () => {
  it('[mcm 112] [invariant 1] of two replicas pause while machine-controller-manager has the Leases; when a leader dies another goes on, and no VM is made twice', async () => {
    const { cloud, control, namespace, temporal } = millwright;
    const workers = [await startWorker(), await startWorker()];
    const leader = await startControllers();
    await startControllers(); // which waits for its turn
    await millwright.createDeployment('going', 3);
    await millwright.untilMachines(3, 'Running');
    const slow = { ms: 500, maxMs: 3_000 };
    await cloud.setFaults(
      { kind: 'latency', operation: 'create', ...slow },
      { kind: 'latency', operation: 'delete', ...slow },
    );
    await millwright.createDeployment('coming', 8);
    await control.delete(machineDeployments, { namespace, name: 'going' });
    await until('some machines have come', async (see) => see(await cloud.stats()).vmsEver >= 5);

    await leader.kill('SIGKILL');
    for (const name of names) await hold(name, mcm);
    for (const worker of workers) {
      await untilReadiness(worker, pausedBy(names[0]));
      await until('what was under way has ended', async () => worker.logs().includes('"msg":"workers paused"'));
    }
    // A worker that pauses waits 5 s for its Events: on a busy machine some are written later.
    const writes = () => proxy.seen.filter((request) => !isLease(request) && request.method !== 'GET').length;
    await until('the last Events are written', async () => {
      const before = writes();
      await untilLooked(4);
      return writes() === before;
    });
    const seen = proxy.seen.length;
    const calls = (await cloud.calls()).length;
    await millwright.scale('coming', 9);
    const open = `WorkflowId STARTS_WITH '${namespace}/' AND ExecutionStatus = 'Running'`;
    for await (const { workflowId } of temporal.workflow.list({ query: open }))
      await temporal.workflow
        .getHandle(workflowId)
        .signal('retryNow')
        .catch(() => undefined); // the list is a moment behind
    await untilLooked(10);

    expect((await cloud.calls()).length).toBe(calls);
    expect(proxy.seen.slice(seen).filter((request) => !isLease(request) && request.method !== 'GET')).toEqual([]);
    const phases = (await millwright.machines()).map(phaseOf);
    expect(phases.filter((phase) => phase === 'Running').length).toBeLessThan(9);

    await cloud.setFaults();
    for (const name of names) await hold(name, '');
    await millwright.untilMachines(9, 'Running');
    for (const worker of workers) await untilReadiness(worker, working);
    const uids = (await cloud.vms({ all: true })).map(({ tags }) => tags[ourNames.machineUid]);
    expect(new Set(uids).size).toBe(uids.length);
    expect(await cloud.stats()).toMatchObject({ vmsNow: 9 });
  });

  if (isThorough()) {
    it('evict no more pods from then on, also in a drain that is under way', async () => {
      const { control, target, namespace } = millwright;
      const worker = await startWorker();
      const leader = await startControllers();
      const ref = await millwright.createMachine(`drained-${namespace}`);
      await millwright.untilMachines(1, 'Running');
      const runPod = async (name: string, finalizers: string[] = []) => {
        const spec = { nodeName: ref.name, containers: [{ name: 'app', image: 'app' }] };
        await target.create(pods, { metadata: { namespace, name, finalizers }, spec });
      };
      const isLeaving = async (name: string) =>
        (await target.get(pods, { namespace, name })).metadata.deletionTimestamp !== undefined;
      await runPod('first', ['test/held']);
      await control.delete(machines, ref);
      await until('the drain is under way', () => isLeaving('first'));

      await leader.kill('SIGKILL');
      await hold(names[0], mcm);
      await untilReadiness(worker, pausedBy(names[0]));
      await runPod('second');
      await until('the workers have stopped', async () => worker.logs().includes('"msg":"workers paused"'));
      await untilLooked(2);

      expect(await isLeaving('second')).toBe(false);
      await target.patch(pods, { namespace, name: 'first' }, mergePatch({ metadata: { finalizers: null } }));
      await hold(names[0], '');
      await until('the machine is gone', async (see) => see(await millwright.machines()).length === 0, {
        describe: () => millwright.story(),
      });
      expect(await target.find(pods, { namespace, name: 'second' })).toBeUndefined();
    });
  }

  it('do not begin while it has one of the Leases, whether or not it can be seen all the time', async () => {
    const worker = await startWorker();
    await hold(names[1], mcm);
    await untilReadiness(worker, pausedBy(names[1]));

    proxy.setRule((request) =>
      isLease(request) ? { kind: 'answer', status: 503, body: statusBody(503, 'Busy') } : undefined,
    );
    await untilLooked(3);
    expect(await readiness(worker)).toEqual(pausedBy(names[1]));
    await hold(names[1], '');
    proxy.setRule();
    await untilReadiness(worker, working);
    await millwright.createMachine(`foreign-${millwright.namespace}`); // orphan-sweep has a Node `foreign`
    await startControllers();
    await millwright.untilMachines(1, 'Running');
  });

  it('work where they may not read the Leases, with a warning', async () => {
    proxy.setRule((request) =>
      isLease(request) ? { kind: 'answer', status: 403, body: statusBody(403, 'Forbidden') } : undefined,
    );
    const worker = await startWorker();
    await hold(names[0], mcm);
    await untilLooked(3);

    expect(await readiness(worker)).toEqual(working);
    expect(worker.logs().match(/cannot read who holds the Leases/g)).toHaveLength(1);
  });
});
