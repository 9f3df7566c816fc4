/** A Node that somebody deletes, or that is found by its provider ID alone. */

import { beforeEach, describe, expect, it } from '@jest/globals';
import type { MachineActivities } from '../../../activities/machine/index.ts';
import { refuse, setUpMachine, vm } from '../../../test/support/played-machine.ts';
import { retryNowSignal } from '../../messages.ts';

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
  registerNode,
  startRunning,
  startAtRest,
  advance,
  advanceUntil,
  untilCancelled,
  now,
  time,
} = setUpMachine();

describe('a deleted Node of a Machine that has its VM replaced', () => {
  /** VMs that exist, and the most that existed at a time. */
  let vms: string[];
  let most: number;

  beforeEach(() => {
    vms = [];
    most = 0;
    touch({ onNodeDeleted: 'replaceVm' });
    cloud.ensureVm = () => {
      if (vms.length === 0) vms.push(`played:///vm-${cloud.asked.length}`);
      most = Math.max(most, vms.length);
      return { ...vm, providerID: vms[0]! };
    };
    cloud.deleteVm = () => {
      vms = [];
      return { state: 'gone', nodeNames: [] };
    };
  });

  async function deleteNode(): Promise<void> {
    cluster.node = { ...cluster.node, deleting: true, resourceVersion: '2' } as typeof cluster.node;
    await observe();
  }

  /** The Machine has another VM, under a token of its own, and its Node has joined. */
  async function expectReplaced(): Promise<void> {
    await advanceUntil(() => cluster.machine.stage === 'joining');
    await joinNode();
    await advanceUntil(() => cluster.machine.stage === 'running');
    expect([vms.length, most, cluster.replacements]).toEqual([1, 1, 1]);
    expect(cluster.machine).toMatchObject({ providerID: vms[0], nodeName: 'node-1' });
    const { uid } = cluster.machine;
    expect([...new Set(cloud.asked.map(({ token }) => token))]).toEqual([`${uid}-0`, `${uid}-1-0`]);
  }

  it('gets another one under the same Machine, after the old one, its name and its Node are gone', async () => {
    let calls = 0;
    const deleteNow = cloud.deleteVm;
    cloud.deleteVm = (request) => (++calls < 3 ? { state: 'deleting', nodeNames: [] } : deleteNow(request));
    await startRunning();
    const before = cluster.steps.length;
    await deleteNode();
    await advanceUntil(() => calls === 1);
    await workflow().signal(retryNowSignal);
    await advanceUntil(() => calls === 2);
    await workflow().signal(retryNowSignal);
    await expectReplaced();

    const writes: (keyof MachineActivities)[] = [
      'forgetVm',
      'removeNode',
      'writeStatus',
      'finishReplacement',
      'storeIdentity',
    ];
    const done = cluster.steps.slice(before).filter((step) => writes.includes(step));
    expect(done).toEqual(writes);
    expect(cluster.written.map(({ stage, event }) => [stage, event?.reason])).toEqual([
      ['joining', 'VmCreated'],
      ['new', 'NodeDeleted'],
      ['joining', 'VmCreated'],
    ]);
    expect(cloud.asked.at(-1)).toMatchObject({ outcomeUnknown: false });
    expect(cloud.asked.at(-1)).not.toHaveProperty('providerID');
    expect(cluster.machine.deletingSince).toBeUndefined();
  });

  it.each(['forgetVm', 'removeNode', 'writeStatus', 'finishReplacement', 'begin'] as const)(
    '[invariant 1] gets one other when the run is lost before %s',
    async (step) => {
      await startRunning();
      const before = cluster.steps.length;
      cluster.before = (each) => each === step && refuse('Unavailable');
      await deleteNode();
      await advanceUntil(() => cluster.steps.slice(before).includes(step));
      await workflow().terminate();
      cluster.before = () => undefined;
      await start();
      await expectReplaced();
    },
  );

  it.each(['at once', 'in a new run'])(
    '[invariant 1] gets one other when its Node is lost before the cloud has answered the deletion, %s',
    async (when) => {
      await startRunning();
      const deleteNow = cloud.deleteVm;
      cloud.deleteVm = (request) => {
        void deleteNow(request);
        return refuse('Canceled');
      };
      await deleteNode();
      await advanceUntil(async () => (await described()).blockedOn === 'CloudApi');
      cloud.deleteVm = deleteNow;
      cluster.node = { state: 'absent' };
      if (when === 'in a new run') workflow().lengthen(600);
      await observe();
      await workflow().signal(retryNowSignal);
      await expectReplaced();
    },
  );

  it('keeps its VM when its Node is there again before the VM was deleted, and is lost some time later', async () => {
    vms.push(vm.providerID);
    await startRunning();
    cloud.deleteVm = () => refuse('Unavailable');
    await deleteNode();
    await advanceUntil(async () => (await described()).blockedOn === 'CloudApi');
    const { length } = cloud.deletions;
    await joinNode();
    await advanceUntil(async () => (await described()).doing === 'running');
    cluster.node = { state: 'absent' };
    await observe();
    await advanceUntil(async () => (await described()).doing === 'watching an unhealthy node');

    expect(cloud.deletions).toHaveLength(length);
  });

  it('leaves the second creation behind, too: a new run begins some time after it', async () => {
    vms.push(vm.providerID);
    touch({ limits: { ...cluster.machine.limits, creationSeconds: 10 } });
    await startAtRest();
    const { runId } = await workflow().describe();
    await deleteNode();
    await advanceUntil(() => cluster.machine.stage === 'joining');
    await joinNode();
    await advanceUntil(() => cluster.machine.stage === 'running');

    await advanceUntil(async () => (await workflow().describe()).runId !== runId);
    expect(await described()).toMatchObject({ doing: 'running', providerID: vms[0] });
  });

  it('keeps its VM when the Machine merely loses its provider ID', async () => {
    await startRunning();
    await workflow().terminate();
    touch({ providerID: undefined } as unknown as Parameters<typeof touch>[0]);
    await start();
    await advanceUntil(async () => (await described()).doing === 'running');

    expect(cloud.deletions).toEqual([]);
  });

  it('[invariant 2] loses its VM alone when the Machine is deleted meanwhile', async () => {
    await startRunning();
    const deleteNow = cloud.deleteVm;
    cloud.deleteVm = async (request) => (cloud.deletions.length === 1 ? untilCancelled() : deleteNow(request));
    await deleteNode();
    await advanceUntil(() => cloud.deletions.length === 1);
    touch({ deletingSince: time() });
    await observe();
    await workflow().result();

    expect([vms, cloud.asked.length]).toEqual([[], 1]);
    expect(cluster.steps).not.toContain('forgetVm');
    expect(cluster.steps.at(-1)).toBe('tearDown');
  });
});

