import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { names, searchAttributes } from '../../api/names.ts';
import { workflowId } from '../../api/workflow-id.ts';
import { nodes, type Secret, secrets } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { ignoreGoneOrChanged } from '../../kube/update.ts';
import { type FaultProxy, type SeenRequest, startFaultProxy, statusBody } from '../faults/proxy.ts';
import { fromSetup, type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';

describe('an outage', () => {
  let millwright: Installation;
  let proxy: FaultProxy;
  let dir: string;

  beforeEach(async () => {
    proxy = await startFaultProxy(fromSetup('MILLWRIGHT_TEST_KUBECONFIG'));
    dir = await mkdtemp(join(tmpdir(), 'millwright-outage-'));
    await proxy.writeKubeconfig(join(dir, 'kubeconfig'));
  });
  afterEach(async () => {
    proxy.setRule();
    await millwright?.stop();
    await proxy.close();
    await rm(dir, { recursive: true });
  });

  async function start(flags: readonly string[]): Promise<void> {
    millwright = await startInstallation({ processKubeconfig: join(dir, 'kubeconfig'), flags });
  }

  async function failedWorkflows(): Promise<number> {
    const query = `${searchAttributes.installation} = '${millwright.namespace}' AND ExecutionStatus = 'Failed'`;
    return (await millwright.temporal.workflow.count(query)).count;
  }

  it('[invariant 6] of the API server fails no workflow and no machine, and all of them run afterwards', async () => {
    await start(['--machine-creation-timeout', '10s']);
    millwright.recordAs('api-server-away');
    const { cloud } = millwright;
    await cloud.setFaults({ kind: 'hang', effect: 'done', operation: 'create' });
    await millwright.createDeployment('pool', 5);
    await until('some VMs are being created', async (see) => see(await cloud.stats()).creates > 0);
    await proxy.goDown();
    await cloud.setFaults();
    const downAt = Date.now();
    const refs = (await millwright.machines()).map(({ metadata }) => ({
      dialect: 'gardener' as const,
      namespace: millwright.namespace,
      name: metadata.name,
      uid: metadata.uid,
    }));
    if (refs.length === 0) throw new Error('there is no machine');
    await until('a workflow says what it waits for', async (see) => {
      const answers = see(await Promise.all(refs.map((ref) => millwright.describe(ref).catch(() => undefined))));
      return answers.some((answer) => answer?.blockedOn === 'KubernetesApi');
    });
    await until('the creation timeout is over', async () => Date.now() > downAt + 12_000);
    await proxy.comeUp();

    await millwright.untilMachines(5, 'Running');

    expect(await cloud.stats()).toMatchObject({ vmsEver: 5, vmsNow: 5 });
    expect(await failedWorkflows()).toBe(0);
  });

  it('[invariant 6] of the API server of the Machines costs one reading at a time of a machine whose node goes meanwhile', async () => {
    const targetKubeconfig = fromSetup('MILLWRIGHT_TEST_KUBECONFIG_2');
    const processKubeconfig = join(dir, 'kubeconfig');
    millwright = await startInstallation({ processKubeconfig, targetKubeconfig });
    const ref = await millwright.createMachine('reader');
    await millwright.untilMachines(1, 'Running');
    const handle = millwright.temporal.workflow.getHandle(workflowId(millwright.namespace, 'Machine', ref));
    await until('it is at rest', async (see) => see(await millwright.describe(ref)).doing === 'running');
    const unavailable = { kind: 'answer', status: 503, body: statusBody(503, 'ServiceUnavailable', 'away') } as const;
    const isOfMachine = ({ url }: SeenRequest) => url.pathname.includes(`/machines/${ref.name}`);
    proxy.setRule((request) => (isOfMachine(request) ? unavailable : undefined));
    const first = proxy.seen.length;

    // With the finalizer, which Millwright may put back at once, the deletion would be that of the Machine.
    await until('the node is gone', async (see) => {
      const [node] = see(await millwright.nodes());
      const released = mergePatch({ metadata: { finalizers: null } });
      const { metadata } = await millwright.target.patch(nodes, node!.metadata, released);
      const { uid, resourceVersion } = metadata;
      await millwright.target.delete(nodes, metadata, { preconditions: { uid, resourceVersion } });
      return true;
    });
    /** What ends a pause between two readings. */
    const wakes = async () => {
      const events = (await handle.fetchHistory()).events ?? [];
      const timers = events.filter(({ timerFiredEventAttributes }) => timerFiredEventAttributes != null).length;
      const signals = events.filter(({ workflowExecutionSignaledEventAttributes: signal }) => signal != null).length;
      return { timers, signals };
    };
    await until('it has waited three times', async (see) => see(await wakes()).timers >= 3);
    proxy.setRule();
    await millwright.untilMachines(1, 'Unknown');

    const metrics = await (await fetch(`${millwright.processes[0]?.url}/metrics`)).text();
    const { timers, signals } = await wakes();
    const readings = proxy.seen.slice(first).filter((request) => isOfMachine(request) && request.method === 'GET');
    const triesOfStep = 2;
    expect(metrics).toMatch(/^millwright_activity_failures_total\{activity="observeMachine",code="Unavailable"\} \d/m);
    expect(readings.length).toBeGreaterThanOrEqual(4);
    expect(readings.length).toBeLessThanOrEqual(triesOfStep * (timers + signals));
  });

  it('[invariant 6] of the cloud that outlasts a bootstrap token makes a VM that has a valid one', async () => {
    await start(['--machine-creation-timeout', '6s']);
    const { cloud, target, namespace } = millwright;
    await millwright.putSecret('joining', { token: 'letmein', userData: 'join <<BOOTSTRAP_TOKEN>>' });
    await millwright.createClass('joining', { secretRef: { namespace, name: 'joining' } });
    await cloud.setFaults({ kind: 'outage', how: 'unavailable' });
    const ref = await millwright.createMachine('outlasting', { class: { kind: 'MachineClass', name: 'joining' } });
    const { uid } = ref;
    const key = { namespace: 'kube-system', labelSelector: `${names.machineUid}=${uid}` };
    const expiryOf = ({ data }: Secret) => Date.parse(Buffer.from(data?.['expiration'] ?? '', 'base64').toString());
    const made = await until('there is a token', async (see) => see(await target.list(secrets, key)).items[0]);
    // Calls within seconds of each other have the same token: those with this one are over with the first refusal.
    await millwright.untilRefused(ref, 'Unavailable');
    await until('it would have expired', async () => Date.now() > expiryOf(made));
    for (const token of (await target.list(secrets, key)).items) {
      const { uid, resourceVersion } = token.metadata;
      const preconditions = { uid, resourceVersion }; // it may have been prolonged meanwhile
      // As the token cleaner does.
      if (expiryOf(token) < Date.now())
        await ignoreGoneOrChanged(() => target.delete(secrets, token.metadata, { preconditions }));
    }
    const userDataOf = ({ data }: Secret) =>
      `join ${['token-id', 'token-secret'].map((field) => Buffer.from(data?.[field] ?? '', 'base64').toString()).join('.')}`;
    // Tokens go when their machine fails, seconds later: between two looks of a busy machine.
    const { items, resourceVersion } = await target.list(secrets, key);
    const expiries = new Map([made, ...items].map((token) => [userDataOf(token), expiryOf(token)]));
    const stopping = new AbortController();
    const watching = (async () => {
      for await (const event of target.watch(secrets, { ...key, resourceVersion }, stopping.signal)) {
        if (event.type !== 'BOOKMARK') expiries.set(userDataOf(event.object), expiryOf(event.object));
      }
    })();
    await cloud.setFaults({ kind: 'neverJoin' });

    const vm = await until('there is a VM whose token was seen', async (see) => {
      const [first] = see(await cloud.vms({ all: true }));
      return first && expiries.has(first.userData ?? '') ? first : undefined;
    });
    stopping.abort();
    await watching;

    expect(expiries.get(vm.userData ?? '')).toBeGreaterThan(Date.parse(vm.createdAt));
  });

  it('of a permission is waited for and shown, and over when it is granted', async () => {
    await start([]);
    millwright.recordAs('permission-missing');
    const forbidden = statusBody(403, 'Forbidden', 'secrets is forbidden');
    proxy.setRule(({ url, isWatch }) =>
      url.pathname.includes(`/namespaces/${millwright.namespace}/secrets`) && !isWatch
        ? { kind: 'answer', status: 403, body: forbidden }
        : undefined,
    );
    const ref = await millwright.createMachine('forbidden');

    const shown = await until('it says so', async (see) => {
      const described = see(await millwright.describe(ref).catch(() => undefined));
      // An answer that comes too late is shown, too, until the next try.
      const isRefused = described?.lastError?.code === 'PermissionDenied';
      return described?.blockedOn === 'KubernetesApi' && isRefused ? described : undefined;
    });

    expect(shown.lastError).toMatchObject({ code: 'PermissionDenied', message: expect.stringContaining('forbidden') });
    expect(await failedWorkflows()).toBe(0);
    proxy.setRule();
    await millwright.untilMachines(1, 'Running');
  });

  it('[invariant 6] of all workers for longer than the creation timeout replaces no machine that joins meanwhile', async () => {
    await start(['--machine-creation-timeout', '20s']);
    millwright.recordAs('workers-away');
    const { cloud, processes } = millwright;
    await cloud.setFaults({ kind: 'neverJoin' });
    const { createdAt } = await until('a machine is Pending', async () => {
      if ((await millwright.machines()).length === 0)
        await millwright.createDeployment('pool', 1).catch(() => undefined);
      const [machine] = await millwright.machines();
      return machine && phaseOf(machine) === 'Pending' ? { createdAt: machine.metadata.creationTimestamp } : undefined;
    });
    await processes[0]?.kill('SIGKILL');
    const [vm] = await cloud.vms();
    await cloud.restartVm(vm?.id ?? '');
    await until('the creation timeout is over', async () => Date.now() > Date.parse(createdAt) + 24_000);
    const [before] = await millwright.machines();
    await millwright.start();

    const [machine] = await millwright.untilMachines(1, 'Running');

    expect(machine?.metadata.uid).toBe(before?.metadata.uid);
    expect(await cloud.stats()).toMatchObject({ vmsEver: 1 });
  });
});
