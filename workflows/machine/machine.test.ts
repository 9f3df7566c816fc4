/** The workflow of a machine as a whole: where it begins, what it waits for, and how it rests. */

import { describe, expect, it } from '@jest/globals';
import { ApplicationFailure } from '@temporalio/activity';
import { refuse, setUpMachine, vm } from '../../test/support/played-machine.ts';
import { refreshSignal, retryNowSignal } from '../messages.ts';

const {
  cluster,
  cloud,
  order,
  touch,
  start,
  workflow,
  described,
  waitingFor,
  observe,
  startRunning,
  untilRefused,
  tryAgain,
  advanceUntil,
  time,
} = setUpMachine();

describe('a Machine that is deleted before its finalizer is on', () => {
  it.each([
    {
      when: 'is left to others when it is seen so',
      prepare: () => touch({ deletingSince: time(), finalizers: ['foregroundDeletion'] }),
      looks: ['observeMachine'],
    },
    {
      when: 'is left to others when the finalizer comes too late',
      prepare: () => {
        cluster.withFinalizer = { deletingSince: time(), finalizers: ['foregroundDeletion'] };
      },
      looks: ['observeMachine', 'begin'],
    },
  ])('$when', async ({ prepare, looks }) => {
    prepare();
    await start();
    await workflow().result();
    expect(cluster.steps).toEqual(looks);
    expect([cloud.asked, cloud.deletions, cluster.written]).toEqual([[], [], []]);
  });
});

describe('a new Machine as a watcher saw it', () => {
  it('is not read', async () => {
    const { machine, node } = cluster;
    await start(undefined, { machine, node });
    await advanceUntil(async () => (await waitingFor()) === 'node node-1 to register');

    expect(cluster.steps).toEqual(['begin', 'isNodeTaken', 'storeIdentity']);
    expect(cluster.machine).toMatchObject({ managed: true, stage: 'joining', providerID: vm.providerID });
  });

  it('is read where a signal is faster than the first step', async () => {
    const { machine, node } = cluster;
    let isHeld = true;
    cluster.before = (step) => step === 'begin' && isHeld && refuse('Unavailable');
    await start(undefined, { machine, node });
    await advanceUntil(() => cluster.steps.includes('begin'));
    await observe();
    await advanceUntil(() => cluster.steps.includes('observeMachine'));
    isHeld = false;
    await advanceUntil(async () => (await waitingFor()) === 'node node-1 to register');
  });

  it('[invariant 1 partly] is read like that of a lost run when it was changed since', async () => {
    const { machine, node } = cluster;
    touch({ managed: true, finalizers: ['ours'] }); // by an earlier run, which may have asked for a VM
    await start(undefined, { machine, node });
    await advanceUntil(async () => (await described()).doing.startsWith('waiting until calls of an earlier run'));

    expect([cluster.steps.at(-1), cloud.asked]).toEqual(['observeMachine', []]);
    await advanceUntil(() => cloud.asked.length > 0);
    expect(cloud.asked[0]).toMatchObject({ outcomeUnknown: true });
  });
});

describe('a Machine whose finalizer somebody takes off while its source is read', () => {
  it('[invariant 3 partly] gets it back before a cloud is asked', async () => {
    cluster.reading = { ...cluster.reading, problem: 'the class is not ready' };
    await start();
    await advanceUntil(() => cluster.machine.stage === 'creating');
    const { problem: _, ...ready } = cluster.reading;
    cluster.reading = ready;
    cluster.before = async (step) => {
      if (step !== 'begin') return;
      cluster.before = () => undefined;
      touch({ managed: false, finalizers: [] });
      await observe();
      refuse('Unavailable');
    };
    await workflow().signal(retryNowSignal);
    await advanceUntil(() => cloud.asked.length > 0);

    expect(order.slice(order.lastIndexOf('begin'))).toEqual(expect.arrayContaining(['begin', 'ensureVm']));
    expect(cluster.machine.managed).toBe(true);
  });
});

describe('a Machine from its creation to its deletion', () => {
  it('[invariant 3] [mcm 43 partly] has its finalizer before the first call of a cloud and until the last one is answered', async () => {
    await startRunning();
    touch({ deletingSince: time() });
    await observe();
    await workflow().result();

    expect(order.filter((step) => step !== 'writeStatus')).toEqual([
      ...['begin', 'ensureVm', 'storeIdentity', 'syncNode'],
      ...['announceDeletion', 'deleteVm', 'tearDown'],
    ]);
  });
});

