/** What docs/providers.md promises to a provider that does what the page says, in a cloud that uses every freedom. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { ApplicationFailure, Context } from '@temporalio/activity';
import { finalizers, labels } from '../../api/gardener/names.ts';
import { machineClasses, machines } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { workflowId } from '../../api/workflow-id.ts';
import { nodes } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { createLiteralProvider, type LiteralVm } from '../support/literal-provider.ts';
import { serveProvider } from '../support/serve-provider.ts';
import { deleteMachine, quickSweeps, sweep } from '../support/sweeps.ts';
import { until } from '../support/until.ts';

describe('a provider that does what docs/providers.md says, and no more', () => {
  const provider = createLiteralProvider('literal');
  let millwright: Installation;
  let stop: () => Promise<void>;

  beforeAll(async () => {
    millwright = await startInstallation({ flags: ['--providers', '', ...quickSweeps] });
    await createClass('literal', 'here');
    stop = await serveProvider(millwright, 'literal', provider.activities);
  });
  afterEach(() => provider.beforeAnswer(async () => {}));
  afterAll(async () => {
    await stop?.();
    await millwright?.stop();
  });

  function createClass(name: string, region: string): Promise<void> {
    return millwright.createClass(name, { provider: 'literal', providerSpec: { region } });
  }

  const create = (name: string, spec: object = {}, machineClass = 'literal'): Promise<ObjectRef> =>
    millwright.createMachine(name, { class: { kind: 'MachineClass', name: machineClass }, ...spec });

  const untilTrue = (what: string, isTrue: () => Promise<boolean> | boolean) =>
    until(what, isTrue, { describe: () => millwright.story() });

  /** Lets the Node of a VM join, which is when its cloud lists it at the latest. */
  async function joinNode(vm: LiteralVm): Promise<void> {
    await untilTrue('the VM is listed', () => provider.isListed(vm));
    const spec = { providerID: provider.providerIDOf(vm) };
    const { metadata } = await millwright.target.create(nodes, { metadata: { name: vm.name }, spec });
    const status = { conditions: [{ type: 'Ready', status: 'True' }] };
    await millwright.target.patch(nodes, metadata, mergePatch({ status }), { subresource: 'status' });
  }

  /** A Machine as machine-controller-manager leaves it, with a VM that has no UID tag. */
  async function takeOver(name: string, phase: string): Promise<ObjectRef> {
    const { control, namespace } = millwright;
    const vm = provider.make(provider.vmNameOf(name), 'here', { ageMs: 60_000 });
    const { metadata } = await control.create(machines, {
      metadata: { namespace, name, finalizers: [finalizers.machine], labels: { [labels.node]: vm.name } },
      spec: {
        class: { kind: 'MachineClass', name: 'literal' },
        providerID: `literal:///zone-1/${vm.id.toUpperCase()}`,
      },
    });
    await control.patch(machines, metadata, mergePatch({ status: { currentStatus: { phase } } }), {
      subresource: 'status',
    });
    return { dialect: 'gardener', namespace, name, uid: metadata.uid };
  }

  it('[invariant 2] has no VM left of a Machine that is deleted while its create call finishes and returns', async () => {
    let deleted = () => {};
    const isDeleted = new Promise<void>((resolve) => {
      deleted = resolve;
    });
    provider.beforeAnswer(async () => {
      const call = Context.current();
      const beating = setInterval(() => call.heartbeat(), 2_000); // as every call that may take longer than 10 s
      await isDeleted;
      clearInterval(beating);
    });
    const ref = await create('deleted-meanwhile');
    await untilTrue('its VM is made', () => provider.vmsOf(ref.name).length === 1);
    await millwright.control.delete(machines, ref);
    const handle = millwright.temporal.workflow.getHandle(workflowId(millwright.namespace, 'Machine', ref));
    await untilTrue('the call is cancelled', async () => {
      const [call] = (await handle.describe()).raw.pendingActivities ?? [];
      return call?.state === 3; // PENDING_ACTIVITY_STATE_CANCEL_REQUESTED
    });
    deleted();
    await millwright.untilGone(ref);

    expect(provider.vmsOf(ref.name)).toEqual([]);
  });

  it('[invariant 2] has no VM left of a Machine that is deleted right after its creation', async () => {
    const ref = await create('deleted-at-once');
    await millwright.untilPhase(ref, 'Pending');
    await millwright.remove(ref);

    expect(provider.vmsOf(ref.name)).toEqual([]);
  });

  it('[invariant 1] has one VM of a Machine whose create call lost its answer', async () => {
    let isLost = false;
    provider.beforeAnswer(async () => {
      if (isLost) return;
      isLost = true;
      throw ApplicationFailure.create({ type: 'Unavailable', message: 'no answer' });
    });
    const ref = await create('lost-answer');
    await millwright.untilPhase(ref, 'Pending');

    expect(provider.vmsOf(ref.name)).toHaveLength(1);
    const requests = provider.asked.filter(({ machine }) => machine.uid === ref.uid);
    // The first may say so, too: on a busy machine a task of the workflow is done again, and finds the finalizer.
    expect(requests.slice(1).map(({ outcomeUnknown }) => outcomeUnknown)).toEqual([true]);
    const [first, second] = requests.map((request) => ({ ...request, outcomeUnknown: true }));
    expect(second).toEqual(first);
    await millwright.remove(ref);
    expect(provider.vmsOf(ref.name)).toEqual([]);
  });

  it('[invariant 2] has no Node left of a VM of which the Machine never heard', async () => {
    provider.beforeAnswer(async () => {
      throw ApplicationFailure.create({ type: 'Internal', message: 'broken', nonRetryable: true });
    });
    const ref = await create('never-heard');
    await millwright.untilPhase(ref, 'CrashLoopBackOff');
    const [vm] = provider.vmsOf(ref.name);
    await joinNode(vm!);
    await millwright.remove(ref);

    expect(provider.vmsOf(ref.name)).toEqual([]);
    expect(await millwright.target.find(nodes, { name: vm!.name })).toBeUndefined();
    const known = provider.deletions.filter(({ machine }) => machine.uid === ref.uid).map(({ nodeNames }) => nodeNames);
    expect(known).toEqual([[], [vm!.name]]);
  });

  it('[invariant 2] deletes the VM of a Machine that machine-controller-manager made', async () => {
    const ref = await takeOver('taken-over', 'Running');
    await millwright.remove(ref);

    expect(provider.vmsOf(ref.name)).toEqual([]);
  });

  it('[invariant 1] makes no second VM for a pending Machine that machine-controller-manager made', async () => {
    const ref = await takeOver('taken-over-pending', 'Pending');
    const [vm] = provider.vmsOf(ref.name);
    await untilTrue('its VM is asked for', () => provider.asked.some(({ machine }) => machine.uid === ref.uid));
    await joinNode(vm!);
    await millwright.untilPhase(ref, 'Running');

    expect(provider.vmsOf(ref.name)).toEqual([vm]);
    expect((await millwright.control.get(machines, ref)).spec?.providerID).toBe(
      `literal:///zone-1/${vm!.id.toUpperCase()}`,
    );
    await millwright.remove(ref);
    expect(provider.vmsOf(ref.name)).toEqual([]);
    expect(await millwright.target.find(nodes, { name: vm!.name })).toBeUndefined();
  });

  it('[invariant 4] loses to a sweep what has no Machine and what is surplus, and nothing that a Machine names', async () => {
    const { control, namespace } = millwright;
    await control.delete(machineClasses, { namespace, name: 'small' }); // which nobody serves here
    const takenOver = await takeOver('swept-taken-over', 'Running');
    const ref = await create('swept');
    await millwright.untilPhase(ref, 'Pending');
    const [own] = provider.vmsOf(ref.name);
    await joinNode(own!);
    await millwright.untilPhase(ref, 'Running');
    const deleted = await create('nobody');
    await millwright.untilPhase(deleted, 'Pending');
    await deleteMachine(millwright, deleted);
    const old = { ageMs: 60_000 };
    provider.make(provider.vmNameOf('nobody'), 'here', old);
    provider.make(provider.vmNameOf('nobody'), 'here', { uid: deleted.uid, ...old });
    provider.make(own!.name, 'here', { uid: ref.uid, ...old });
    await untilTrue('the VM of the Machine is listed', () => provider.isListed(own!));

    const { report } = await sweep(millwright);

    expect(report.groups.map(({ deleted, failed }) => [deleted.count, failed])).toContainEqual([3, []]);
    expect(provider.vmsOf('nobody')).toEqual([]);
    expect(provider.vmsOf(ref.name)).toEqual([own]);
    expect(provider.vmsOf(takenOver.name)).toHaveLength(1);
    await millwright.remove(ref);
    await millwright.remove(takenOver);
  });

  it.each([
    {
      edit: 'its class names another region',
      machineClass: 'moved',
      change: (key: { namespace: string; name: string }) =>
        millwright.control.patch(machineClasses, key, mergePatch({ providerSpec: { region: 'there' } })),
    },
    {
      edit: 'its class names another provider',
      machineClass: 'other-provider',
      change: (key: { namespace: string; name: string }) =>
        millwright.control.patch(machineClasses, key, mergePatch({ provider: 'nobody' })),
    },
    {
      edit: 'its class is gone',
      machineClass: 'gone',
      change: async (key: { namespace: string; name: string }) => {
        await millwright.control.patch(machineClasses, key, mergePatch({ metadata: { finalizers: null } }));
        await millwright.control.delete(machineClasses, key);
      },
    },
    {
      edit: 'it names another class',
      machineClass: 'left',
      change: (_: object, ref: ObjectRef) =>
        millwright.control.patch(machines, ref, mergePatch({ spec: { class: { name: 'missing' } } })),
    },
  ])('[invariant 2] deletes the VM of a running Machine although $edit', async ({ machineClass, change }) => {
    await createClass(machineClass, 'here');
    const ref = await create(`class-${machineClass}`, {}, machineClass);
    await millwright.untilPhase(ref, 'Pending');
    const [vm] = provider.vmsOf(ref.name);
    await joinNode(vm!);
    await millwright.untilPhase(ref, 'Running');

    await change({ namespace: millwright.namespace, name: machineClass }, ref);
    await millwright.remove(ref);

    expect(provider.vmsOf(ref.name)).toEqual([]);
  });

  it('[invariant 1] keeps of two VMs the one that the Machine names, though the other is older', async () => {
    const ref = await create('two');
    await millwright.untilPhase(ref, 'Pending');
    const [own] = provider.vmsOf(ref.name);
    provider.make(own!.name, 'here', { uid: ref.uid, ageMs: 60_000 });
    await untilTrue(
      'its provider is asked again',
      () => provider.asked.filter(({ machine }) => machine.uid === ref.uid).length > 1,
    );

    await untilTrue('the other is gone', () => provider.vmsOf(ref.name).length === 1);
    expect(provider.vmsOf(ref.name)).toEqual([own]);
    await millwright.remove(ref);
    expect(provider.vmsOf(ref.name)).toEqual([]);
  });
});
