/** Several processes of one installation: of their controllers one acts. */
import { mkdtempSync, rmSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { machineDeployments, machineSets } from '../../api/gardener/resources.ts';
import { leases } from '../../kube/core.ts';
import { buildName } from '../../temporal/version.ts';
import { type FaultProxy, startFaultProxy } from '../faults/proxy.ts';
import { fromSetup, type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { type MillwrightOptions, type MillwrightProcess, startMillwright } from '../support/millwright.ts';
import { until } from '../support/until.ts';

const folder = mkdtempSync(join(tmpdir(), 'millwright-leader-test-'));
const proxied = join(folder, 'proxy.kubeconfig');
let proxy: FaultProxy;
let millwright: Installation;

/** They expire while a test waits, and a leader that a busy machine stops for some seconds keeps them. */
const patientLeases = ['--leader-elect-lease-duration', '20s', '--leader-elect-renew-deadline', '17s'];

beforeAll(async () => {
  proxy = await startFaultProxy(fromSetup('MILLWRIGHT_TEST_KUBECONFIG'));
  await proxy.writeKubeconfig(proxied);
});

beforeEach(async () => {
  const leases = { isElected: true, flags: patientLeases };
  millwright = await startInstallation({ isStopped: true, ...leases, cloud: { bootMs: 300, joinMs: 300 } });
});

afterEach(async () => {
  await millwright.stop();
});

afterAll(async () => {
  await proxy.close();
  rmSync(folder, { recursive: true });
});

/** Starts a process of the installation whose requests to the API server can be seen. */
async function startProxied(
  command: 'run' | 'controllers',
  options: Partial<MillwrightOptions> = {},
): Promise<MillwrightProcess> {
  const { namespace, processes } = millwright;
  const process = await startMillwright({ namespace, command, kubeconfig: proxied, ...options });
  processes.push(process);
  return process;
}

async function isLeading({ url }: MillwrightProcess): Promise<boolean> {
  const response = await fetch(`${url}/metrics`);
  expect(response.status).toBe(200);
  return (await response.text()).includes('\nmillwright_leader 1\n');
}

async function untilLeading(process: MillwrightProcess): Promise<void> {
  await until('the other process leads', () => isLeading(process), { describe: async () => process.logs() });
}

/** What was written through the proxy since, but for Leases. */
function writesSince(index: number): string[] {
  return proxy.seen
    .slice(index)
    .filter(({ method, url }) => method !== 'GET' && !url.pathname.includes('/leases'))
    .map(({ method, url }) => `${method} ${url.pathname}`);
}

/** Who has signalled workflows of the installation, by process. */
async function signallers(): Promise<Set<string>> {
  const { temporal, namespace } = millwright;
  const found = new Set<string>();
  const query = `WorkflowId STARTS_WITH '${namespace}/'`;
  for await (const { workflowId, runId } of temporal.workflow.list({ query })) {
    const { events } = await temporal.workflow.getHandle(workflowId, runId).fetchHistory();
    for (const event of events ?? []) {
      const { identity } = event.workflowExecutionSignaledEventAttributes ?? {};
      if (identity) found.add(identity);
    }
  }
  return found;
}

async function readMetrics({ url }: MillwrightProcess): Promise<string> {
  return (await fetch(`${url}/metrics`)).text();
}

/** Watches are a moment behind, and a scrape leaves out an SDK that is busy. */
async function untilMetrics(process: MillwrightProcess, line: RegExp): Promise<string> {
  return until(`the metrics have ${line}`, async (see) => {
    const text = see(await readMetrics(process));
    return line.test(text) && text;
  });
}

describe('two processes of one installation', () => {
  it('[mcm 112 partly] [invariant 1] when the leader is killed, the other makes the machines that are missing and no VM twice', async () => {
    const { cloud, control, namespace, start } = millwright;
    millwright.recordAs('leader-killed');
    const leader = await start();
    const other = await startProxied('run', { flags: patientLeases });
    expect([await isLeading(leader), await isLeading(other)]).toEqual([true, false]);
    // Every third creation is under way until its client gives it up, after 15 s.
    await cloud.setFaults({ kind: 'hang', effect: 'done', operation: 'create', every: 3 });
    await millwright.createDeployment('pool', 10);
    await until('some creations are done and some are under way', async (see) => {
      const { vmsEver } = see(await cloud.stats());
      return vmsEver >= 2;
    });

    expect(await isLeading(other)).toBe(false);
    await leader.kill('SIGKILL');
    expect((await millwright.machines()).filter((machine) => phaseOf(machine) === 'Running').length).toBeLessThan(10);
    await cloud.setFaults();
    await millwright.untilMachines(10, 'Running');
    await untilLeading(other);

    await until('the counts are those of ten machines', async (see) => {
      const { items } = see(await control.list(machineSets, { namespace }));
      const { status } = await control.get(machineDeployments, { namespace, name: 'pool' });
      const counts = [...items, { status }].map((owner) => owner.status?.readyReplicas);
      return items.length === 1 && counts.every((count) => count === 10);
    });
    expect(await cloud.stats()).toMatchObject({ vmsEver: 10, vmsNow: 10 });
  });

  it('[mcm 112 partly] a standby is ready and knows everything, writes nothing, wakes nothing, and takes over when the leader stops', async () => {
    const { control, namespace, processes } = millwright;
    const worker = await startMillwright({ namespace, command: 'worker' });
    processes.push(worker);
    const leader = await startMillwright({ namespace, command: 'controllers' });
    processes.push(leader);
    const before = proxy.seen.length;
    const standby = await startProxied('controllers');
    const { metadata, spec } = await control.get(leases, { namespace, name: 'machine-controller-manager' });
    const readiness = await until('the standby is ready', async () => {
      const answer = await fetch(`${standby.url}/readyz`);
      return answer.ok && answer;
    });

    await millwright.createDeployment('pool', 3);
    await millwright.untilMachines(3, 'Running');
    await millwright.scale('pool', 1);
    await millwright.untilMachines(1, 'Running');
    const ofLeader = await untilMetrics(leader, /^mcm_machine_items_total 1$/m);
    await untilMetrics(worker, /^temporal_num_pollers\{/m);
    const ofStandby = await readMetrics(standby);
    const writes = writesSince(before);
    // The list of workflows may be a moment behind.
    const woken = await until('a signal is listed', async (see) => {
      const found = see(await signallers());
      return found.size > 0 && found;
    });
    await leader.kill('SIGTERM');
    await untilLeading(standby);
    await millwright.scale('pool', 2);
    await millwright.untilMachines(2, 'Running');

    const waitsFor = { lease: metadata.name, holder: spec?.holderIdentity };
    const temporal = { reachable: true, lastAnswerAgeSeconds: expect.any(Number) };
    const answer = [readiness.status, await readiness.json()];
    expect(answer).toEqual([200, { missing: [], version: buildName(), temporal, leader: false, waitsFor }]);
    expect(ofStandby).toMatch(/^millwright_leader 0$/m);
    expect(ofStandby).not.toMatch(/^mcm_machine_items_total /m);
    for (const withoutWorker of [ofLeader, ofStandby]) expect(withoutWorker).not.toMatch(/^temporal_|"sdk"/m);
    expect(writes).toEqual([]);
    expect(woken).toEqual(new Set([`${leader.pid}@${hostname()}`]));
    await until('the signals of both are listed', async (see) => see(await signallers()).size > 1);
    expect(await signallers()).toEqual(new Set([`${leader.pid}@${hostname()}`, `${standby.pid}@${hostname()}`]));
  });
});
