/** A Machine at rest whose Node does not have what the Machine wants it to have. */
import { describe, expect, it } from '@jest/globals';
import { setUpMachine } from '../../../test/support/played-machine.ts';

const { cluster, described, observe, joinNode, startRunning, until } = setUpMachine();

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
    await until(() => cluster.node.state === 'present' && !cluster.node.outdated);
    await observe();
    await described();

    expect(synced()).toBe(before + 1);
    expect(cluster.synced.at(-1)).toEqual({ stage: 'running' });
  });

  it('is brought up to date before it is healthy', async () => {
    await startRunning();
    await joinNode({ outdated: true });
    await until(() => cluster.node.state === 'present' && !cluster.node.outdated);
  });

  it('is left alone where the API server refuses what it should get, until a watcher says again that it lacks that', async () => {
    await startRunning();
    cluster.isTemplateRefused = true;
    const before = synced();
    await outdate();
    await until(() => synced() > before);
    expect((await described()).doing).toBe('running');
    expect(synced()).toBe(before + 1);

    await observe();
    await until(() => synced() > before + 1);
    cluster.isTemplateRefused = false;
    await observe();
    await until(() => cluster.node.state === 'present' && !cluster.node.outdated);
  });
});