describe('a Node that is deleted while it is taken over', () => {
  it('has its Machine deleted at once, though the answer to what was written on it says so first', async () => {
    await start();
    await advanceUntil(async () => (await waitingFor()) === 'node node-1 to register');
    cluster.before = async (step) => {
      if (step !== 'syncNode') return;
      cluster.before = () => undefined;
      cluster.node = { ...cluster.node, deleting: true, resourceVersion: '2' } as typeof cluster.node;
    };
    await joinNode();
    const sinceMs = now();
    await advanceUntil(() => cluster.steps.includes('deleteMachine'));

    expect(now()).toBe(sinceMs);
  });
});

describe('a Node that was not ready when it was deleted', () => {
  /** Changes the Node, which its Machine hears. */
  async function changeNode(change: object): Promise<void> {
    if (cluster.node.state !== 'present') throw new Error('it has no Node');
    const resourceVersion = String(Number(cluster.node.resourceVersion) + 1);
    cluster.node = { ...cluster.node, ...change, resourceVersion };
    await observe();
  }

  const kept = () => cluster.written.filter(({ event }) => event?.reason === 'NodeKept');
  const isAsking = () => cluster.machine.request !== undefined;
  const bad = { conditions: { Ready: 'Unknown' } };
  const deleted = { deleting: true, deletedUnready: true };

  it.each([
    [3_600, 60],
    [20, 20],
  ])('has its Machine, whose health timeout is %d s, ask to be replaced after %d s', async (healthSeconds, seconds) => {
    touch({ limits: { ...cluster.machine.limits, healthSeconds } });
    await startAtRest();
    const sinceMs = now();
    await changeNode({ ...bad, ...deleted });
    await advanceUntil(isAsking);

    expect(now()).toBe(sinceMs + seconds * 1_000);
    expect(cluster.machine.stage).toBe('unhealthy');
  });

  it('has its Machine ask no later for its deletion if it is unhealthy for longer', async () => {
    touch({ limits: { ...cluster.machine.limits, healthSeconds: 3_600 } });
    await startAtRest();
    await changeNode(bad);
    await advance(600_000);
    const sinceMs = now();
    await changeNode(deleted);
    await advanceUntil(isAsking);

    expect(now()).toBe(sinceMs);
  });

  it('has its Machine wait for the health timeout when it was ready since', async () => {
    touch({ limits: { ...cluster.machine.limits, healthSeconds: 3_600 } });
    await startAtRest();
    await changeNode({ ...bad, ...deleted });
    await changeNode({ conditions: { Ready: 'True' } });
    await advanceUntil(() => cluster.machine.stage === 'running');
    await changeNode(bad);
    await advance(3_599_000);
    expect(isAsking()).toBe(false);
    await advance(1_000);
    expect(isAsking()).toBe(true);
  });

  it('has its Machine fail when the owner has decided so', async () => {
    await startAtRest();
    await changeNode({ ...bad, ...deleted });
    await advanceUntil(isAsking);

    touch({ request: { ...cluster.machine.request!, isGranted: true } });
    await observe(undefined, 3_600_000);
    await advanceUntil(() => cluster.machine.stage === 'failed');
    expect(cluster.written.at(-1)?.event?.note).toBe(
      'node node-1 (Ready is Unknown) was deleted while it was not ready',
    );
    expect(kept()).toHaveLength(1);
    expect(cluster.steps).not.toContain('deleteMachine');
  });

  it('has its Machine ask without a health timeout, too', async () => {
    const { healthSeconds: _, ...limits } = cluster.machine.limits;
    touch({ limits });
    await startAtRest();
    await changeNode({ ...bad, ...deleted });
    await advanceUntil(isAsking);

    expect(cluster.steps).not.toContain('deleteMachine');
  });

  it('[invariant 6 partly] has its Machine run when it is ready, also in another run, until the Machine is deleted', async () => {
    await startAtRest();
    await changeNode({ ...bad, ...deleted });
    await advanceUntil(isAsking);
    await changeNode({ conditions: { Ready: 'True' } });
    await advanceUntil(() => cluster.machine.stage === 'running');
    await workflow().terminate();
    await start();
    await advanceUntil(async () => (await described()).unblock === 'To delete the node, delete the Machine.');

    expect(await described()).toMatchObject({ doing: 'running, although its node was deleted' });
    expect(cluster.steps).not.toContain('deleteMachine');
    touch({ deletingSince: time() });
    await observe();
    await workflow().result();
    expect(cluster.removedNodes).toEqual(['node-1']);
    expect(cloud.deletions).toHaveLength(1);
  });

  it('[invariant 6 partly] keeps its Machine, also if its times say later that it was ready', async () => {
    await startAtRest();
    await changeNode({ ...bad, ...deleted });
    await advanceUntil(isAsking);
    await changeNode({ conditions: { Ready: 'True' }, deletedUnready: undefined });
    await advanceUntil(() => cluster.machine.stage === 'running');
    await advance(3_600_000);

    expect(cluster.steps).not.toContain('deleteMachine');
  });

  it('has its Machine ask although another cause of its not being ready is reported later', async () => {
    const { healthSeconds: _, ...limits } = cluster.machine.limits;
    touch({ limits });
    await startAtRest();
    await changeNode({ conditions: { Ready: 'False' }, ...deleted });
    await advanceUntil(isAsking);
    await changeNode(bad);
    await advance(600_000);

    expect(isAsking()).toBe(true);
  });

  it('has its Machine deleted when it is deleted again, after a backup from before its deletion', async () => {
    await startAtRest();
    await changeNode({ ...bad, ...deleted });
    await advanceUntil(() => kept().length > 0);
    await changeNode({ conditions: { Ready: 'True' }, deleting: false, deletedUnready: undefined });
    await advanceUntil(() => cluster.machine.stage === 'running');
    await changeNode({ deleting: true });
    await advanceUntil(() => cluster.steps.includes('deleteMachine'));
  });

  it('keeps its Machine if a backup has brought that back from before it joined', async () => {
    await startAtRest();
    touch({ stage: 'joining' });
    await changeNode({ ...bad, ...deleted });
    await advanceUntil(() => kept().length > 0);
    await advance(60_000);

    expect(cluster.steps).not.toContain('deleteMachine');
  });

  it('has its Machine deleted if that has not joined', async () => {
    await start();
    await advanceUntil(async () => (await waitingFor()) === 'node node-1 to register');
    registerNode();
    await changeNode({ ...bad, ...deleted });
    await advanceUntil(() => cluster.steps.includes('deleteMachine'));

    expect(kept()).toEqual([]);
  });

  it('has its VM replaced at once if its Machine wants that', async () => {
    touch({ onNodeDeleted: 'replaceVm' });
    await startRunning();
    await changeNode({ ...bad, ...deleted });
    await advanceUntil(() => cluster.steps.includes('forgetVm'));
  });
});

describe('a Node that is found by its provider ID', () => {
  it('gives its name to the Machine', async () => {
    const { nodeName: _, ...nameless } = vm;
    cloud.ensureVm = () => nameless;
    await start();
    await advanceUntil(async () => (await waitingFor()) === 'the cloud to name the node');
    await joinNode();
    await advanceUntil(async () => (await described()).doing === 'running');

    expect(cluster.machine).toMatchObject({ nodeName: 'node-1', providerID: vm.providerID });
    expect(cluster.synced.at(-1)).toMatchObject({ stage: 'running', nodeName: 'node-1' });
    touch({ deletingSince: time() });
    await observe();
    await workflow().result();
    expect(cluster.drainRequest).toMatchObject({ nodeName: 'node-1' });
    expect(cluster.removedNodes).toEqual(['node-1']);
  });
});
