/** A Machine whose creation is over, and what its Node makes of it. */
import { describe, expect, it } from '@jest/globals';
import { setUpMachine, vm } from '../../../test/support/played-machine.ts';

const { cluster, described, observe, joinNode, start, startAtRest, startRunning, time, touch, advanceUntil } =
  setUpMachine();

/** Somebody edits the Machine's node template, or what it says on the Node. */
async function outdate(): Promise<void> {
  if (cluster.node.state === 'present') cluster.node = { ...cluster.node, outdated: true };
  await observe();
}

const synced = () => cluster.steps.filter((step) => step === 'syncNode').length;

describe('a Node that is outdated', () => {
  it('is brought up to date once, and its Machine stays Running', async () => {
    await startRunning();
    const before = synced();
    await outdate();
    await advanceUntil(() => cluster.node.state === 'present' && !cluster.node.outdated);
    await observe();
    await described();

    expect(synced()).toBe(before + 1);
    expect(cluster.synced.at(-1)).toEqual({ stage: 'running' });
  });

  it('is brought up to date before it is healthy', async () => {
    await startRunning();
    await joinNode({ outdated: true });
    await advanceUntil(() => cluster.node.state === 'present' && !cluster.node.outdated);
  });

  it('is left alone where the API server refuses what it should get, until a watcher says again that it lacks that', async () => {
    await startRunning();
    cluster.isTemplateRefused = true;
    const before = synced();
    await outdate();
    await advanceUntil(() => synced() > before);
    expect((await described()).doing).toBe('running');
    expect(synced()).toBe(before + 1);

    await observe();
    await advanceUntil(() => synced() > before + 1);
    cluster.isTemplateRefused = false;
    await observe();
    await advanceUntil(() => cluster.node.state === 'present' && !cluster.node.outdated);
  });
});

describe('an in-place update whose Node is gone', () => {
  it('says what it waits for, and makes the machine unhealthy once it has failed', async () => {
    await startAtRest();
    cluster.node = { state: 'absent' };
    const updateDueBy = time(60_000);
    touch({ stage: 'updating', updateDueBy });
    await observe();
    await advanceUntil(async () => (await described()).blockedOn === 'NodeHealth');
    expect(await described()).toMatchObject({ doing: 'its in-place update', until: updateDueBy });

    cluster.after = (step) => {
      if (step === 'maintain') delete (cluster.machine as { updateDueBy?: string }).updateDueBy;
    };
    await advanceUntil(() => cluster.steps.includes('maintain'));
    await observe();
    await advanceUntil(() => cluster.machine.stage === 'unhealthy');
  });
});

describe('a Machine that is not being deleted, and whose status says so', () => {
  it('is unhealthy where it has no Node', async () => {
    touch({ managed: true, finalizers: ['ours'], stage: 'deleting', providerID: vm.providerID });
    await start();
    await advanceUntil(() => cluster.machine.stage === 'unhealthy');
    await advanceUntil(async () => (await described()).doing === 'watching an unhealthy node');
  });

  it('is available again where there are no Nodes and its cloud has the VM', async () => {
    const limits = { ...cluster.machine.limits, hasNoNode: true as const };
    touch({ managed: true, finalizers: ['ours'], stage: 'deleting', providerID: vm.providerID, limits });
    await start();
    await advanceUntil(() => cluster.machine.stage === 'available');
  });
});
