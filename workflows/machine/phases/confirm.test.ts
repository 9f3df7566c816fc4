/** A Node that the Machine names and that does not name the Machine: the cloud is asked whose it is. */
import { describe, expect, it } from '@jest/globals';
import { refuse, setUpMachine, vm } from '../../../test/support/played-machine.ts';
import { refreshSignal, retryNowSignal } from '../../messages.ts';
import { skipDrainSignal } from '../messages.ts';

const { cluster, cloud, touch, time, start, workflow, described, observe, registerNode, advanceUntil, advance } =
  setUpMachine();

const unnamed = { isUnnamed: true } as const;
const ofControlPlane = { controlPlaneLabel: 'node-role.kubernetes.io/control-plane' };
const unconfirmed = 'node node-1 does not name the Machine, and the cloud has not said that it runs on its VM';
const forbidden = /^node node-1 has the label node-role.kubernetes.io\/control-plane: /;
const { providerID, nodeName = '' } = vm;
const left = () => cluster.written.filter(({ event }) => event?.reason === 'NodeLeftAlone');

/** A machine that was made before this workflow. */
async function startWith(node: Parameters<typeof registerNode>[0], change: object = {}): Promise<void> {
  touch({ managed: true, finalizers: ['ours'], stage: 'running', providerID, nodeName, ...change });
  registerNode({ managed: node?.isUnnamed !== true, ...node });
  await start();
}
const startUnconfirmed = (change: object = {}) => startWith({ ...unnamed }, change);
const isTold = () => left().length > 0;
const isMarked = () => cluster.node.state === 'present' && cluster.node.managed;

async function remove(): Promise<void> {
  touch({ deletingSince: time() });
  await observe();
}

describe('the Node of a machine at rest', () => {
  it('is marked as soon as the cloud has named it, which changes nothing in the cloud', async () => {
    await startUnconfirmed();
    await advanceUntil(isMarked);

    expect(cloud.asked).toMatchObject([{ mustExist: true, providerID, outcomeUnknown: false }]);
    expect([isTold(), cluster.machine.stage]).toEqual([false, 'running']);
    await workflow().terminate();
  });

  it('is marked where it has the provider ID of the VM, whatever the cloud calls it', async () => {
    cloud.ensureVm = () => ({ ...vm, nodeName: 'node-2' });
    await startWith({ ...unnamed, providerID });
    await advanceUntil(isMarked);
    await workflow().terminate();
  });

  const { nodeName: _, ...nameless } = vm;
  it.each([
    ['its VM registers another Node', () => ({ ...vm, nodeName: 'node-2' }), 'registers node node-2'],
    ['there is no VM', () => refuse('NotFound'), 'the cloud says NotFound'],
  ])('is left alone where the cloud says that %s, and the Machine says why', async (_what, ensureVm, why) => {
    cloud.ensureVm = ensureVm;
    await startUnconfirmed();
    await advanceUntil(isTold);
    await advance(9 * 60_000);

    expect(left()).toMatchObject([{ event: { note: expect.stringContaining(`${unconfirmed}: `) } }]);
    expect(left()[0]?.event?.note).toContain(why);
    expect([cloud.asked.length, isMarked(), cluster.machine.stage]).toEqual([1, false, 'running']);
    expect(await described()).toMatchObject({
      waitingFor: `permission to mark its node: ${unconfirmed}`,
      unblock: expect.stringContaining('correct it'),
    });
    await workflow().terminate();
  });

  it('is left alone where it runs on another VM than the cloud has made for the Machine', async () => {
    cloud.ensureVm = () => ({ ...vm, providerID: 'played:///vm-2' });
    await startWith({ ...unnamed, providerID });
    await advanceUntil(isTold);
    expect(left()[0]?.event?.note).toContain('the VM of the Machine is played:///vm-2');
    await workflow().terminate();
  });

  it.each([
    ['does not say its name', () => nameless, 'does not say what the node of the VM is called', 'CloudApi'],
    ['says that the VM is somebody else’s', () => refuse('FailedPrecondition'), 'FailedPrecondition', 'CloudApi'],
    ['can look up no VM', () => refuse('Unimplemented'), 'the cloud says Unimplemented', 'CloudApi'],
    ['refuses', () => refuse('PermissionDenied'), 'the cloud says PermissionDenied', 'Credentials'],
  ])('is left alone where the cloud %s, and the Machine says why', async (_what, ensureVm, why, blockedOn) => {
    cloud.ensureVm = ensureVm;
    await startUnconfirmed();
    await advanceUntil(isTold);

    expect(left()[0]?.event?.note).toContain(why);
    expect(await described()).toMatchObject({ blockedOn, waitingFor: expect.stringContaining(why) });
    await workflow().terminate();
  });

  it('is asked about again after ten minutes, and at once when somebody asks for a try', async () => {
    cloud.ensureVm = () => refuse('NotFound');
    await startUnconfirmed();
    await advanceUntil(isTold);
    await advance(10 * 60_000);
    await advanceUntil(() => cloud.asked.length === 2);

    cloud.ensureVm = () => vm;
    await workflow().signal(retryNowSignal);
    await advanceUntil(isMarked);
    await workflow().terminate();
  });

  it('is followed while the cloud does not answer, which is asked with growing pauses', async () => {
    cloud.ensureVm = () => refuse('Unavailable');
    await startWith({ ...unnamed, conditions: { Ready: 'False' } });
    await advanceUntil(() => cluster.machine.stage === 'unhealthy');
    await advance(60 * 60_000);
    expect([isTold(), cloud.asked.length < 20]).toEqual([false, true]);

    cloud.ensureVm = () => vm;
    await advanceUntil(isMarked);
    await workflow().terminate();
  });

  it.each([
    ['the cloud denies', unnamed, () => refuse('NotFound')],
    ['is of the control plane', ofControlPlane, () => vm],
  ])('deletes no Machine with it that %s', async (_, facts, ensureVm) => {
    cloud.ensureVm = ensureVm;
    await startWith(facts);
    await advanceUntil(isTold);
    cluster.node = { ...cluster.node, deleting: true, resourceVersion: '2' } as typeof cluster.node;
    await observe();
    await advance(60_000);

    expect(cluster.machine.deletingSince).toBeUndefined();
    await workflow().terminate();
  });

  it('is not drained for an in-place update while it is left alone', async () => {
    cluster.maintenance = 'drainForUpdate';
    await startWith(ofControlPlane);
    await advanceUntil(isTold);
    await advance(60_000);

    expect(cluster.drains).toBe(0);
    await workflow().terminate();
  });
});

