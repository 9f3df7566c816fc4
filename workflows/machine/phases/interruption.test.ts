/** A Machine whose VM is about to be taken away. */
import { describe, expect, it } from '@jest/globals';
import { eventually, setUpMachine } from '../../../test/support/played-machine.ts';
import { skipDrainSignal } from '../messages.ts';

const { cluster, touch, start, workflow, described, waitingFor, observe, joinNode, startRunning } = setUpMachine();

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

describe('a Machine whose Node says that its VM is about to be taken away', () => {
  it('has failed at once, though the Node is healthy, and writes that once', async () => {
    await startRunning();
    await mark(taint);
    await eventually(async () => (await described()).doing === 'waiting to be replaced');
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
    await eventually(() => cluster.machine.stage === 'unhealthy');
    await mark(taint);
    await eventually(() => cluster.machine.stage === 'failed');
  });

  it('is running again when the Node says so no more and nobody has replaced it', async () => {
    await startRunning();
    await mark(taint);
    await eventually(() => cluster.machine.stage === 'failed');
    await mark(undefined);
    await eventually(() => cluster.machine.stage === 'running');
  });

  it('has failed instead of joining', async () => {
    await start();
    await eventually(async () => (await waitingFor()) === 'node node-1 to register');
    await joinNode({ interruption: taint });
    await eventually(async () => (await described()).doing === 'waiting to be replaced');
    expect(cluster.synced).toHaveLength(1);
    expect(cluster.synced[0]).toMatchObject(failure);
  });

  it('does not fail while it is being deleted', async () => {
    await startRunning();
    cluster.isDrainable = false;
    touch({ deletingSince: new Date().toISOString() });
    await observe();
    await eventually(() => cluster.drains === 1);
    const { length } = cluster.synced;
    await mark(taint);
    await workflow().signal(skipDrainSignal);
    await workflow().result();
    expect(cluster.synced).toHaveLength(length);
    expect(cluster.drains).toBe(1);
  });
});
