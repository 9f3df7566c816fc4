/** A Machine at rest whose Node does not have what the Machine wants it to have. */
import { describe, expect, it } from '@jest/globals';
import { eventually, setUpMachine } from '../../../test/support/played-machine.ts';

const { cluster, described, observe, joinNode, startRunning } = setUpMachine();

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
    await eventually(() => cluster.node.state === 'present' && !cluster.node.outdated);
    await observe();
    await described();

    expect(synced()).toBe(before + 1);
    expect(cluster.synced.at(-1)).toEqual({ stage: 'running' });
  });

  it('is brought up to date before it is healthy', async () => {
    await startRunning();
    await joinNode({ outdated: true });
    await eventually(() => cluster.node.state === 'present' && !cluster.node.outdated);
  });

  it('is left alone for a while where the API server refuses what it should get', async () => {
    await startRunning();
    cluster.isTemplateRefused = true;
    const before = synced();
    await outdate();
    await eventually(() => synced() > before);
    for (let times = 0; times < 3; times++) {
      await observe();
      await described();
    }

    expect(synced()).toBe(before + 1);
    expect((await described()).doing).toBe('running');
  });
});
