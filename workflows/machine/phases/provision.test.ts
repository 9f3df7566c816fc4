/** The making of a VM, until it has its node: what a cloud may answer, and what the next call has to know of it. */

import { isDeepStrictEqual } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { ApplicationFailure } from '@temporalio/activity';
import { refuse, setUpMachine, vm } from '../../../test/support/played-machine.ts';
import { retryNowSignal } from '../../messages.ts';
import { observedSignal } from '../messages.ts';

const {
  cluster,
  cloud,
  touch,
  start,
  workflow,
  described,
  waitingFor,
  observe,
  joinNode,
  untilRefused,
  tryAgain,
  advanceUntil,
  advance,
  now,
  time,
} = setUpMachine();

describe('a creation', () => {
  function correctClass(): void {
    const { reading } = cluster;
    cluster.reading = { ...reading, version: '2', cloud: { ...reading.cloud!, providerSpec: { zone: 'b' } } };
  }

  it('asks no provider while its source is refused, and goes on once it is corrected', async () => {
    const { reading } = cluster;
    cluster.reading = { ...reading, refusal: 'MachineClass "small": size is huge' };
    await start();
    await untilRefused(0);

    const problem = { code: 'InvalidArgument', message: 'MachineClass "small": size is huge' };
    expect(await described()).toMatchObject({ blockedOn: 'Source', lastError: problem });
    expect([cluster.places, cloud.asked]).toEqual([[], []]);

    cluster.reading = { ...reading, version: '2' };
    await observe('2');
    await advanceUntil(() => cluster.machine.providerID === vm.providerID);
    expect(cloud.asked).toHaveLength(1);
  });

  it('is blocked on its worker at once if that lacks the activity, and has then made nothing', async () => {
    cloud.ensureVm = () => {
      throw ApplicationFailure.create({ message: 'unable to find activityType=ensureVm. Supported types: [EnsureVM]' });
    };
    await start();
    await untilRefused(1);

    expect(await described()).toMatchObject({
      blockedOn: 'ProviderWorker',
      lastError: { code: 'Unknown', message: expect.stringContaining('has to register this activity under the name') },
      unblock: expect.stringContaining('If the worker lacks an activity, register it there.'),
    });
    touch({ deletingSince: time() });
    await observe();
    await workflow().result();
    expect(cloud.deletions).toEqual([]);
  });

  it('asks no provider while the Machine cannot record where, and goes on once it can', async () => {
    cloud.ensureVm = () => refuse('InvalidArgument');
    await start();
    await untilRefused(1);
    cloud.ensureVm = () => vm;
    correctClass();
    cluster.placeProblem = 'it would have 300000 bytes of annotations';
    await observe('2');
    await advanceUntil(async () => (await described()).lastError?.message === cluster.placeProblem);

    expect(await described()).toMatchObject({ blockedOn: 'Source', lastError: { code: 'InvalidArgument' } });
    expect(cloud.asked).toHaveLength(1);

    cluster.placeProblem = undefined;
    await workflow().signal(retryNowSignal);
    await advanceUntil(() => cluster.machine.providerID === vm.providerID);
    expect(cloud.asked).toHaveLength(2);
  });

  it('looks for a VM that may exist although its source is refused by now', async () => {
    cloud.ensureVm = () => {
      if (cloud.asked.length > 1) return vm;
      throw ApplicationFailure.create({ type: 'Unknown', message: 'lost', nonRetryable: true });
    };
    cluster.after = (step) => {
      if (step === 'begin') cluster.reading = { ...cluster.reading, version: '2', refusal: 'size is huge' };
    };
    await start();
    await untilRefused(1);
    await workflow().signal(retryNowSignal);
    await advanceUntil(() => cluster.machine.providerID === vm.providerID);

    expect(cloud.asked[1]).toMatchObject({ outcomeUnknown: true, token: cloud.asked[0]?.token });
  });

  it('knows the outcome of a refusal, although its provider calls that worth another try', async () => {
    cloud.ensureVm = () => {
      throw ApplicationFailure.create({ type: 'ResourceExhausted', message: 'sold out' });
    };
    await start();
    await untilRefused(1);
    await tryAgain();
    expect(cloud.asked.map(({ token, outcomeUnknown }) => [token, outcomeUnknown])).toEqual([
      [`${cluster.machine.uid}-0`, false],
      [`${cluster.machine.uid}-1`, false],
    ]);
  });

  it('can be tried again at once, however long the cloud asks to be left alone', async () => {
    cloud.ensureVm = () => {
      if (cloud.asked.length > 1) return vm;
      const details = [{ retryAfterMs: 300_000 }];
      throw ApplicationFailure.create({ type: 'Unavailable', message: 'throttled', details });
    };
    await start();
    await untilRefused(1);
    await workflow().signal(retryNowSignal);
    await advanceUntil(() => cloud.asked.length === 2);
    expect(cloud.asked[1]).toMatchObject({ outcomeUnknown: true });
  });

  it('that fails leaves the identity of its VM for the deletion, as the cloud may not list it yet', async () => {
    cloud.ensureVm = () => ({ ...vm, state: 'failed', message: 'no host' });
    await start();
    await advanceUntil(() => cluster.machine.stage === 'failed');

    touch({ deletingSince: time() });
    await observe();
    await workflow().result();

    expect(cluster.written.find(({ stage }) => stage === 'failed')?.step?.message).toContain('no host');
    expect(cloud.deletions).toMatchObject([{ providerID: vm.providerID, outcomeUnknown: true }]);
    expect(cluster.steps.at(-1)).toBe('tearDown');
  });

  it('[mcm 26 partly] that the cloud accepts and later has no room for says so, and is tried again', async () => {
    touch({ limits: { ...cluster.machine.limits, hasNoNode: true } }); // the second question then comes after a second
    cloud.ensureVm = () => {
      if (cloud.asked.length === 1) return { ...vm, state: 'creating' };
      if (cloud.asked.length > 2) return { ...vm, state: 'running' };
      throw ApplicationFailure.create({ type: 'ResourceExhausted', message: 'sold out', nonRetryable: true });
    };
    await start();
    await untilRefused(2);

    expect(cluster.written.map(({ stage }) => stage)).toEqual(['joining', 'creating']);
    expect(cluster.written.at(-1)?.step).toMatchObject({ kind: 'create', state: 'failed', code: 'ResourceExhausted' });
    expect(await described()).toMatchObject({ blockedOn: 'CloudCapacity' });

    await workflow().signal(retryNowSignal);
    await advanceUntil(() => cluster.machine.stage === 'available');
    expect(cloud.asked).toHaveLength(3);
  });

  it('[mcm 23 partly] ends at its timeout although the cloud never names the node', async () => {
    touch({ limits: { ...cluster.machine.limits, creationSeconds: 3 } });
    cloud.ensureVm = () => ({ state: 'creating', providerID: vm.providerID, addresses: [] });
    await start();
    await advanceUntil(() => cluster.machine.stage === 'failed');

    expect(now()).toBeGreaterThanOrEqual(Date.parse(cluster.machine.createdAt) + 3_000);
    expect(cluster.written.at(-1)?.step).toMatchObject({
      kind: 'join',
      state: 'failed',
      code: 'DeadlineExceeded',
      message: 'node (not named yet) did not become healthy within 3 s',
    });
  });

  it.each([
    ['ends at its timeout', 'Unknown', 'failed'],
    ['ends at its timeout', 'Aborted', 'failed'],
    ['[invariant 6 partly] goes on', 'Unavailable', 'creating'],
    ['[invariant 6 partly] goes on', 'DeadlineExceeded', 'creating'],
  ] as const)('%s while every call fails with %s', async (_, code, stage) => {
    touch({ limits: { ...cluster.machine.limits, creationSeconds: 30 } });
    cloud.ensureVm = () => refuse(code);
    await start();
    await advance(120_000);

    expect(cluster.machine.stage).toBe(stage);
  });

  it('[invariant 1 partly] [invariant 2 partly] asks for no second VM where Temporal was restored from before the first and the class has moved since', async () => {
    cloud.ensureVm = () => refuse('Unauthenticated');
    await start();
    await untilRefused(1);
    cloud.ensureVm = () => ({ ...vm, providerID: 'played:///vm-2' });
    const { providerID, nodeName } = vm;
    touch({ stage: 'running', providerID, nodeName: nodeName!, conditions: { Ready: 'True' } });
    correctClass();

    await workflow().signal(retryNowSignal);
    await advanceUntil(async () => (await described()).doing === 'watching an unhealthy node'); // it has none here

    expect(cloud.asked).toHaveLength(1);
    expect(cluster.machine.providerID).toBe(providerID);
    expect(cluster.places?.map(({ providerSpec }) => providerSpec)).toEqual([{ zone: 'a' }, { zone: 'b' }]);
  });

  it('[invariant 1 partly] asks for the same under the same token in a new run, while a VM may have come of it', async () => {
    cloud.ensureVm = () => refuse(cloud.asked.length <= 2 ? 'ResourceExhausted' : 'Internal');
    await start();
    await untilRefused(1);
    await tryAgain();
    await tryAgain();
    correctClass();

    const first = (await workflow().describe()).runId;
    for (let count = 0; count < 500; count++) await observe();
    await workflow().signal(retryNowSignal);
    await advanceUntil(async () => (await workflow().describe()).runId !== first);
    // Each new run asks once, and how many there are depends on how the signals came in.
    await untilRefused(4);
    if (cloud.asked.length < 5) await tryAgain();
    const asked = cloud.asked.slice(0, 5);
    expect(asked.map(({ token }) => token)).toEqual(
      [0, 1, 2, 2, 2].map((ordinal) => `${cluster.machine.uid}-${ordinal}`),
    );
    expect(asked.map(({ outcomeUnknown }) => outcomeUnknown)).toEqual([false, false, false, true, true]);
    expect(new Set(cloud.asked.map(({ providerSpec }) => JSON.stringify(providerSpec)))).toEqual(
      new Set(['{"zone":"a"}']),
    );

    // Once that is refused, too, the next creation has a token that none had before.
    cloud.ensureVm = () => refuse('ResourceExhausted');
    await tryAgain();
    await tryAgain();
    expect(cloud.asked.at(-1)).toMatchObject({ token: `${cluster.machine.uid}-3`, providerSpec: { zone: 'b' } });
  });

  it('[invariant 1 partly] takes a corrected class after a lost answer, under another token, and remembers the loss', async () => {
    cloud.ensureVm = () => refuse(cloud.asked.length === 1 ? 'Internal' : 'ResourceExhausted');
    await start();
    await untilRefused(1);
    await tryAgain();

    correctClass();
    await tryAgain();

    expect(cloud.asked).toMatchObject([
      { token: `${cluster.machine.uid}-0`, providerSpec: { zone: 'a' }, outcomeUnknown: false },
      { token: `${cluster.machine.uid}-0`, providerSpec: { zone: 'a' }, outcomeUnknown: true },
      { token: `${cluster.machine.uid}-1`, providerSpec: { zone: 'b' }, outcomeUnknown: true },
    ]);
  });

  it('[invariant 1 partly] is asked for where it was made after its run was lost, though its class says another place', async () => {
    await start();
    await advanceUntil(() => cluster.machine.stage === 'joining');
    correctClass();
    await workflow().terminate();
    await start();
    await advanceUntil(() => cloud.asked.length === 2);

    expect(cloud.asked[1]).toMatchObject({ providerSpec: { zone: 'a' }, providerID: vm.providerID });
    expect(cluster.places).toMatchObject([{ providerSpec: { zone: 'a' } }]);
  });

  it('is asked for as its class says at once where the place of a run that was lost is refused', async () => {
    cloud.ensureVm = ({ providerSpec }) =>
      isDeepStrictEqual(providerSpec, { zone: 'a' }) ? refuse('ResourceExhausted') : vm;
    await start();
    await untilRefused(1);
    correctClass();
    await workflow().terminate();
    await start();
    await advanceUntil(() => cluster.machine.providerID === vm.providerID);

    expect(cloud.asked.map(({ providerSpec }) => providerSpec)).toEqual([{ zone: 'a' }, { zone: 'a' }, { zone: 'b' }]);
    expect(cluster.places?.map(({ providerSpec }) => providerSpec)).toEqual([{ zone: 'a' }, { zone: 'b' }]);
  });

  it('[invariant 2 partly] keeps where a VM may be when somebody takes the finalizer off', async () => {
    cloud.ensureVm = () => refuse('Internal');
    await start();
    await untilRefused(1);
    correctClass();
    cluster.withFinalizer = { managed: true, finalizers: ['ours'] };
    touch({ managed: false, finalizers: [] });
    await observe();
    await advanceUntil(() => cluster.machine.managed);
    await untilRefused(2);

    expect(cluster.places).toMatchObject([{ providerSpec: { zone: 'a' } }]);
  });

  it('looks up the VM that machine-controller-manager has made for a pending Machine, and keeps its provider ID', async () => {
    const providerID = 'played:///elsewhere/VM-1';
    touch({ ...cluster.withFinalizer, stage: 'joining', providerID, nodeName: 'node-1' });
    await start();
    await advanceUntil(async () => (await waitingFor()) === 'node node-1 to register');

    expect(cloud.asked).toMatchObject([{ providerID, outcomeUnknown: true }]);
    expect(cluster.machine.providerID).toBe(providerID);
    expect(cluster.places).toMatchObject([{ provider: 'played', providerSpec: { zone: 'a' } }]);
  });

  it('[mcm 13 partly] makes no other VM when the provider cannot look up the one that the Machine names', async () => {
    cloud.ensureVm = ({ providerID }) => (providerID === undefined ? vm : refuse('Unimplemented'));
    await start();
    await advanceUntil(() => cluster.machine.stage === 'joining');

    // Asked again, as when a workflow was lost: the identity is all that there is.
    await workflow().terminate();
    await start();
    await advanceUntil(async () => (await waitingFor()) === 'node node-1 to register');

    expect(cloud.asked.map(({ providerID }) => providerID)).toEqual([undefined, vm.providerID]);
    expect(cluster.written.map(({ event }) => event?.reason)).toEqual(['VmCreated']);
    expect((await described()).lastError).toBeUndefined();
    await joinNode();
    await advanceUntil(() => cluster.machine.stage === 'running');
  });

  it('[mcm 15 partly] asks again with growing pauses until the VM is set up, says why it is not, and takes no node before', async () => {
    let message = '';
    let isSetUp = false;
    cloud.ensureVm = () => {
      if (isSetUp) return vm;
      return { ...vm, state: 'uninitialized', ...(message !== '' && { message, lastKnownState: 'half' }) };
    };
    await start();
    await advanceUntil(() => cluster.machine.stage === 'joining');
    await joinNode();
    await advanceUntil(async () => (await waitingFor()) === 'the cloud to set up the VM');
    message = 'no route yet';
    await advanceUntil(() => cluster.machine.stage === 'creating');
    await advanceUntil(async () => (await described()).blockedOn === 'CloudApi');
    expect((await described()).lastError).toMatchObject({ code: 'Uninitialized', message });
    isSetUp = true;
    await advanceUntil(() => cluster.machine.stage === 'running');

    expect(cloud.asked.length).toBeGreaterThanOrEqual(3);
    expect(cloud.asked.at(-1)?.lastKnownState).toBe('half');
    const steps = cluster.written.flatMap(({ stage, step }) => (step ? [[stage, step.kind, step.message]] : []));
    expect(steps).toEqual([
      ['joining', 'create', undefined],
      ['creating', 'initialize', 'no route yet'],
      ['joining', 'create', undefined],
    ]);
  });

  it('asks about a VM that is never set up a few times a minute, and soon again when that was done', async () => {
    const askedAtMs: number[] = [];
    let isSetUp = false;
    cloud.ensureVm = () => {
      askedAtMs.push(now());
      return isSetUp ? vm : { ...vm, state: 'uninitialized', message: 'no route yet' };
    };
    await start();
    await advance(60_000);
    const pauses = () => askedAtMs.slice(1).map((ms, i) => ms - askedAtMs[i]!);
    expect(pauses().slice(0, 4)).toEqual([5_000, 6_250, 7_812.5, 9_765.625].map((ms) => expect.closeTo(ms, -1)));
    expect(askedAtMs.length).toBeLessThanOrEqual(8);
    isSetUp = true;
    await advanceUntil(() => cluster.machine.stage === 'joining');
    isSetUp = false;
    const before = askedAtMs.length;
    await advanceUntil(() => askedAtMs.length > before + 1);
    expect(pauses().slice(before - 1)).toEqual([10_000, 5_000].map((ms) => expect.closeTo(ms, -1)));
  });

  it('asks at once about a VM that is not set up when people want a retry', async () => {
    let isSetUp = false;
    cloud.ensureVm = () => (isSetUp ? vm : { ...vm, state: 'uninitialized', message: 'no route yet' });
    await start();
    await advance(60_000);
    isSetUp = true;
    const nowMs = now();
    await workflow().signal(retryNowSignal);
    await advanceUntil(() => cluster.machine.stage === 'joining');
    expect(now()).toBe(nowMs);
  });

  it('[mcm 15 partly] [invariant 1 partly] goes on with the VM whose set-up was refused before it was known', async () => {
    cloud.ensureVm = () => (cloud.asked.length === 1 ? refuse('Uninitialized') : vm);
    await start();
    await untilRefused(1);
    await workflow().signal(retryNowSignal);
    await advanceUntil(() => cluster.machine.stage === 'joining');
    expect(new Set(cloud.asked.map(({ token }) => token)).size).toBe(1);
    expect(cloud.asked.map(({ outcomeUnknown }) => outcomeUnknown)).toEqual([false, true]);
  });

  it('[mcm 19 partly] fails and deletes its VM when the name of its node is that of another VM', async () => {
    cluster.isNodeTaken = true;
    await start();
    await advanceUntil(() => cluster.machine.stage === 'failed');

    expect(cluster.machine).toMatchObject({ providerID: vm.providerID });
    expect(cluster.machine.nodeName).toBeUndefined();
    expect(cloud.deletions).toMatchObject([{ providerID: vm.providerID, outcomeUnknown: true }]);
    expect(cluster.written).toMatchObject([
      {
        step: { kind: 'claimNode', state: 'failed', message: 'the node node-1 exists and is not that of its VM' },
        event: { reason: 'StaleNode' },
      },
    ]);
    touch({ deletingSince: time() });
    await observe();
    await workflow().result();
    expect(cluster.steps.at(-1)).toBe('tearDown');
    expect(cluster.nodeNames).toEqual(['node-1']);
  });

  it('[mcm 19 partly] takes a node of its own name for its own, as it may have joined already', async () => {
    cluster.isNodeTaken = true;
    cloud.ensureVm = () => ({ ...vm, nodeName: 'm' });
    await start();
    await advanceUntil(() => cluster.machine.stage === 'joining');
    expect(cluster.machine.nodeName).toBe('m');
    expect(cloud.deletions).toEqual([]);
  });

  describe('whose Node is that of somebody else', () => {
    const notOwn = 'node node-1 is older than the Machine';

    it('[mcm 19 partly] fails, names no node and deletes its VM', async () => {
      await start();
      await advanceUntil(async () => (await waitingFor()) === 'node node-1 to register');
      cluster.node = { state: 'absent', notOwn };
      await observe();
      await advanceUntil(() => cluster.machine.stage === 'failed');

      expect(cluster.machine.nodeName).toBeUndefined();
      expect(cloud.deletions).toMatchObject([{ providerID: vm.providerID, outcomeUnknown: true }]);
      expect(cluster.written.at(-1)).toMatchObject({
        step: { kind: 'claimNode', state: 'failed', message: notOwn },
        event: { reason: 'StaleNode', note: `Internal: ${notOwn}` },
      });
      expect(cluster.nodeNames).toEqual(['node-1']);
    });

    it('waits on when that is not so any more once it is read', async () => {
      await start();
      await advanceUntil(async () => (await waitingFor()) === 'node node-1 to register');
      const [{ machine }, node] = [cluster, { state: 'absent', notOwn } as const];
      await workflow().signal(observedSignal, { machine, node });
      await advanceUntil(() => cluster.steps.at(-1) === 'observeMachine');
      await joinNode();
      await advanceUntil(() => cluster.machine.stage === 'running');

      expect(cloud.deletions).toEqual([]);
    });
  });

  it('fails where its VM is that of another Machine, and leaves it alone', async () => {
    cluster.vmOwner = 'other';
    touch({ ...cluster.withFinalizer, providerID: vm.providerID, nodeName: 'node-1' });
    await start();
    await advanceUntil(() => cluster.machine.stage === 'failed');

    expect([cloud.asked, cloud.deletions]).toEqual([[], []]);
    expect(cluster.machine).toMatchObject({ providerID: vm.providerID });
    expect(cluster.machine.nodeName).toBeUndefined();
    const note = `Internal: the VM ${vm.providerID} is that of Machine other, which names it, too`;
    expect(cluster.written.at(-1)?.event).toEqual({ reason: 'StaleNode', note });
    touch({ deletingSince: time() });
    await observe();
    await workflow().result();
    expect(cloud.deletions).toHaveLength(1);
    expect(cloud.deletions[0]).not.toHaveProperty('providerID');
    expect(cluster.removedNodes).toEqual([]);
  });

  it.each([
    ['a copy that has the VM by the time that it is deleted deletes it', 'other', undefined],
    ['a Machine whose VM is another’s by the time that it is deleted leaves it', undefined, 'other'],
  ])('%s', async (_what, before, after) => {
    cluster.vmOwner = before;
    touch({ ...cluster.withFinalizer, providerID: vm.providerID, nodeName: 'node-1' });
    await start();
    await advanceUntil(() => cluster.machine.stage === (before === undefined ? 'unhealthy' : 'failed'));
    cluster.vmOwner = after;
    touch({ deletingSince: time() });
    await observe();
    await workflow().result();

    const expected = after === undefined ? vm.providerID : undefined;
    expect(cloud.deletions.map(({ providerID }) => providerID)).toEqual([expected]);
  });

  it('does not ask whose the VM is that was made for it', async () => {
    await start();
    await advanceUntil(async () => (await waitingFor()) === 'node node-1 to register');
    await workflow().signal(retryNowSignal);
    await advanceUntil(() => cloud.asked.length === 2);

    expect(cluster.steps).not.toContain('findVmOwner');
  });
});