it('a Node that says that its machine goes is uncordoned while the Machine stays', async () => {
  await startWith({ isTerminating: true });
  await advanceUntil(() => cluster.steps.includes('uncordonNode'));
  await advance(60_000);

  expect(cluster.steps.filter((call) => call === 'uncordonNode')).toHaveLength(1);
  expect((await described()).doing).toBe('running');
  await workflow().terminate();
});

describe('a Machine that names its VM and no Node', () => {
  /** As it is created again by hand. The Node is found as soon as the Machine names it. */
  async function startUnnamed(change: object = {}): Promise<void> {
    cluster.after = (step) => {
      if (step === 'storeIdentity' && cluster.machine.nodeName !== undefined) registerNode();
    };
    touch({ managed: true, finalizers: ['ours'], providerID, ...change });
    await start();
  }

  it.each([
    ['was restored without status', {}],
    ['has lost the name while it was Running', { stage: 'running' }],
  ])('gets the name from the cloud where it %s, and runs again', async (_, change) => {
    await startUnnamed(change);
    await advanceUntil(() => cluster.machine.stage === 'running');

    expect(cluster.machine).toMatchObject({ providerID, nodeName });
    expect(cloud.asked).toMatchObject([{ mustExist: true, providerID }]);
    await workflow().terminate();
  });

  it.each<[string, typeof cloud.ensureVm]>([
    ['says that there is no VM', () => refuse('NotFound')],
    ['does not say its name', () => ({ state: 'running', providerID, addresses: [] })],
    ['names another VM', () => ({ ...vm, providerID: 'played:///vm-2' })],
  ])('says what helps while the cloud %s, which is asked with growing pauses', async (_, ensureVm) => {
    cloud.ensureVm = ensureVm;
    await startUnnamed();
    await advanceUntil(async () => (await described()).doing === 'watching an unhealthy node');
    await advance(60 * 60_000);

    expect([cluster.machine.nodeName, cloud.asked.length > 20, cloud.asked.length < 40]).toEqual([
      undefined,
      true,
      true,
    ]);
    expect((await described()).unblock).toMatch(
      /^See in the cloud whether VM played:\/\/\/vm-1 is there and runs. If it does, /,
    );
    expect((await described()).unblock).toContain('name its node on the Machine');

    cloud.ensureVm = () => vm;
    await workflow().signal(retryNowSignal);
    await advanceUntil(() => cluster.machine.stage === 'running');
    await workflow().terminate();
  });
});

