/** A Machine whose VM is about to be taken away. */
import { describe, expect, it } from '@jest/globals';
import { refuse, setUpMachine, vm } from '../../../test/support/played-machine.ts';
import { refreshSignal, retryNowSignal } from '../../messages.ts';
import { interruptedSignal, skipDrainSignal } from '../messages.ts';

const {
  cluster,
  touch,
  start,
  workflow,
  described,
  waitingFor,
  observe,
  joinNode,
  startRunning,
  advance,
  advanceUntil,
  now,
  untilCancelled,
  time,
} = setUpMachine();

const taint = 'the taint aws-node-termination-handler/spot-itn';

/** The Node gets the taint, or loses it. */
async function mark(interruption: string | undefined): Promise<void> {
  const { interruption: _, ...node } = cluster.node as Extract<typeof cluster.node, { state: 'present' }>;
  const resourceVersion = String(Number(node.resourceVersion) + 1);
  cluster.node = { ...node, resourceVersion, ...(interruption !== undefined && { interruption }) };
  await observe();
}

const failure = {
  stage: 'failed',
  step: { kind: 'health', state: 'failed', message: `the VM is about to be taken away: node node-1 has ${taint}` },
  isTimed: false,
  event: { reason: 'VmInterrupted', note: `the VM is about to be taken away: node node-1 has ${taint}` },
};

describe('a Machine whose VM the cloud is about to take away', () => {
  const reason = 'marked-for-termination';
  const say = (providerID: string) => workflow().signal(interruptedSignal, { providerID, reason });

  it('has the taint written on its Node, and has failed', async () => {
    await startRunning();
    await say(`played:///elsewhere/${vm.providerID.split('/').at(-1)}`); // another place: it is the same VM
    await advanceUntil(() => cluster.machine.stage === 'failed');
    const note = `the VM is about to be taken away: node node-1 has the taint x (${reason})`;
    expect(cluster.synced.at(-1)).toMatchObject({ event: { reason: 'VmInterrupted', note } });

    await say(vm.providerID); // the next check says it again
    await described();
    expect(cluster.steps.filter((step) => step === 'markInterrupted')).toHaveLength(1);
  });

  it('writes nothing about the VM that it had before', async () => {
    await startRunning();
    await say('played:///vm-of-old');
    await described();
    await observe();
    await advanceUntil(async () => (await described()).doing === 'running');
    expect(cluster.steps).not.toContain('markInterrupted');
    expect(cluster.machine.stage).toBe('running');
  });

  it('has it written though something changes its status back all the while', async () => {
    await startRunning();
    cluster.after = async (step) => {
      if (!['writeStatus', 'syncNode'].includes(step)) return;
      touch({ stage: 'joining', phase: 'Pending' });
      await observe();
    };
    await cluster.after('syncNode');
    await advance(60_000);
    expect((await described()).waitingFor).toBe('the API server to keep what is written');
    const nowMs = now();
    await say(vm.providerID);
    await advanceUntil(() => cluster.steps.includes('markInterrupted'));
    expect(now()).toBe(nowMs);
  });

  it('has it written also while it joins, and has failed', async () => {
    await start();
    await advanceUntil(async () => (await waitingFor()) === 'node node-1 to register');
    await joinNode({ outdated: true });
    await say(vm.providerID);
    await advanceUntil(() => cluster.machine.stage === 'failed');
    expect(cluster.steps.filter((step) => step === 'markInterrupted')).toHaveLength(1);
  });

  it('forgets it while there is no Node: the cloud may take it back before the machine joins', async () => {
    await start();
    await advanceUntil(async () => (await waitingFor()) === 'node node-1 to register');
    await say(vm.providerID);
    await described();
    await joinNode();
    await advanceUntil(async () => (await described()).doing === 'running');
    expect(cluster.steps).not.toContain('markInterrupted');
  });

  it('has it written when its Node is known again', async () => {
    await startRunning();
    const { node } = cluster;
    cluster.node = { state: 'unknown' };
    await workflow().signal(refreshSignal);
    await say(vm.providerID);
    await described();
    expect(cluster.steps).not.toContain('markInterrupted');
    cluster.node = node;
    await observe();
    await advanceUntil(() => cluster.machine.stage === 'failed');
  });

  it('waits for the API server of its Node, and writes it then', async () => {
    await startRunning();
    let isDown = true;
    cluster.before = (step) => step === 'markInterrupted' && isDown && refuse('Unavailable');
    await say(vm.providerID);
    await advanceUntil(async () => (await described()).blockedOn === 'KubernetesApi');
    expect(cluster.machine.stage).toBe('running');
    isDown = false;
    await workflow().signal(retryNowSignal);
    await advanceUntil(() => cluster.machine.stage === 'failed');
  });
});

describe('a Machine whose Node says that its VM is about to be taken away', () => {
  it('has failed at once, though the Node is healthy, and writes that once', async () => {
    await startRunning();
    await mark(taint);
    await advanceUntil(async () => (await described()).doing === 'waiting to be replaced');
    expect(cluster.machine.stage).toBe('failed');
    expect(cluster.synced.at(-1)).toMatchObject(failure);

    const writes = cluster.synced.length;
    await mark(taint);
    await workflow().query('describe');
    expect(cluster.synced).toHaveLength(writes);
  });

  it('has failed when it was unhealthy before', async () => {
    await startRunning();
    cluster.node = { ...cluster.node, conditions: { Ready: 'False' }, resourceVersion: '7' } as typeof cluster.node;
    await observe();
    await advanceUntil(() => cluster.machine.stage === 'unhealthy');
    await mark(taint);
    await advanceUntil(() => cluster.machine.stage === 'failed');
  });

  it('is running again when the Node says so no more and nobody has replaced it', async () => {
    await startRunning();
    await mark(taint);
    await advanceUntil(() => cluster.machine.stage === 'failed');
    await mark(undefined);
    await advanceUntil(() => cluster.machine.stage === 'running');
  });

  it('has failed instead of joining', async () => {
    await start();
    await advanceUntil(async () => (await waitingFor()) === 'node node-1 to register');
    await joinNode({ interruption: taint });
    await advanceUntil(async () => (await described()).doing === 'waiting to be replaced');
    expect(cluster.synced).toHaveLength(1);
    expect(cluster.synced[0]).toMatchObject({ ...failure, step: { ...failure.step, kind: 'join' } });
  });

  it('does not fail while it is being deleted', async () => {
    await startRunning();
    cluster.drainNode = untilCancelled;
    touch({ deletingSince: time() });
    await observe();
    await advanceUntil(() => cluster.drains === 1);
    const { length } = cluster.synced;
    await mark(taint);
    await workflow().signal(skipDrainSignal);
    await workflow().result();
    expect(cluster.synced).toHaveLength(length);
    expect(cluster.drains).toBe(1);
  });
});
