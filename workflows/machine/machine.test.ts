/** The workflow of a machine as a whole: where it begins, what it waits for, and how it rests. */

import { describe, expect, it } from '@jest/globals';
import { ApplicationFailure } from '@temporalio/activity';
import { eventually, refuse, setUpMachine, vm } from '../../test/support/played-machine.ts';
import { refreshSignal } from '../messages.ts';

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
} = setUpMachine();

describe('a Machine that is deleted before its finalizer is on', () => {
  it.each([
    {
      when: 'is left to others when it is seen so',
      prepare: () => touch({ deletingSince: new Date().toISOString(), finalizers: ['foregroundDeletion'] }),
      looks: ['observeMachine'],
    },
    {
      when: 'is left to others when the finalizer comes too late',
      prepare: () => {
        cluster.withFinalizer = { deletingSince: new Date().toISOString(), finalizers: ['foregroundDeletion'] };
      },
      looks: ['observeMachine', 'readSource', 'addFinalizer'],
    },
  ])('$when', async ({ prepare, looks }) => {
    prepare();
    await start();
    await workflow().result();
    expect(cluster.steps).toEqual(looks);
    expect([cloud.asked, cloud.deletions, cluster.written]).toEqual([[], [], []]);
  });
});

describe('a Machine from its creation to its deletion', () => {
  it('[invariant 3] [mcm 43 partly] has its finalizer before the first call of a cloud and until the last one is answered', async () => {
    await startRunning();
    touch({ deletingSince: new Date().toISOString() });
    await observe();
    await workflow().result();

    expect(order.filter((step) => step !== 'writeStatus')).toEqual([
      ...['addFinalizer', 'ensureVm', 'storeIdentity', 'syncNode'],
      ...['deleteVm', 'removeNode', 'removeFinalizer'],
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
    await eventually(() => looks() > before);
    expect(await waitingFor()).toBe('a change that helps, or the next try');
    expect(cloud.asked).toHaveLength(1);

    touch({ source: 'large' });
    await workflow().signal(refreshSignal);
    await untilRefused(2);
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
    await start({ machine, node: cluster.node, ...known, outageEndMs: 0, stale: false, shown: '' });
    await eventually(async () => (await described()).doing === 'running');

    touch({ deletingSince: new Date().toISOString() });
    await observe();

    await workflow().result();
    expect(cluster.steps).toContain('removeFinalizer');
    expect(cloud.deletions).toHaveLength(1);
  });

  it('corrects a status that somebody else has written', async () => {
    await startRunning();

    touch({ stage: 'joining' });
    await observe();

    await eventually(() => cluster.machine.stage === 'running');
  });
});
