/** The end of a machine: its node is drained, and no VM of it may be left, whatever has become of its creation. */

import { describe, expect, it } from '@jest/globals';
import { ApplicationFailure, Context } from '@temporalio/activity';
import type { FailureCode } from '../../../api/failures.ts';
import { refuse, setUpMachine, vm } from '../../../test/support/played-machine.ts';
import { refreshSignal, retryNowSignal } from '../../messages.ts';
import { forceDeletionSignal, observedSignal } from '../messages.ts';

const {
  cluster,
  cloud,
  touch,
  start,
  workflow,
  described,
  observe,
  joinNode,
  order,
  startAtRest,
  startRunning,
  untilRefused,
  tryAgain,
  advanceUntil,
  untilCancelled,
  advance,
  now,
  time,
} = setUpMachine();

describe('a refusal', () => {
  it('[mcm 57 partly] that says NotFound to a deletion means that there is nothing to delete', async () => {
    cloud.deleteVm = () => refuse('NotFound');
    await start();
    await advanceUntil(() => cluster.machine.stage === 'joining');
    touch({ deletingSince: time() });
    await observe();
    await workflow().result();

    expect(cloud.deletions).toHaveLength(1);
    expect(cluster.steps.at(-1)).toBe('tearDown');
  });
});

describe('the deletion of a machine', () => {
  it.each([
    ['before the VM is deleted', 'announceDeletion', 'running', 0],
    ['after the VM was deleted', 'tearDown', 'watching an unhealthy node', 1],
  ] as const)(
    'ends where a restored cluster says right %s that the Machine is not',
    async (_, step, doing, deletions) => {
      await startRunning();
      const { deletingSince: __, ...before } = cluster.machine;
      touch({ deletingSince: time() });
      cluster.before = (next) => {
        if (next === step) cluster.machine = before;
      };
      await observe();

      await advanceUntil(() => cluster.steps.includes('uncordonNode'));
      await advanceUntil(async () => (await described()).doing === doing);
      expect(cloud.deletions).toHaveLength(deletions);
    },
  );

  it('drains its node although a watcher that is behind has not seen the node', async () => {
    await startRunning();
    touch({ deletingSince: time() });
    await workflow().signal(observedSignal, { machine: cluster.machine, node: { state: 'absent' } });
    await workflow().result();

    expect(cluster.drains).toBe(1);
  });

  it('stops in the middle of a drain after a refresh that finds the Machine not deleted any more', async () => {
    await startRunning();
    const { deletingSince: _, ...before } = cluster.machine;
    cluster.drainNode = untilCancelled;
    touch({ deletingSince: time() });
    await observe();
    await advanceUntil(() => cluster.drains === 1);

    cluster.machine = before; // its cluster was restored from a backup
    await workflow().signal(refreshSignal);

    await advanceUntil(async () => (await described()).doing === 'running');
    expect(cluster.steps).toContain('uncordonNode');
    expect(cluster.written.filter(({ stage }) => stage === 'deleting')).toHaveLength(1);
    expect([cluster.drains, cloud.deletions]).toEqual([1, []]);
  });
});