describe('a refusal', () => {
  it('[mcm 28] is written once, and again when it says something else', async () => {
    let words = 'no room in request 1a';
    cloud.ensureVm = () => {
      throw ApplicationFailure.create({ type: 'ResourceExhausted', message: words, nonRetryable: true });
    };
    await start();
    await untilRefused(1);
    words = 'no room in request 2b';
    await tryAgain();
    words = 'no quota in request 3c';
    await tryAgain();

    const note = (text: string) => ({
      reason: 'FailedCreate',
      note: expect.stringMatching(`^ResourceExhausted: ${text}\\. Raise the quota`),
    });
    expect(cluster.written.map(({ event }) => event)).toEqual([
      note('no room in request 1a'),
      note('no room in request 1a'),
      note('no quota in request 3c'),
    ]);
    expect(cluster.written.map(({ step }) => step !== undefined)).toEqual([true, false, true]);
    expect((await described()).lastError).toMatchObject({ times: 1, message: words });
  });

  it('is not tried again after a refresh signal, which every restart sends, unless something has changed', async () => {
    cloud.ensureVm = () => refuse('ResourceExhausted');
    await start();
    await untilRefused(1);
    const looks = () => cluster.steps.filter((step) => step === 'observeMachine').length;
    const before = looks();
    await workflow().signal(refreshSignal);
    await advanceUntil(() => looks() > before);
    expect(await waitingFor()).toBe('a change that helps, or the next try');
    expect(cloud.asked).toHaveLength(1);

    touch({ source: 'large' });
    await workflow().signal(refreshSignal);
    await untilRefused(2);
  });
});

describe('a machine that somebody else lets go', () => {
  it.each([
    ['is deleted without our finalizer: its source gets a note, for the sweep that finds its VM', true, 1],
    ['is deleted before it had our finalizer: there is nothing to note', false, 0],
  ])('%s', async (_, hasVm, notes) => {
    if (hasVm) await startRunning();
    touch({ managed: false, finalizers: ['of others'], deletingSince: time() });
    if (hasVm) await observe();
    else await start();
    await workflow().result();

    expect(cluster.losses).toEqual(Array.from({ length: notes }, () => ({ providerID: vm.providerID })));
    expect(cloud.deletions).toEqual([]);
  });

  it('gets no Event from a run that has never read it: an earlier run may have deleted it', async () => {
    touch({ managed: true, finalizers: ['ours'], stage: 'deleting', deletingSince: time(), providerID: vm.providerID });
    cluster.isGone = true;
    cluster.before = () => {
      cluster.before = () => undefined;
      return observe(); // the signal that has started it
    };
    await start();
    await workflow().result();

    expect(cluster.losses).toEqual([undefined]);
  });
});

describe('a Machine that a restored backup does not have', () => {
  it('[invariant 4 partly] keeps the VM that its run is creating, which may have joined if Temporal was restored, too', async () => {
    cluster.before = (step) => {
      if (step === 'storeIdentity') cluster.isGone = true;
    };
    await start();
    await workflow().result();

    expect(cloud.asked).toHaveLength(1);
    expect(cloud.deletions).toEqual([]);
    expect(cluster.steps).toContain('noteLostMachine');
  });
});

describe('a machine at rest', () => {
  it('goes on from the state of an older release, which lacks fields that came later', async () => {
    const { nodeConditions: _, ...limits } = cluster.machine.limits;
    touch({ stage: 'running', managed: true, providerID: vm.providerID, nodeName: 'node-1' });
    const node = {
      uid: 'node-uid',
      resourceVersion: '1',
      name: 'node-1',
      managed: true,
      conditions: { Ready: 'True' },
    };
    cluster.node = { state: 'present', ...node, deleting: false, startingUp: false };
    const machine = { ...cluster.machine, limits };
    const known = { creation: { state: 'named', hasJoined: true }, mayHaveUserData: false, drained: false };
    await start({ machine, node: cluster.node, ...known, outageEndMs: 0, stale: false });
    await advanceUntil(async () => (await described()).doing === 'running');

    touch({ deletingSince: time() });
    await observe();

    await workflow().result();
    expect(cluster.steps).toContain('tearDown');
    expect(cloud.deletions).toHaveLength(1);
  });

  it('corrects a status that somebody else has written', async () => {
    await startRunning();

    touch({ stage: 'joining' });
    await observe();

    await advanceUntil(() => cluster.machine.stage === 'running');
  });
});
