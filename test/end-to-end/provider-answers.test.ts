/** What Millwright makes of the answers of a provider that is not its own. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ApplicationFailure } from '@temporalio/activity';
import { finalizers, labels } from '../../api/gardener/names.ts';
import { machines } from '../../api/gardener/resources.ts';
import type { DeleteVmRequest, EnsureVmRequest, Vm, VmDeletion } from '../../api/provider.ts';
import { type Node, nodes } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { serveProvider } from '../support/serve-provider.ts';
import { until } from '../support/until.ts';

/** A cloud with one VM a Machine, whose Node has a name of the cloud's choice. */
interface PlayedVm {
  readonly providerID: string;
  readonly nodeName: string;
  readonly asked: EnsureVmRequest[];
  readonly deletions: DeleteVmRequest[];
  answer(request: EnsureVmRequest): Promise<Vm>;
}

describe('the answer of a provider', () => {
  let millwright: Installation;
  let stop: () => Promise<void>;
  /** Asked for again after 10 s, which the other tests take. */
  let withoutLookUp: ReturnType<typeof play>;
  const vms = new Map<string, PlayedVm>();

  beforeAll(async () => {
    millwright = await startInstallation({ flags: ['--providers', '', '--resource-exhausted-retry', '4s'] });
    millwright.recordAs('provider-answers');
    await millwright.createClass('played', { provider: 'played' });
    stop = await serveProvider(millwright, 'played', { ensureVm, deleteVm });
    withoutLookUp = play('no-look-up', (vm, { providerID }) => {
      if (providerID !== undefined) throw ApplicationFailure.nonRetryable('there is no look-up', 'Unimplemented');
      return running(vm);
    });
    await withoutLookUp;
  });
  afterAll(async () => {
    await stop?.();
    await millwright?.stop();
  });

  async function ensureVm(request: EnsureVmRequest): Promise<Vm> {
    const vm = vms.get(request.machine.name);
    if (vm === undefined) throw new Error(`nobody plays ${request.machine.name}`);
    vm.asked.push(request);
    return vm.answer(request);
  }

  async function deleteVm(request: DeleteVmRequest): Promise<VmDeletion> {
    vms.get(request.machine.name)?.deletions.push(request);
    return { state: 'gone', nodeNames: [] };
  }

  /** Makes a Machine whose VM answers so. */
  async function play(name: string, answer: (vm: PlayedVm, request: EnsureVmRequest) => Promise<Vm> | Vm) {
    const id = randomUUID();
    const vm: PlayedVm = {
      ...{ providerID: `played:///${id}`, nodeName: `ip-${id}`, asked: [], deletions: [] },
      answer: async (request) => answer(vm, request),
    };
    vms.set(name, vm);
    const ref = await millwright.createMachine(name, { class: { kind: 'MachineClass', name: 'played' } });
    return { ref, vm };
  }

  const running = ({ providerID, nodeName }: PlayedVm): Vm => ({
    state: 'running',
    providerID,
    nodeName,
    addresses: [],
  });

  /** A healthy Node, as a kubelet registers it. */
  async function register({ nodeName, providerID }: Pick<PlayedVm, 'nodeName' | 'providerID'>) {
    const { metadata } = await millwright.target.create(nodes, { metadata: { name: nodeName }, spec: { providerID } });
    const status = { conditions: [{ type: 'Ready', status: 'True' }] };
    return millwright.target.patch(nodes, metadata, mergePatch({ status }), { subresource: 'status' });
  }

  it('[mcm 15] uninitialized keeps the Machine from running until the VM is set up, and running is asked for once', async () => {
    const needsNone = await play('no-set-up', async (played) => {
      await register(played);
      return running(played);
    });
    await millwright.untilPhase(needsNone.ref, 'Running');
    expect(needsNone.vm.asked).toHaveLength(1);

    let problem: string | undefined = 'the route is missing';
    const { ref, vm } = await play('set-up', async (played, { providerID }) => {
      if (providerID === undefined) await register(played);
      return problem === undefined ? running(played) : { ...running(played), state: 'uninitialized', message: problem };
    });

    const refused = await millwright.untilPhase(ref, 'CrashLoopBackOff');
    expect(refused.status?.lastOperation).toMatchObject({
      ...{ type: 'Create', state: 'Failed', errorCode: 'Uninitialized' },
      description: 'Initialize VM Instance: the route is missing',
    });
    await until('it is asked again', async () => vm.asked.length > 1);
    expect(await millwright.describe(ref)).toMatchObject({
      phase: 'CrashLoopBackOff',
      lastError: { code: 'Uninitialized', message: problem },
    });
    problem = undefined;

    await millwright.untilPhase(ref, 'Running');
    expect(new Set(vm.asked.map(({ token }) => token)).size).toBe(1);
  });

  it('[mcm 26] ResourceExhausted is asked again after the configured pause and not before, and its code is shown', async () => {
    const atMs: number[] = [];
    let isSeen = false;
    const { ref, vm } = await play('no-room', async (played) => {
      atMs.push(Date.now());
      if (atMs.length < 3 || !isSeen) throw ApplicationFailure.nonRetryable('no room', 'ResourceExhausted');
      await register(played);
      return running(played);
    });
    const refused = await millwright.untilPhase(ref, 'CrashLoopBackOff');
    expect(refused.status?.lastOperation).toMatchObject({ type: 'Create', errorCode: 'ResourceExhausted' });
    isSeen = true;
    await millwright.untilPhase(ref, 'Running');
    const pauses = atMs.slice(1).map((at, i) => at - atMs[i]!);
    expect(pauses.length).toBeGreaterThanOrEqual(2);
    expect(Math.min(...pauses)).toBeGreaterThanOrEqual(4_000);
    expect(vm.asked).toHaveLength(atMs.length);
  });

  it('[mcm 29] lastKnownState is kept on the Machine and handed back with each later call, the deletion included', async () => {
    let calls = 0;
    const { ref, vm } = await play('state', async (played) => {
      calls += 1;
      if (calls === 3) await register(played);
      return { ...running(played), state: calls < 3 ? 'uninitialized' : 'running', lastKnownState: `state ${calls}` };
    });
    const machine = await millwright.untilPhase(ref, 'Running');
    expect(machine.status?.lastKnownState).toBe('state 3');
    await millwright.remove(ref);

    expect(vm.asked.map(({ lastKnownState }) => lastKnownState)).toEqual([undefined, 'state 1', 'state 2']);
    expect(vm.deletions.map(({ lastKnownState }) => lastKnownState)).toEqual(['state 3']);
  });

  it("[mcm 19] the name of another VM's Node fails the Machine, deletes its VM and leaves that Node alone", async () => {
    let other: Node | undefined;
    const { ref, vm } = await play('stale', async (played) => {
      other ??= await register({ nodeName: played.nodeName, providerID: 'played:///other' });
      return running(played);
    });

    const machine = await millwright.untilPhase(ref, 'Failed');
    expect(machine.status?.lastOperation).toMatchObject({
      ...{ type: 'Create', state: 'Failed' },
      description: expect.stringContaining('VM using old node obj'),
    });
    expect(machine.metadata.labels?.[labels.node]).toBeUndefined();
    expect(vm.deletions).toMatchObject([{ providerID: vm.providerID }]);
    await millwright.remove(ref);
    expect(await millwright.target.get(nodes, { name: vm.nodeName })).toEqual(other);
  });

  it('the Node that a VM registers while it is deleted, because its name was taken, goes with its Machine', async () => {
    let other: Node | undefined;
    const { ref, vm } = await play('late', async (played) => {
      other ??= await register({ nodeName: played.nodeName, providerID: 'played:///another' });
      return running(played);
    });
    await millwright.untilPhase(ref, 'Failed');
    await millwright.target.delete(nodes, { name: vm.nodeName });
    await register(vm);

    await millwright.remove(ref);

    expect(await millwright.target.find(nodes, { name: vm.nodeName })).toBeUndefined();
  });

  it('[mcm 19 partly] the name of a Node that has registered already is no reason when it is its own', async () => {
    const { ref, vm } = await play('quick', async (played, { providerID }) => {
      if (providerID === undefined) await register(played);
      return running(played);
    });

    await millwright.untilPhase(ref, 'Running');
    expect(vm.deletions).toEqual([]);
    const { metadata } = await millwright.target.get(nodes, { name: vm.nodeName });
    expect(metadata.finalizers).toEqual([finalizers.node]);
    expect(metadata.labels?.[labels.machineName]).toBe(ref.name);
  });

  it('[mcm 13] Unimplemented for a VM that the Machine names makes no second one', async () => {
    const { ref, vm } = await withoutLookUp;
    await until('it is asked for again', async () => vm.asked.length > 1);
    expect(phaseOf(await millwright.control.get(machines, ref))).toBe('Pending');
    await register(vm);

    const machine = await millwright.untilPhase(ref, 'Running');
    expect(machine.spec?.providerID).toBe(vm.providerID);
    expect(machine.metadata.labels?.[labels.node]).toBe(vm.nodeName);
    expect(vm.asked.filter(({ providerID }) => providerID === undefined)).toHaveLength(1);
    await millwright.remove(ref);
    expect(vm.deletions).toMatchObject([{ providerID: vm.providerID }]);
  });
});