describe('the deletion of a VM', () => {
  async function remove(): Promise<void> {
    touch({ deletingSince: time() });
    await observe();
    await workflow().result();
    expect(cluster.steps.at(-1)).toBe('tearDown');
  }

  it('is blocked on the cloud where that has accepted it and does not finish it for ten minutes', async () => {
    await startAtRest();
    touch({ deletingSince: time() });
    cloud.deleteVm = () => ({ state: 'deleting', nodeNames: [] });
    await observe();
    await advanceUntil(async () => (await described()).waitingFor?.startsWith('the cloud to finish since ') === true);
    expect(await described()).not.toHaveProperty('blockedOn');
    await workflow().terminate();

    const { machine, node } = cluster;
    await start({ machine, node, wasRead: true, drained: true, vmDeletedMs: Date.now() - 600_000 });
    await advanceUntil(async () => (await described()).blockedOn === 'CloudApi');
    const { searchAttributes } = await workflow().describe();
    expect(searchAttributes).toMatchObject({ MillwrightBlockedOn: ['CloudApi'] });
    await workflow().terminate();
  });

  /** The pauses between the calls of a deletion that the cloud never ends, s. */
  async function pausesFor(timeMs: number, answer: { readonly askAgainAfterSeconds?: number } = {}): Promise<number[]> {
    await startAtRest();
    const askedAtMs: number[] = [];
    cloud.deleteVm = () => {
      askedAtMs.push(now());
      return { state: 'deleting', nodeNames: [], ...answer };
    };
    touch({ deletingSince: time() });
    await observe();
    await advance(timeMs);
    return askedAtMs.slice(1).map((ms, i) => (ms - askedAtMs[i]!) / 1_000);
  }

  it('is asked for again when the provider says', async () => {
    expect(await pausesFor(13_000, { askAgainAfterSeconds: 3 })).toEqual([3, 3, 3, 3]);
    await workflow().terminate();
  });

  it('is asked for with growing pauses where the cloud accepts it and does not do it', async () => {
    const pauses = await pausesFor(3_600_000);
    expect(pauses.slice(0, 6)).toEqual([1, 1, 2, 4, 8, 10]);
    expect(pauses.at(-1)).toBe(120);
    expect(pauses.length).toBeLessThan(60);
    cloud.deleteVm = () => ({ state: 'gone', nodeNames: [] });
    await workflow().signal(retryNowSignal);
    await workflow().result();
  });

  it('asks nobody about a place whose provider no worker can serve', async () => {
    await startAtRest();
    cluster.places = [{ ...cluster.reading.cloud!, provider: 'x'.repeat(1_000) }];
    await remove();
    expect(cloud.deletions).toEqual([]);
  });

  it('waits for workers of a provider whose name no class may have any more', async () => {
    await startAtRest();
    cluster.places = [{ ...cluster.reading.cloud!, provider: 'x'.repeat(201) }];
    touch({ deletingSince: time() });
    await observe();
    await advanceUntil(async () => (await described()).blockedOn === 'ProviderWorker');
    await workflow().terminate();
  });

  it('leaves the VM and the Node of another Machine that names the VM, too, and says so', async () => {
    await startAtRest();
    const note = `the VM ${vm.providerID} stays: it is that of Machine other, which names it, too`;
    Object.assign(cluster, { vmOwner: 'other', node: { ...cluster.node, managed: false } });
    await remove();

    expect(cloud.deletions).toHaveLength(1);
    expect(cloud.deletions[0]).not.toHaveProperty('providerID');
    expect([cluster.drains, cluster.removedNodes]).toEqual([0, []]);
    expect(cluster.written.map(({ event }) => event)).toContainEqual({ reason: 'VmKept', note });
    expect(cluster.steps.filter((step) => step === 'findVmOwner')).toHaveLength(2); // before the drain, and before the VM goes
  });

  it('leaves a VM that has another owner by the end of the drain', async () => {
    await startAtRest();
    cluster.node = { ...cluster.node, managed: false } as typeof cluster.node;
    cluster.drainNode = () => {
      cluster.vmOwner = 'other';
      return { kind: 'drained' };
    };
    await remove();

    expect(cluster.drains).toBe(1);
    expect(cloud.deletions[0]).not.toHaveProperty('providerID');
  });

  it('leaves a VM that has another owner by the time that a refused deletion is tried again', async () => {
    await startAtRest();
    cluster.node = { ...cluster.node, managed: false } as typeof cluster.node;
    cloud.deleteVm = () => {
      if (cloud.deletions.length > 1) return { state: 'gone', nodeNames: [] };
      cluster.vmOwner = 'other';
      return refuse('PermissionDenied');
    };
    await remove();

    expect(cloud.deletions.map(({ providerID }) => providerID)).toEqual([vm.providerID, undefined]);
  });

  it('asks nobody whose the VM is where its Node is marked as that of the Machine, though the Node goes first', async () => {
    await startAtRest();
    cluster.vmOwner = 'other';
    cloud.deleteVm = () => {
      cluster.node = { state: 'absent' };
      return { state: cloud.deletions.length === 1 ? 'deleting' : 'gone', nodeNames: [] };
    };
    await remove();

    expect(cloud.deletions.map(({ providerID }) => providerID)).toEqual([vm.providerID, vm.providerID]);
    expect(cluster.steps).not.toContain('findVmOwner');
  });

  const moveClass = (zone: string) => {
    const { reading } = cluster;
    const generation = Number(reading.version) + 1;
    const cloudNow = { ...reading.cloud!, origin: { ...reading.cloud!.origin!, generation }, providerSpec: { zone } };
    cluster.reading = { ...reading, version: String(generation), cloud: cloudNow };
  };

  it('[invariant 2 partly] reckons with a VM that is not listed yet from an answered create call until the node has joined', async () => {
    await start();
    await advanceUntil(() => cluster.machine.stage === 'joining');
    await remove();

    expect(cloud.deletions).toMatchObject([{ providerID: vm.providerID, outcomeUnknown: true }]);
  });

  it('does not once the node has joined', async () => {
    await startRunning();
    await remove();

    expect(cloud.deletions).toMatchObject([{ providerID: vm.providerID, outcomeUnknown: false }]);
  });

  it('[invariant 2 partly] reckons with one when its create call is answered while the Machine is being deleted', async () => {
    let answer = () => {};
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    cloud.ensureVm = () => answered.then(() => vm);
    await start();
    await advanceUntil(() => cloud.asked.length === 1);
    touch({ deletingSince: time() });
    await observe();
    await advanceUntil(async () => {
      const [call] = (await workflow().describe()).raw.pendingActivities ?? [];
      return call?.state === 3; // PENDING_ACTIVITY_STATE_CANCEL_REQUESTED
    });
    answer();
    await workflow().result();

    expect(cloud.deletions).toMatchObject([{ outcomeUnknown: true }]);
  });

  it('learns the names of its Nodes before any VM goes, and asks again at once', async () => {
    cloud.ensureVm = () => refuse('Internal');
    cloud.deleteVm = ({ nodeNames }) => ({
      state: nodeNames?.includes('node-1') ? 'gone' : 'deleting',
      nodeNames: nodeNames?.includes('node-1') ? [] : ['node-1'], // as a second attempt that finds nothing
    });
    await start();
    await untilRefused(1);
    await remove();

    expect(cloud.deletions.map(({ nodeNames }) => nodeNames)).toEqual([[], ['node-1']]);
    expect(cluster.removedNodes).toEqual(['node-1']);
  });

  it('[invariant 2 partly] goes where the VM was made when its class says another place by now', async () => {
    await startRunning();
    moveClass('b');
    await remove();

    expect(cloud.deletions.map(({ providerSpec }) => providerSpec)).toEqual([{ zone: 'a' }]);
  });

  it('[invariant 2 partly] goes to every place where a create call may have made one', async () => {
    cloud.ensureVm = ({ providerSpec }) => {
      if (cloud.asked.length === 1) refuse('Internal');
      return (providerSpec as { zone: string }).zone === 'a' ? refuse('ResourceExhausted') : vm;
    };
    await start();
    await untilRefused(1);
    await tryAgain();
    moveClass('b');
    await workflow().signal(retryNowSignal);
    await advanceUntil(() => cluster.machine.stage === 'joining');
    await remove();

    expect(cloud.deletions.map(({ providerSpec }) => providerSpec)).toEqual([{ zone: 'a' }, { zone: 'b' }]);
  });

  it('[invariant 2 partly] goes to the other places when one refuses', async () => {
    cloud.ensureVm = () => (cloud.asked.length === 1 ? refuse('Internal') : refuse('ResourceExhausted'));
    await start();
    await untilRefused(1);
    await tryAgain();
    moveClass('b');
    await tryAgain();
    cloud.deleteVm = ({ providerSpec }) =>
      (providerSpec as { zone: string }).zone === 'a' ? refuse('Unauthenticated') : { state: 'gone', nodeNames: [] };
    touch({ deletingSince: time() });
    await observe();
    await advanceUntil(async () => (await described()).lastError?.code === 'Unauthenticated');

    expect(cloud.deletions.map(({ providerSpec }) => providerSpec)).toEqual([{ zone: 'a' }, { zone: 'b' }]);
    expect(cluster.steps).not.toContain('tearDown');
  });

  it('[invariant 2 partly] knows the names of Nodes in another run, although their VMs are gone', async () => {
    cloud.ensureVm = () => refuse('Internal');
    cloud.deleteVm = async ({ nodeNames }) => {
      if (nodeNames?.includes('node-1') !== true) return { state: 'deleting', nodeNames: ['node-1'] };
      return cloud.deletions.length > 2 ? { state: 'gone', nodeNames: [] } : untilCancelled();
    };
    await start();
    await untilRefused(1);
    touch({ deletingSince: time() });
    await observe();
    await advanceUntil(() => cloud.deletions.length === 2);
    await workflow().terminate();
    await start();
    await workflow().result();

    expect(cloud.deletions.at(-1)?.nodeNames).toEqual(['node-1']);
    expect(cluster.removedNodes).toEqual(['node-1']);
  });

  it('needs no class in another run either, where nothing was asked of any cloud', async () => {
    cluster.reading = { version: '0', problem: 'MachineClass "small" does not exist' };
    await start();
    await advanceUntil(async () => (await described()).blockedOn === 'Source');
    await workflow().terminate();
    await start();
    touch({ deletingSince: time() });
    await workflow().result();

    expect([cloud.asked, cloud.deletions]).toEqual([[], []]);
    expect(cluster.steps.at(-1)).toBe('tearDown');
  });

  it('goes to no place where nothing was made for certain', async () => {
    cloud.ensureVm = ({ providerSpec }) =>
      (providerSpec as { zone: string }).zone === 'a' ? refuse('Unauthenticated') : vm;
    await start();
    await untilRefused(1);
    moveClass('b');
    await workflow().signal(retryNowSignal);
    await advanceUntil(() => cluster.machine.stage === 'joining');
    await remove();

    expect(cloud.deletions.map(({ providerSpec }) => providerSpec)).toEqual([{ zone: 'b' }]);
  });

  it('says where the VM is and what helps when that place refuses, although the class says another', async () => {
    await startRunning();
    moveClass('b');
    cloud.deleteVm = () => refuse('Unauthenticated');
    touch({ deletingSince: time() });
    await observe();
    await advanceUntil(async () => (await described()).lastError?.code === 'Unauthenticated');

    expect((await described()).unblock).toMatch(
      /^Correct the credentials .* The VM was made by provider played from MachineClass small, generation 1, .* millwright.dev\/places/,
    );
    expect(cluster.steps).not.toContain('tearDown');
  });
});