describe('the Node of a machine in creation', () => {
  it('joins as soon as the cloud is asked about the VM again', async () => {
    await startUnconfirmed({ stage: 'joining' });
    await advanceUntil(() => cluster.machine.stage === 'running');

    expect(cloud.asked[0]).not.toHaveProperty('mustExist');
    expect(cloud.deletions).toEqual([]);
    await workflow().terminate();
  });

  it('joins without a mark at the creation timeout while the cloud refuses to say whose it is', async () => {
    cloud.ensureVm = () => refuse('PermissionDenied');
    await startUnconfirmed({ stage: 'joining' });
    await advance(60_000);
    expect(cluster.machine.stage).toBe('joining');
    await advance(cluster.machine.limits.creationSeconds * 1_000);
    await advanceUntil(() => cluster.machine.stage === 'running');

    expect([isMarked(), cloud.deletions.length]).toEqual([false, 0]);
    await workflow().terminate();
  });

  it('joins without a mark where nobody may write to it', async () => {
    await startWith({ ...unnamed, ...ofControlPlane }, { stage: 'joining' });
    await advanceUntil(() => cluster.machine.stage === 'running');
    await advanceUntil(isTold);

    expect(left()).toMatchObject([{ event: { note: expect.stringMatching(forbidden) } }]);
    expect((await described()).waitingFor).toMatch(/^permission to mark its node: node node-1 has the label /);
    await workflow().terminate();
  });
});

describe('the deletion of a machine', () => {
  it.each(['Unavailable', 'Unimplemented', 'FailedPrecondition'] as const)(
    'drains a Node only after the cloud has named it, and waits while that says %s',
    async (code) => {
      cloud.ensureVm = () => refuse(code);
      await startUnconfirmed();
      await remove();
      await advanceUntil(async () => (await described()).waitingFor === 'the cloud to say whose it is');
      expect([cluster.drains, cloud.deletions.length]).toEqual([0, 0]);
      expect(cluster.written.at(-1)?.step).toMatchObject({ kind: 'drain', code });

      cloud.ensureVm = () => vm;
      await workflow().signal(retryNowSignal);
      await workflow().result();
      expect(cluster.drainRequest?.namedByCloud).toEqual({ providerID, nodeName });
      expect([cluster.drains, cloud.deletions.length]).toEqual([1, 1]);
    },
  );

  it('asks the cloud anew, whatever it has said before', async () => {
    cloud.ensureVm = () => refuse('NotFound');
    await startUnconfirmed();
    await advanceUntil(isTold);
    cloud.ensureVm = () => vm;
    await remove();
    await workflow().result();

    expect([cluster.drains, cloud.deletions.length]).toEqual([1, 1]);
  });

  it('goes on without a Node that is not the Machine’s', async () => {
    cloud.ensureVm = () => ({ ...vm, nodeName: 'node-2' });
    await startUnconfirmed();
    await remove();
    await workflow().result();

    expect([cluster.drains, cloud.deletions.length]).toEqual([0, 1]);
  });

  it('waits also while a Node that may not be drained cannot be read', async () => {
    await startWith(ofControlPlane, { forceDeletion: true });
    await remove();
    await advanceUntil(async () => (await described()).waitingFor === 'permission to drain it');
    cluster.node = { state: 'unknown' };
    await workflow().signal(refreshSignal);
    await workflow().signal(retryNowSignal);
    await advance(60_000);
    expect([cluster.drains, cloud.deletions.length]).toEqual([0, 0]);
    await workflow().terminate();
  });

  it.each<[string, () => void, boolean]>([
    ['the cloud has denied', () => void (cloud.ensureVm = () => refuse('NotFound')), false],
    ['nobody might drain', () => undefined, true],
  ])('drains a Node that %s before it named the Machine, also if it cannot be read', async (_, deny, isForbidden) => {
    deny();
    const conditions = { Ready: 'False' }; // its workflow watches it
    await startWith({ ...(isForbidden ? ofControlPlane : unnamed), conditions });
    await advanceUntil(isTold);
    registerNode({ managed: true, conditions });
    await observe();
    await advance(10_000);
    cluster.node = { state: 'unknown' };
    await workflow().signal(refreshSignal);
    await advance(1_000);
    await remove();

    await workflow().result();
    expect([cluster.drains, cloud.deletions.length]).toEqual([1, 1]);
  });

  it('waits where its own Node may not be drained, also when it is forced, until somebody skips the drain', async () => {
    await startWith(ofControlPlane, { forceDeletion: true });
    await remove();
    await advanceUntil(async () => (await described()).waitingFor === 'permission to drain it');
    expect(await described()).toMatchObject({ lastError: { message: expect.stringMatching(forbidden) } });
    const before = cluster.written.length;
    await advance(60 * 60_000);
    expect([cluster.drains, cloud.deletions.length, cluster.written.length - before < 10]).toEqual([0, 0, true]);

    await workflow().signal(skipDrainSignal);
    await workflow().result();
    expect([cluster.drains, cloud.deletions.length]).toEqual([0, 1]);
  });
});
