/** A Node that the Machine names and that does not name the Machine: the cloud is asked whose it is. */
import { describe, expect, it } from '@jest/globals';
import { refuse, setUpMachine, vm } from '../../../test/support/played-machine.ts';
import { retryNowSignal } from '../../messages.ts';
import { skipDrainSignal } from '../messages.ts';

const { cluster, cloud, touch, time, start, workflow, described, observe, registerNode, advanceUntil, advance } =
  setUpMachine();

const unconfirmed = 'node node-1 does not name the Machine';
const forbidden = 'node node-1 has the label of the control plane';
const { providerID, nodeName = '' } = vm;
const left = () => cluster.written.filter(({ event }) => event?.reason === 'NodeLeftAlone');

/** A machine that was made before this workflow. */
async function startWith(node: Parameters<typeof registerNode>[0], change: object = {}): Promise<void> {
  touch({ managed: true, finalizers: ['ours'], stage: 'running', providerID, nodeName, ...change });
  registerNode({ managed: node?.unconfirmed === undefined, ...node });
  await start();
}
const startUnconfirmed = (change: object = {}) => startWith({ unconfirmed }, change);
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
    await startWith({ unconfirmed, providerID });
    await advanceUntil(isMarked);
    await workflow().terminate();
  });

  it('is marked where it has the provider ID of the VM and the provider can look up none', async () => {
    cloud.ensureVm = () => refuse('Unimplemented');
    await startWith({ unconfirmed, providerID });
    await advanceUntil(isMarked);
    await workflow().terminate();
  });

  const { nodeName: _, ...nameless } = vm;
  it.each([
    ['the VM of the Machine is another one', () => ({ ...vm, providerID: 'played:///vm-2' }), 'is played:///vm-2'],
    ['its VM registers another Node', () => ({ ...vm, nodeName: 'node-2' }), 'registers node node-2'],
    ['its VM registers a Node without a name', () => nameless, 'does not say what the node of the VM is called'],
    ['the VM is somebody else’s', () => refuse('FailedPrecondition'), 'the cloud says FailedPrecondition'],
    ['there is no VM', () => refuse('NotFound'), 'the cloud says NotFound'],
    ['nobody can look it up', () => refuse('Unimplemented'), 'does not say what the node of the VM is called'],
  ])('is left alone where the cloud says that %s, and the Machine says why', async (_what, ensureVm, why) => {
    cloud.ensureVm = ensureVm;
    await startUnconfirmed();
    await advanceUntil(isTold);
    await advance(60_000);

    expect(left()).toMatchObject([{ event: { note: expect.stringContaining(`${unconfirmed}: `) } }]);
    expect(left()[0]?.event?.note).toContain(why);
    expect([cloud.asked.length, isMarked(), cluster.machine.stage]).toEqual([1, false, 'running']);
    expect(await described()).toMatchObject({
      waitingFor: `leave to mark its node: ${unconfirmed}`,
      unblock: expect.stringContaining('correct it'),
    });
    await workflow().terminate();
  });

  it('is asked about again after ten minutes, and at once when somebody has corrected the Machine and asks for a try', async () => {
    cloud.ensureVm = () => refuse('FailedPrecondition');
    await startUnconfirmed();
    await advanceUntil(isTold);
    await advance(10 * 60_000);
    await advanceUntil(() => cloud.asked.length === 2);

    cloud.ensureVm = () => ({ ...vm, providerID: 'played:///vm-2' });
    touch({ providerID: 'played:///vm-2' });
    await observe();
    await workflow().signal(retryNowSignal);
    await advanceUntil(isMarked);
    await workflow().terminate();
  });

  it('is followed while the cloud does not answer', async () => {
    cloud.ensureVm = () => refuse('PermissionDenied');
    await startWith({ unconfirmed, conditions: { Ready: 'False' } });
    await advanceUntil(() => cluster.machine.stage === 'unhealthy');
    expect(isTold()).toBe(false);

    cloud.ensureVm = () => vm;
    await advanceUntil(isMarked);
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

  it('joins without a mark where nobody may write to it', async () => {
    await startWith({ unconfirmed, forbidden }, { stage: 'joining' });
    await advanceUntil(() => cluster.machine.stage === 'running');
    await advanceUntil(isTold);

    expect(left()).toMatchObject([{ event: { note: forbidden } }]);
    expect((await described()).waitingFor).toBe(`leave to mark its node: ${forbidden}`);
    await workflow().terminate();
  });
});

describe('the deletion of a machine', () => {
  it('drains a Node only after the cloud has named it', async () => {
    cloud.ensureVm = () => refuse('Unavailable');
    await startUnconfirmed();
    await remove();
    await advanceUntil(async () => (await described()).doing === 'asking the cloud whose the node is');
    expect([cluster.drains, cloud.deletions.length]).toEqual([0, 0]);

    cloud.ensureVm = () => vm;
    await workflow().signal(retryNowSignal);
    await workflow().result();
    expect([cluster.drainRequest?.isFromCloud, cloud.deletions.length]).toEqual([true, 1]);
  });

  it('goes on without a Node that is not the Machine’s', async () => {
    cloud.ensureVm = () => ({ ...vm, nodeName: 'node-2' });
    await startUnconfirmed();
    await remove();
    await workflow().result();

    expect([cluster.drains, cloud.deletions.length, isTold()]).toEqual([0, 1, true]);
  });

  it('waits where its own Node may not be drained, also when it is forced, until somebody skips the drain', async () => {
    await startWith({ forbidden }, { forceDeletion: true });
    await remove();
    await advanceUntil(async () => (await described()).waitingFor === 'leave to drain it');
    expect(await described()).toMatchObject({ lastError: { message: forbidden } });
    expect([cluster.drains, cloud.deletions.length]).toEqual([0, 0]);

    await workflow().signal(skipDrainSignal);
    await workflow().result();
    expect([cluster.drains, cloud.deletions.length]).toEqual([0, 1]);
  });
});