describe('the deletion of a machine that machine-controller-manager has begun to create', () => {
  const untaggedVm = { providerID: vm.providerID, nodeName: 'node-1' };

  it('[mcm 43 partly] [invariant 2 partly] finds its VM, drains the Node of that, and deletes both', async () => {
    cloud.deleteVm = ({ providerID }) =>
      providerID === undefined
        ? { state: 'deleting', nodeNames: [], untaggedVm }
        : { state: 'gone', nodeNames: [untaggedVm.nodeName] };
    cluster.after = (step) => (step === 'storeIdentity' ? joinNode() : undefined);
    touch({ ...cluster.withFinalizer, deletingSince: time() });
    await start();
    await workflow().result();

    expect(cloud.deletions).toMatchObject([
      { mayBeUntagged: true, outcomeUnknown: true },
      { providerID: vm.providerID },
    ]);
    expect(cloud.deletions[1]).not.toHaveProperty('mayBeUntagged');
    expect(cluster.drainRequest).toMatchObject({ nodeName: 'node-1', providerID: vm.providerID });
    expect(order.filter((each) => each === 'storeIdentity' || each === 'deleteVm')).toEqual([
      ...['deleteVm', 'storeIdentity', 'deleteVm'],
    ]);
    expect(cluster.written).toMatchObject([
      { step: { kind: 'deleteVm' }, event: { reason: 'Deleting' } },
      { step: { kind: 'deleteVm' } },
      { step: { kind: 'drain' }, event: { reason: 'VmFound' } },
      { step: { kind: 'deleteVm' } },
    ]);
    expect([cluster.drains, cluster.removedNodes]).toEqual([1, ['node-1']]);
  });

  it('[invariant 2 partly] waits, and says why, while it is not certain which VM is its own', async () => {
    cloud.deleteVm = () => refuse('OutOfRange');
    touch({ ...cluster.withFinalizer, deletingSince: time() });
    await start();
    await advanceUntil(async () => (await described()).lastError?.code === 'OutOfRange');

    const { searchAttributes } = await workflow().describe();
    expect(searchAttributes).toMatchObject({ MillwrightBlockedOn: ['CloudApi'] });
    expect(cluster.written.at(-1)).toMatchObject({ stage: 'deleting', step: { kind: 'deleteVm', code: 'OutOfRange' } });
    expect(cluster.steps).not.toContain('tearDown');
  });

  it('is tried again 30 s after a refusal, then after pauses that grow to ten minutes, and begins with 30 s again for another one', async () => {
    const calls: number[] = [];
    let code: FailureCode = 'PermissionDenied';
    cloud.deleteVm = () => {
      calls.push(now());
      return refuse(code);
    };
    touch({ ...cluster.withFinalizer, deletingSince: time() });
    await start();
    await advanceUntil(() => calls.length === 1);
    await advance(60 * 60_000);
    const pauses = () => calls.slice(1).map((at, i) => Math.round((at - (calls[i] ?? 0)) / 1_000));
    expect(pauses().slice(0, 8)).toEqual([30, 30, 60, 120, 240, 480, 600, 600]);

    code = 'FailedPrecondition';
    await workflow().signal(retryNowSignal);
    await advance(60_000);
    expect(pauses().slice(-2)).toEqual([30, 30]);
  });

  it('waits for the cluster of the Nodes until it is forced, and then leaves the Node there', async () => {
    await startRunning();
    cluster.isTargetGone = true;
    touch({ deletingSince: time() });
    await observe();
    await advanceUntil(async () => (await described()).blockedOn === 'KubernetesApi');
    expect((await described()).unblock).toContain('`millwright drain --force ');

    await workflow().signal(forceDeletionSignal);
    await workflow().result();

    expect([cluster.removedNodes, cluster.steps.at(-1)]).toEqual([[], 'tearDown']);
  });

  it.each<[string, FailureCode, true | undefined]>([
    ['conflicts', 'Aborted', undefined],
    ['is not allowed', 'PermissionDenied', undefined],
    ['is to be sent later', 'Unavailable', true],
  ])('leaves no Node, though it is forced, where its removal %s at first', async (_, type, isThrottled) => {
    await startRunning();
    let tries = 0;
    cluster.before = (step) => {
      if (step !== 'tearDown' || tries++ > 0) return;
      throw ApplicationFailure.create({ type, message: 'no', details: [{ isThrottled }], nonRetryable: true });
    };
    touch({ deletingSince: time() });
    await workflow().signal(forceDeletionSignal);
    await workflow().result();

    expect([tries, cluster.removedNodes]).toEqual([2, ['node-1']]);
  });

  it('looks for no VM of its name if the creation was begun here', async () => {
    cloud.ensureVm = () => refuse('Internal');
    await start();
    await untilRefused(1);
    touch({ deletingSince: time() });
    await observe();
    await workflow().result();

    expect(cloud.deletions).toHaveLength(1);
    expect(cloud.deletions[0]).not.toHaveProperty('mayBeUntagged');
  });
});

