/** The provider contract from outside: deploy/examples/python-provider serves the clouds of an installation. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { finalizers, labels } from '../../api/gardener/names.ts';
import { machineClasses, machines } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { workflowId } from '../../api/workflow-id.ts';
import { spawnGuarded } from '../../deploy/local/process.ts';
import { nodes } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { fromSetup, type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { preparePythonProvider } from '../support/python-provider.ts';
import { deleteMachine, makeVm, quickSweeps, sweep, untilOld } from '../support/sweeps.ts';
import { until } from '../support/until.ts';

const userData = '#!/bin/sh\nexec kubelet --node-labels=canary-6f1d';

describe('a provider in Python', () => {
  let millwright: Installation;
  let worker: PythonProvider;

  beforeAll(async () => {
    millwright = await startInstallation({ flags: ['--providers', '', ...quickSweeps] });
    await millwright.putSecret('user-data', { userData });
    await millwright.putSecret('credentials', { token: 'letmein' });
    await millwright.createClass('python', {
      provider: 'python',
      secretRef: { namespace: millwright.namespace, name: 'user-data' },
      credentialsSecretRef: { namespace: millwright.namespace, name: 'credentials' },
    });
    worker = await startPythonProvider(millwright.namespace);
  });
  afterEach(async () => {
    await millwright.cloud.setFaults();
  });
  afterAll(async () => {
    await worker?.stop();
    await millwright?.stop();
  });

  async function createMachine(name: string): Promise<ObjectRef> {
    return millwright.createMachine(name, { class: { kind: 'MachineClass', name: 'python' } });
  }

  async function untilMachine(ref: ObjectRef, phase: string, errorCode?: string): Promise<void> {
    await until(
      `${ref.name} is ${phase} ${errorCode ?? ''}`,
      async () => {
        const machine = await millwright.control.get(machines, ref);
        return phaseOf(machine) === phase && machine.status?.lastOperation?.errorCode === errorCode;
      },
      { describe: async () => `${await millwright.story()}\n${worker.logs()}` },
    );
  }

  it('makes a VM with the user data of its Secret, whose node joins, and deletes it with its Machine', async () => {
    const ref = await createMachine('whole-life');
    await untilMachine(ref, 'Running');

    const [vm, ...more] = await millwright.vmsOf(ref);
    expect(more).toEqual([]);
    expect(vm).toMatchObject({ name: 'whole-life', state: 'running', userData, token: `${ref.uid}-0` });
    const { spec, metadata } = await millwright.control.get(machines, ref);
    expect(spec?.providerID).toBe(`simulated:///here/${vm?.id}`);
    expect((await millwright.nodes()).map((node) => node.metadata.name)).toEqual([metadata.labels?.['node']]);

    await millwright.remove(ref);
    expect((await millwright.vmsOf(ref)).map(({ state }) => state)).toEqual(['terminated']);
    expect(await millwright.nodes()).toEqual([]);
    const histories = await until('its histories are listed', async () => {
      const text = await historiesOf(millwright, ref);
      return text.includes(`${ref.uid}-0`) ? text : undefined;
    });
    expect(/canary-6f1d|letmein/.exec(histories)).toBeNull();
  });

  it('refuses with a code that the Machine shows, and goes on when there is capacity', async () => {
    await millwright.cloud.setFaults({ kind: 'capacity' });
    const ref = await createMachine('no-room');
    await untilMachine(ref, 'CrashLoopBackOff', 'ResourceExhausted');
    const described = await millwright.describe(ref);
    expect(described).toMatchObject({
      blockedOn: 'CloudCapacity',
      lastError: { message: expect.stringContaining('409') },
    });

    await millwright.cloud.setFaults();
    const { temporal, namespace } = millwright;
    await temporal.workflow.getHandle(workflowId(namespace, 'Machine', ref)).signal('retryNow');
    await untilMachine(ref, 'Running');
    await millwright.remove(ref);
  });

  it('[invariant 1] makes one VM although the cloud loses the answer and knows no tokens', async () => {
    await millwright.cloud.setFaults(
      { kind: 'lostAnswer', effect: 'done', operation: 'create', times: 1 },
      { kind: 'ignoreTokens' },
    );
    const ref = await createMachine('lost-answer');
    await untilMachine(ref, 'Running');

    expect(await millwright.vmsOf(ref)).toHaveLength(1);
    await millwright.remove(ref);
  });

  it('[invariant 2] deletes the VM of a Machine that machine-controller-manager made, however that is spelled', async () => {
    const { control, namespace } = millwright;
    const name = `taken-over-${namespace}`;
    const id = (await makeVm(millwright, name, { joins: true })).split('/').at(-1) ?? '';
    await until('its node has registered', () => millwright.target.find(nodes, { name }));
    const { metadata } = await control.create(machines, {
      metadata: { namespace, name, finalizers: [finalizers.machine], labels: { [labels.node]: name } },
      spec: {
        class: { kind: 'MachineClass', name: 'python' },
        providerID: `simulated:///elsewhere/${id.toUpperCase()}`,
      },
    });
    const status = { currentStatus: { phase: 'Running' } };
    await control.patch(machines, metadata, mergePatch({ status }), { subresource: 'status' });
    await millwright.remove({ namespace, name });

    expect((await millwright.cloud.vms()).map((vm) => vm.id)).not.toContain(id);
    expect(await millwright.target.find(nodes, { name })).toBeUndefined();
  });

  it('[mcm 88 partly] [mcm 90 partly] lists and deletes what has no Machine, with and without a UID tag, and a surplus VM alone', async () => {
    const { control, namespace } = millwright;
    await control.delete(machineClasses, { namespace, name: 'small' }); // which nobody serves here
    const ref = await createMachine('kept');
    const deleted = await createMachine('python-tagged');
    for (const each of [ref, deleted]) await untilMachine(each, 'Running');
    await deleteMachine(millwright, deleted);
    await makeVm(millwright, 'python-tagged', { uid: deleted.uid });
    await makeVm(millwright, 'untagged');
    await makeVm(millwright, 'surplus', { uid: ref.uid });
    await makeVm(millwright, 'foreign', { tags: { cluster: 'another' } });
    await untilOld(millwright);

    const { report, code } = await sweep(millwright);

    expect(report.groups).toMatchObject([{ seen: 13, kept: [{ reason: 'machine', count: 7 }], deleted: { count: 6 } }]);
    expect(code).toBe(0);
    expect((await millwright.cloud.vms()).map(({ name }) => name).toSorted()).toEqual(['foreign', 'kept']);
    await millwright.remove(ref);
  });

  it('leaves no VM of a Machine that is deleted while its create call hangs', async () => {
    await millwright.cloud.setFaults({ kind: 'hang', effect: 'done', operation: 'create', ms: 15_000 });
    const ref = await createMachine('hanging');
    await until('the create call hangs', async (see) => {
      const calls = see(await millwright.cloud.calls());
      return calls.some(({ token, outcome }) => token === `${ref.uid}-0` && outcome === 'pending');
    });

    await millwright.remove(ref);
    expect((await millwright.vmsOf(ref)).map(({ state }) => state)).toEqual(['terminated']);
  });
});

/** All histories of a Machine as text, with the payloads as their writers saw them. */
async function historiesOf({ temporal, namespace }: Installation, ref: ObjectRef): Promise<string> {
  const id = workflowId(namespace, 'Machine', ref);
  const texts: string[] = [];
  for await (const { runId } of temporal.workflow.list({ query: `WorkflowId = '${id}'` })) {
    const { events } = await temporal.workflow.getHandle(id, runId).fetchHistory();
    const decode = (key: string, value: unknown) =>
      key === 'data' && typeof value === 'string' ? Buffer.from(value, 'base64').toString() : value;
    texts.push(JSON.stringify(events, decode));
  }
  return texts.join('\n');
}

type PythonProvider = Awaited<ReturnType<typeof startPythonProvider>>;

/** Starts the example, and resolves when it serves. */
async function startPythonProvider(installation: string) {
  const [kubeconfig, temporalAddress] = [
    fromSetup('MILLWRIGHT_TEST_KUBECONFIG'),
    fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS'),
  ];
  const { program, args, env, remove } = await preparePythonProvider(kubeconfig, temporalAddress, installation);
  const child = spawnGuarded('KILL', program, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  const log = collect(child);
  await until('the provider serves', async () => {
    if (child.exitCode !== null) throw new Error(`the provider has exited: ${log()}`);
    return log().includes(`serving ${installation}.provider-python`);
  });
  return {
    logs: log,
    async stop(): Promise<void> {
      const exited = once(child, 'exit');
      if (child.exitCode === null && child.kill('SIGKILL')) await exited;
      await remove();
    },
  };
}

function collect(child: ChildProcess): () => string {
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => (output += chunk));
  return () => output;
}