describe('the deletion of a machine without a VM', () => {
  /** Deletes the Machine when its class cannot be used any more. */
  async function deleteWithoutClass(): Promise<void> {
    cluster.reading = { version: '2', problem: 'MachineClass "small" does not exist' };
    touch({ deletingSince: time() });
    await observe();
  }

  /** The Machine is gone, and before that its cloud was asked where its VM may have been made. */
  async function expectLookUp(): Promise<void> {
    await deleteWithoutClass();
    await workflow().result();
    expect(cloud.deletions).toMatchObject([{ providerSpec: { zone: 'a' } }]);
    expect(cluster.steps.at(-1)).toBe('tearDown');
  }

  it.each(['InvalidArgument', 'Unauthenticated', 'PermissionDenied', 'Unimplemented'] as const)(
    'needs neither its class nor a cloud after refusals that made nothing (%s)',
    async (code) => {
      cloud.ensureVm = () => refuse(code);
      await start();
      await untilRefused(1);
      await tryAgain();

      await deleteWithoutClass();
      await workflow().result();

      expect(cloud.deletions).toEqual([]);
      expect(cluster.steps.at(-1)).toBe('tearDown');
    },
  );

  it.each(['Internal', 'ResourceExhausted', 'NotFound'] as const)(
    '[invariant 2 partly] asks the cloud when one of the refusals may have left something (%s), although its class is gone',
    async (code) => {
      cloud.ensureVm = () => refuse(cloud.asked.length === 2 ? code : 'InvalidArgument');
      await start();
      await untilRefused(1);
      await tryAgain();
      await tryAgain();

      await expectLookUp();
    },
  );

  it('[invariant 1 partly] [invariant 2 partly] hears of a try that was lost, although the next one was refused', async () => {
    cloud.ensureVm = () => {
      if (cloud.asked.length > 1) refuse('InvalidArgument');
      throw ApplicationFailure.create({ type: 'Unavailable', message: 'no answer' });
    };
    await start();
    await untilRefused(2);

    expect(cloud.asked).toMatchObject([
      { token: `${cluster.machine.uid}-0`, outcomeUnknown: false },
      { token: `${cluster.machine.uid}-0`, outcomeUnknown: true },
    ]);
    expect(cluster.written).toMatchObject([{ step: { code: 'InvalidArgument' } }]);
    await expectLookUp();
  });

  it('[invariant 2 partly] asks the cloud when a worker was killed in the middle of a call, although its class is gone', async () => {
    cloud.ensureVm = () => (cloud.asked.length > 1 ? refuse('InvalidArgument') : Context.current().cancelled);
    await start();
    await untilRefused(2);

    expect(cloud.asked[1]).toMatchObject({ outcomeUnknown: true });
    await expectLookUp();
  });

  it('[invariant 2 partly] waits for its class when it does not say where its VM is, as those of machine-controller-manager', async () => {
    touch({ ...cluster.withFinalizer, stage: 'running', providerID: vm.providerID, nodeName: 'node-1' });
    await start();
    await deleteWithoutClass();
    await advanceUntil(async () => {
      const { blockedOn, lastError } = await described();
      return blockedOn === 'Source' && lastError?.message.includes('without it Millwright cannot find the VM') === true;
    });
    expect(cloud.deletions).toEqual([]);
    expect(cluster.steps).not.toContain('tearDown');
  });

  it('[invariant 2 partly] asks the cloud when it interrupts a call', async () => {
    cloud.ensureVm = () => untilCancelled();
    await start();
    await advanceUntil(() => cloud.asked.length === 1);
    touch({ deletingSince: time() });
    await observe();
    await workflow().result();

    expect(cloud.deletions).toMatchObject([{ outcomeUnknown: true }]);
  });

  it('needs nothing when no worker has ever taken the call', async () => {
    const { reading } = cluster;
    cluster.reading = { ...reading, cloud: { ...reading.cloud!, provider: 'misspelt' } };
    await start();
    await advanceUntil(async () => (await described()).doing === 'creating the VM');
    await advanceUntil(async () => ((await workflow().describe()).raw.pendingActivities ?? []).length > 0);

    await deleteWithoutClass();
    await workflow().result();

    expect(cloud.deletions).toEqual([]);
  });
});
