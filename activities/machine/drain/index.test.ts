import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { CancelledFailure } from '@temporalio/activity';
import type { KubeClient } from '../../../kube/client.ts';
import { type Node, nodes, podDisruptionBudgets, pods, volumeAttachments } from '../../../kube/core.ts';
import { StatusError } from '../../../kube/errors.ts';
import { mergePatch } from '../../../kube/patch.ts';
import { startFaultProxy } from '../../../test/faults/proxy.ts';
import { createDrainedNode, type DrainedNode } from '../../../test/support/drained-node.ts';
import { inActivity } from '../../../test/support/in-activity.ts';
import { testClient, testKubeconfig } from '../../../test/support/kube.ts';
import { until } from '../../../test/support/until.ts';
import { type CancelledDrain, createDrainActivities, type DrainOutcome } from './index.ts';

const hour = 3_600_000;
let client: KubeClient;
let drained: DrainedNode;
let namespace: string;
let nodeName: string;

beforeAll(async () => {
  client = testClient();
});

beforeEach(async () => {
  drained = await createDrainedNode(client);
  ({ namespace, nodeName } = drained);
});

afterEach(async () => {
  jest.restoreAllMocks();
  await drained.stop();
});

afterAll(() => client.close());

const start: DrainedNode['start'] = (...args) => drained.start(...args);
const newPod: DrainedNode['newPod'] = (...args) => drained.newPod(...args);
const stateOf: DrainedNode['stateOf'] = (name) => drained.stateOf(name);
const untilTerminating: DrainedNode['untilTerminating'] = (name) => drained.untilTerminating(name);
const finish: DrainedNode['finish'] = (name) => drained.finish(name);
const newBudget: DrainedNode['newBudget'] = (...args) => drained.newBudget(...args);
const allow: DrainedNode['allow'] = (...args) => drained.allow(...args);

/** Waits until a drain has come back so often. */
async function untilBack(outcomes: readonly DrainOutcome[], times = 1): Promise<void> {
  await until(`it has come back ${times} times`, (see) => see(outcomes).length >= times);
}

/** A client that counts what is done to pods. */
function counting() {
  const tries = { evict: 0, delete: 0 };
  const target: KubeClient = {
    ...client,
    evict: async (...args) => {
      tries.evict += 1;
      await client.evict(...args);
    },
    delete: async (...args) => {
      tries.delete += 1;
      await client.delete(...args);
    },
  };
  return { target, tries };
}

/** Stops the clock of the drains shortly before a deadline, which is over when the test says so. */
function stopClock() {
  let nowMs = Date.now();
  const deadlineMs = nowMs + 300;
  jest.spyOn(Date, 'now').mockImplementation(() => nowMs);
  const pass = () => {
    nowMs = deadlineMs;
  };
  return { deadline: new Date(deadlineMs).toISOString(), pass };
}

/** Runs code as in an activity that a worker runs. */
describe('a drain', () => {
  it('[mcm 47 partly] [mcm 48] cordons the node, evicts all pods at once and ends when they are gone', async () => {
    const daemon = { apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'd', uid: 'd', controller: true };
    const replicas = { ...daemon, kind: 'ReplicaSet' };
    await newPod('daemon', { ownerReferences: [daemon] });
    await newPod('mirror', { annotations: { 'kubernetes.io/config.mirror': 'x' } });
    await newPod('unmanaged');
    await newPod('replicated', { ownerReferences: [replicas] });
    await newPod('related', { ownerReferences: [{ ...daemon, controller: false }] });

    const { target, tries } = counting();
    const { ended, beats } = start({}, { target });
    const evicted = ['unmanaged', 'replicated', 'related'];
    for (const name of evicted) await untilTerminating(name);
    expect(tries).toEqual({ evict: 3, delete: 0 });
    expect((await client.get(nodes, { name: nodeName })).spec?.unschedulable).toBe(true);
    const waitingFor = expect.arrayContaining([`${namespace}/related`]);
    expect(beats).toContainEqual({ podsLeft: 3, waitingFor, refusals: {} });

    for (const name of evicted) await finish(name);
    await ended;
    expect(beats.at(-1)).toEqual({ podsLeft: 0, waitingFor: [], refusals: {} });
    expect([await stateOf('daemon'), await stateOf('mirror')]).toEqual(['running', 'running']);
  });

  it('writes to the node in its first call alone, unless somebody has uncordoned it', async () => {
    await newBudget('still', 0);
    await newPod('still', { labels: { app: 'still' } });
    const { metadata } = await client.get(nodes, { name: nodeName });
    let writes = 0;
    const patch: KubeClient['patch'] = (resource, ...args) => {
      if (resource.kind === 'Node') writes += 1;
      return client.patch(resource, ...args);
    };
    const { outcomes, ended, cancel } = start({ nodeUid: metadata.uid }, { target: { ...client, patch } });
    await untilBack(outcomes, 4);
    expect(writes).toBe(2); // the cordon, and the condition

    await client.patch(nodes, { name: nodeName }, mergePatch({ spec: { unschedulable: null } }));
    await until('it is cordoned again', async () => {
      return (await client.get(nodes, { name: nodeName })).spec?.unschedulable === true;
    });
    expect(writes).toBe(3);
    cancel.abort();
    await expect(ended).rejects.toThrow();
  });

  it('[mcm 48 partly] lets one pod that may not go keep none of the others', async () => {
    await newBudget('blocked', 0);
    await newPod('blocked', { labels: { app: 'blocked' } });
    for (const name of ['a', 'b']) await newPod(name);
    const { ended, cancel } = start();
    for (const name of ['a', 'b']) await untilTerminating(name);
    expect(await stateOf('blocked')).toBe('running');
    cancel.abort();
    await expect(ended).rejects.toThrow();
  });

  it('[mcm 49 partly] asks again for what a PodDisruptionBudget refuses, says which, and goes on when it allows it', async () => {
    await newBudget('budget', 0);
    await newPod('guarded', { labels: { app: 'budget' } });
    const { target, tries } = counting();
    jest.spyOn(Date, 'now').mockReturnValue(Date.now()); // within a call nothing becomes due again
    const { ended, beats, outcomes } = start({}, { target });
    await until('it has come back four times', (see) => see(outcomes).length > 3);
    expect(outcomes[0]).toMatchObject({
      ...{ kind: 'blocked', budget: `${namespace}/budget`, podsLeft: 1, pods: [`${namespace}/guarded`] },
      retryMs: expect.any(Number),
    });
    expect(Object.values(outcomes[2] && 'refusals' in outcomes[2] ? outcomes[2].refusals : {})).toEqual([3]);
    const said = beats.flatMap(({ waitingFor }) => waitingFor);
    expect(said).toContainEqual(expect.stringContaining(`${namespace}/guarded`));
    expect(tries).toMatchObject({ delete: 0 });
    expect(await stateOf('guarded')).toBe('running');

    await allow('budget', 1);
    await untilTerminating('guarded');
    await finish('guarded');
    await ended;
    expect(outcomes.at(-1)).toEqual({ kind: 'drained' });
  });

  it('[mcm 49 partly] deletes a pod with its grace period when a budget has refused it too often', async () => {
    await newBudget('budget', 0);
    for (const name of ['guarded', 'other']) await newPod(name, { labels: { app: 'budget' } });
    const { target, tries } = counting();
    const { ended } = start({ maxEvictRetries: 2 }, { target });
    for (const name of ['guarded', 'other']) await untilTerminating(name);
    // Two pods, each with a first try and two more.
    expect(tries).toEqual({ evict: 6, delete: 2 });
    for (const name of ['guarded', 'other']) await finish(name);
    await ended;
  });

  it('[mcm 49 partly] goes on with the counts of the attempt that its worker did not end', async () => {
    await newBudget('budget', 0);
    await newPod('guarded', { labels: { app: 'budget' } });
    const { metadata } = await client.get(pods, { namespace, name: 'guarded' });
    const { target, tries } = counting();
    const { drainNode } = createDrainActivities(drained.depsOf({ target }));
    const heartbeatDetails = { podsLeft: 1, waitingFor: [], refusals: { [metadata.uid]: 3 } };
    const info = { attempt: 2, currentAttemptScheduledTimestampMs: Date.now(), heartbeatDetails };
    const ended = inActivity(info, () => drainNode(drained.requestOf({ maxEvictRetries: 2 })));
    await untilTerminating('guarded');
    expect(tries).toEqual({ evict: 0, delete: 1 });
    await finish('guarded');
    expect(await ended).toEqual({ kind: 'drained' });
  });

  it('[mcm 49 partly] hands its counts on when it is cancelled, but not when its worker ends: then its heartbeat has them', async () => {
    await newBudget('budget', 0);
    await newPod('guarded', { labels: { app: 'budget' } });
    await newPod('slow');
    const { metadata } = await client.get(pods, { namespace, name: 'guarded' });
    const { target: counted, tries } = counting();
    const target: KubeClient = {
      ...counted,
      // Without an answer the drain goes on, and does not come back to wait for the budget.
      evict: (pod, ...args) => (pod.name === 'slow' ? new Promise(() => {}) : counted.evict(pod, ...args)),
    };
    const { drainNode } = createDrainActivities(drained.depsOf({ target }));
    const endedBy = async (reason: string) => {
      const tried = tries.evict;
      const cancel = new AbortController();
      const info = { scheduledTimestampMs: Date.now(), currentAttemptScheduledTimestampMs: Date.now() };
      const ended = inActivity(info, () => drainNode(drained.requestOf()), cancel.signal);
      ended.catch(() => undefined);
      await until('it was refused at least once', async (see) => see(tries.evict) > tried + 1);
      cancel.abort(new CancelledFailure(reason));
      return ended.catch((error: unknown) => error);
    };

    const [detail] = ((await endedBy('CANCELLED')) as CancelledFailure).details as [CancelledDrain];
    expect(detail.refusals[metadata.uid]).toBeGreaterThanOrEqual(1);
    expect(await endedBy('WORKER_SHUTDOWN')).not.toHaveProperty('details', [expect.anything()]);
  });

  it('[mcm 49 partly] counts on when something else than a budget refuses the eviction in between', async () => {
    await newBudget('budget', 0);
    await newPod('guarded', { labels: { app: 'budget' } });
    const { target, tries } = counting();
    let calls = 0;
    const flapping: KubeClient = {
      ...target,
      evict: async (...args) => {
        calls += 1;
        if (calls % 2 === 0) throw new Error('out of order');
        await target.evict(...args);
      },
    };
    const { ended, outcomes } = start({ maxEvictRetries: 2 }, { target: flapping });
    await untilTerminating('guarded');

    expect(tries).toEqual({ evict: 3, delete: 1 });
    await finish('guarded');
    await ended;
    expect(outcomes.at(-1)).toEqual({ kind: 'drained' });
  });

  for (const { wasUnhealthy, reason } of [
    { wasUnhealthy: true, reason: 'Unhealthy' },
    { wasUnhealthy: false, reason: 'ScaleDown' },
    { wasUnhealthy: undefined, reason: 'ScaleDown' },
  ]) {
    it(`[mcm 46] says ${reason} on the cordoned node before it evicts (unhealthy: ${wasUnhealthy})`, async () => {
      await newPod('pod');
      let node: Node | undefined;
      const target: KubeClient = {
        ...client,
        evict: async (...args) => {
          node = await client.get(nodes, { name: nodeName });
          await client.evict(...args);
        },
      };
      const { ended } = start(wasUnhealthy === undefined ? {} : { wasUnhealthy }, { target });
      await untilTerminating('pod');
      await finish('pod');
      await ended;
      expect(node?.spec?.unschedulable).toBe(true);
      expect(node?.status?.conditions).toEqual([
        expect.objectContaining({ type: 'Terminating', status: 'True', reason }),
      ]);

      // What is repeated by somebody who has forgotten why changes nothing.
      await start().ended;
      expect((await client.get(nodes, { name: nodeName })).status?.conditions).toEqual(node?.status?.conditions);
    });
  }

  it('does not read a node that it knows by its UID, and reads one that has another UID by now', async () => {
    const { metadata } = await client.get(nodes, { name: nodeName });
    const target: KubeClient = Object.create(client, { find: { value: () => Promise.reject(new Error('a read')) } });
    await start({ nodeUid: metadata.uid }, { target }).ended;
    expect((await client.get(nodes, metadata)).spec?.unschedulable).toBe(true);

    await client.patch(nodes, metadata, mergePatch({ spec: { unschedulable: null, providerID: 'a:///b/theirs' } }));
    await start({ nodeUid: 'of-an-earlier-node', providerID: 'a:///b/ours' }).ended;
    expect((await client.get(nodes, metadata)).spec?.unschedulable).toBeUndefined();
  });

  it('leaves the pods of other nodes alone', async () => {
    await client.create(pods, {
      metadata: { namespace, name: 'elsewhere' },
      spec: { nodeName: 'another-node', containers: [{ name: 'c', image: 'i' }] },
    });
    await newPod('here');
    const { ended } = start();
    await untilTerminating('here');
    await finish('here');
    await ended;
    expect(await stateOf('elsewhere')).toBe('running');
  });

  it('[mcm 44 partly] is done with an empty node, and with one that does not exist', async () => {
    await start().ended;
    await start({ nodeName: 'no-such-node' }).ended;
    await start({ nodeName: 'no-such-node', force: true }).ended;
  });

  it.each([{}, { force: true }])(
    'leaves the node of another VM alone, which has taken its name (%j)',
    async (change) => {
      await client.patch(nodes, { name: nodeName }, mergePatch({ spec: { providerID: 'cloud:///theirs' } }));
      await newPod('theirs');
      await start({ ...change, providerID: 'cloud:///ours' }).ended;
      expect((await client.get(nodes, { name: nodeName })).spec).not.toHaveProperty('unschedulable');
      expect(await stateOf('theirs')).toBe('running');

      await start({ ...change, providerID: 'cloud:///theirs', force: true }).ended;
      expect((await client.get(nodes, { name: nodeName })).spec).toMatchObject({ unschedulable: true });
      expect(await stateOf('theirs')).toBe('gone');
    },
  );

  it.each([{}, { force: true }])(
    'leaves a node alone that has no provider ID and is older than the machine (%j)',
    async (change) => {
      const { metadata } = await client.get(nodes, { name: nodeName });
      const nodeNotBefore = new Date(Date.parse(metadata.creationTimestamp) + 1_000).toISOString();
      await newPod('theirs');
      await start({ ...change, providerID: 'cloud:///ours', nodeNotBefore }).ended;
      expect((await client.get(nodes, { name: nodeName })).spec).not.toHaveProperty('unschedulable');
      expect(await stateOf('theirs')).toBe('running');
    },
  );

  /** Replaces the node of the test by that of another VM, which has taken its name, with a pod. */
  async function replaceNode(pod: string): Promise<void> {
    await client.delete(nodes, { name: nodeName });
    await client.create(nodes, { metadata: { name: nodeName }, spec: { providerID: 'cloud:///theirs' } });
    await newPod(pod);
  }

  it('leaves it alone, too, when it takes the name while the node is drained', async () => {
    await newPod('slow');
    const { ended, outcomes } = start({ providerID: 'cloud:///ours' });
    await untilTerminating('slow');
    await replaceNode('theirs');
    await ended;
    expect(outcomes).toEqual([{ kind: 'drained' }]);
    expect(await stateOf('theirs')).toBe('running');
    expect((await client.get(nodes, { name: nodeName })).spec).not.toHaveProperty('unschedulable');
  });

  it('leaves it alone, too, at the deadline', async () => {
    await newPod('slow');
    const { deadline, pass } = stopClock();
    const late: KubeClient = {
      ...client,
      evict: async (...args) => {
        await client.evict(...args);
        await client.delete(nodes, { name: nodeName });
        await client.create(nodes, { metadata: { name: nodeName }, spec: { providerID: 'cloud:///theirs' } });
        pass();
      },
    };
    await start({ providerID: 'cloud:///ours', deadline }, { target: late }).ended;
    expect(await stateOf('slow')).toBe('terminating');
  });

  it('cordons the node again when a pod arrives because somebody has uncordoned it', async () => {
    await newPod('slow');
    const { ended } = start();
    await untilTerminating('slow');
    await client.patch(nodes, { name: nodeName }, mergePatch({ spec: { unschedulable: null } }));
    await newPod('late');
    await untilTerminating('late');
    expect((await client.get(nodes, { name: nodeName })).spec?.unschedulable).toBe(true);
    for (const name of ['slow', 'late']) await finish(name);
    await ended;
  });

  it('may be repeated: what is terminating is waited for and not evicted again', async () => {
    await newPod('slow');
    await client.delete(pods, { namespace, name: 'slow' });
    const { target, tries } = counting();
    const { ended, beats } = start({}, { target });
    await until('it has begun', () => beats.length > 0);
    await newPod('late');
    await untilTerminating('late');
    await finish('late');
    await until('one pod is left', (see) => see(beats.at(-1))?.podsLeft === 1);
    // It looks when there is news: what happened here is a handful of events.
    expect(beats.length).toBeLessThan(20);
    await finish('slow');
    await ended;
    expect(tries.evict).toBe(1);
  });

  it('evicts again what failed for another reason', async () => {
    await newPod('unlucky');
    let tries = 0;
    let isAllowed = false;
    const failing: KubeClient = {
      ...client,
      evict: async (...args) => {
        tries += 1;
        if (!isAllowed) throw new Error(`refused ${Math.min(tries, 2)}`);
        await client.evict(...args);
      },
    };
    const { ended, beats } = start({}, { target: failing });
    await until('it was refused twice', (see) =>
      see(beats).some(({ waitingFor }) => waitingFor[0]?.endsWith('unlucky: refused 2') === true),
    );
    isAllowed = true;
    await untilTerminating('unlucky');
    await finish('unlucky');
    await ended;
  });
});

it('a pod that becomes due in the middle of a look is evicted in the next one', async () => {
  await newPod('unlucky');
  let nowMs = Date.now();
  jest.spyOn(Date, 'now').mockImplementation(() => nowMs);
  let tries = 0;
  let nextBeat = Promise.withResolvers<void>();
  const failing: KubeClient = {
    ...client,
    evict: async (...args) => {
      tries += 1;
      await nextBeat.promise; // the look that asks for it is over when it is answered
      // So often that a drain that waits for its next look at the Node each time takes longer than the test waits.
      if (tries < 20) throw new Error('refused');
      await client.evict(...args);
    },
  };
  const { ended } = start(
    {},
    {
      target: failing,
      evictionRetryMs: 50,
      onBeat: ({ waitingFor }) => {
        nextBeat.resolve();
        nextBeat = Promise.withResolvers();
        if (waitingFor[0]?.endsWith('refused')) nowMs += 100;
      },
    },
  );
  await untilTerminating('unlucky');
  await finish('unlucky');
  await ended;
});

it.each([-3, 3])('goes on as before where the clock of its worker steps by %d h', async (hours) => {
  await newBudget('budget', 0);
  await newPod('guarded', { labels: { app: 'budget' } });
  await newPod('slow');
  const { target: counted, tries } = counting();
  const target: KubeClient = {
    ...counted,
    // Without an answer the drain goes on, and does not come back to wait for the budget.
    evict: (pod, ...args) => (pod.name === 'slow' ? new Promise(() => {}) : counted.evict(pod, ...args)),
  };
  const { drainNode } = createDrainActivities(drained.depsOf({ target }));
  const cancel = new AbortController();
  const info = { attempt: 1, currentAttemptScheduledTimestampMs: Date.now() };
  const ended = inActivity(info, () => drainNode(drained.requestOf()), cancel.signal);
  await until('it has asked', (see) => see(tries).evict > 0);
  const steppedMs = Date.now() + hours * hour;
  jest.spyOn(Date, 'now').mockImplementation(() => steppedMs);
  const { evict } = tries;
  await until('it has asked again, or has given up on the pods', (see) => {
    return see(tries).evict > evict + 2 || tries.delete > 0;
  });
  expect([tries.delete, await stateOf('guarded')]).toEqual([0, 'running']);
  cancel.abort();
  await expect(ended).rejects.toThrow();
});

describe('a drain that makes no progress', () => {
  it('comes back once, after the grace period, with what keeps the pods, and again when that has changed', async () => {
    const now = jest.spyOn(Date, 'now').mockReturnValue(Date.now());
    await newPod('held', { finalizers: ['test/held'] });
    await newPod('slow', {}, { terminationGracePeriodSeconds: 3_600 });
    const { ended, beats, outcomes } = start({}, { stuckAfterMs: 60_000 });
    for (const name of ['held', 'slow']) await untilTerminating(name);
    const { metadata } = await client.get(pods, { namespace, name: 'held' });
    const graceEndMs = Date.parse(`${metadata.deletionTimestamp}`);
    const lookAt = async (ms: number) => {
      now.mockReturnValue(ms);
      const looks = beats.length;
      await client.patch(pods, { namespace, name: 'held' }, mergePatch({ metadata: { labels: { at: `${ms}` } } }));
      await until('it has looked again', (see) => see(beats).length > looks);
    };
    await lookAt(graceEndMs + 60_000);
    expect(outcomes).toEqual([]); // the slow one may end for an hour
    now.mockReturnValue(graceEndMs);
    await finish('slow');
    await until('one pod is left', (see) => see(beats.at(-1))?.podsLeft === 1);
    await lookAt(graceEndMs + 59_999);
    expect(outcomes).toEqual([]);
    await lookAt(graceEndMs + 60_000);
    await untilBack(outcomes);
    const waitingFor = expect.stringMatching(
      /held to end, which should have ended by \S+Z and has the finalizers test\/held$/,
    );
    expect(outcomes).toEqual([{ kind: 'stuck', reported: expect.any(String), waitingFor: [waitingFor], refusals: {} }]);

    await newPod('other');
    await untilBack(outcomes, 2);
    expect(outcomes[1]).toEqual({ kind: 'goesOn', refusals: {} });
    await untilTerminating('other');
    await client.patch(pods, { namespace, name: 'held' }, mergePatch({ metadata: { finalizers: null } }));
    for (const name of ['held', 'other']) await finish(name).catch(() => undefined);
    await ended;
    expect(outcomes.at(-1)).toEqual({ kind: 'drained' });
  });

  it('comes back at once with what the API server refuses, while the other pods go on, and again when that is allowed', async () => {
    let isAllowed = false;
    const target: KubeClient = {
      ...client,
      evict: async (pod, ...args) => {
        if (pod.name === 'busy') throw new StatusError('POST', 429, { message: 'too many requests' });
        if (pod.name === 'walled' && !isAllowed) throw new StatusError('POST', 500, { message: 'no webhook answers' });
        await client.evict(pod, ...args);
      },
    };
    for (const name of ['walled', 'slow', 'busy']) await newPod(name);
    const { ended, outcomes, cancel } = start({}, { target, evictionRetryMs: 50 });
    await untilBack(outcomes);
    const waitingFor = [`${namespace}/walled: POST: 500: no webhook answers`];
    const refused = { kind: 'stuck', reported: expect.any(String), isRefused: true, waitingFor, refusals: {} };
    expect(outcomes).toEqual([refused]);

    await untilTerminating('slow');
    await finish('slow');
    expect(outcomes).toHaveLength(1); // another pod that leaves is no news of this one
    isAllowed = true;
    await untilBack(outcomes, 2);
    expect(outcomes[1]).toEqual({ kind: 'goesOn', refusals: {} });
    cancel.abort();
    await expect(ended).rejects.toThrow();
  });

  it('is not blocked on a budget while the API server refuses another pod', async () => {
    await newBudget('budget', 0);
    await newPod('guarded', { labels: { app: 'budget' } });
    await newPod('walled');
    const target: KubeClient = {
      ...client,
      evict: async (pod, ...args) => {
        if (pod.name === 'walled') throw new StatusError('POST', 403, { message: 'not yours' });
        await client.evict(pod, ...args);
      },
    };
    const { ended, outcomes, beats, cancel } = start({}, { target, evictionRetryMs: 50 });
    await until('the budget has refused it some times', (see) =>
      Object.values(see(beats).at(-1)?.refusals ?? {}).some((count) => count > 3),
    );
    expect(outcomes).toMatchObject([{ kind: 'stuck', isRefused: true }]);
    cancel.abort();
    await expect(ended).rejects.toThrow();
  });

  it('says that its pods cannot be watched, comes back once when that lasts, and again when they can', async () => {
    await newPod('unwatched');
    let isWatchable = false;
    const target: KubeClient = {
      ...client,
      pages: (...args) => {
        if (!isWatchable) throw new Error('out of order');
        return client.pages(...args);
      },
    };
    const { ended, outcomes, beats } = start({}, { target, stuckAfterMs: 100 });
    await untilBack(outcomes);
    const waitingFor = ['the watch of the pods of the node to begin'];
    expect(beats[0]).toEqual({ podsLeft: 1, waitingFor, refusals: {} });
    expect(outcomes).toEqual([{ kind: 'stuck', reported: 'noAnswer', waitingFor, refusals: {} }]);

    isWatchable = true;
    await untilTerminating('unwatched');
    await untilBack(outcomes, 2);
    expect(outcomes[1]).toEqual({ kind: 'goesOn', refusals: {} });
    await finish('unwatched');
    await ended;
  });

  it('comes back once when the API server has not answered for 30 s', async () => {
    const target: KubeClient = { ...client, find: () => Promise.reject(new Error('out of order')) };
    const { drainNode } = createDrainActivities({ ...drained.depsOf({ target, stuckAfterMs: 600_000 }) });
    const drainAfter = (waitedMs: number, reported?: string) => {
      const info = { scheduledTimestampMs: Date.now() - waitedMs, currentAttemptScheduledTimestampMs: Date.now() };
      const request = drained.requestOf({ purpose: 'preservation', ...(reported !== undefined && { reported }) });
      return inActivity(info, () => drainNode(request));
    };
    await expect(drainAfter(29_000)).rejects.toThrow('out of order');
    const stuck = { kind: 'stuck', reported: 'noAnswer', waitingFor: ['out of order'], refusals: {} };
    expect(await drainAfter(30_000)).toEqual(stuck);
    await expect(drainAfter(30_000, 'noAnswer')).rejects.toThrow('out of order');
  });
});

describe('force', () => {
  it('deletes what is left at the deadline without grace', async () => {
    await newBudget('budget', 0);
    await newPod('guarded', { labels: { app: 'budget' } });
    await newPod('slow');
    await newPod('mirror', { annotations: { 'kubernetes.io/config.mirror': 'x' } });
    const { deadline, pass } = stopClock();
    const { ended } = start({ deadline });
    await untilTerminating('slow');
    pass();
    await ended;
    expect([await stateOf('guarded'), await stateOf('slow'), await stateOf('mirror')]).toEqual([
      'gone',
      'gone',
      'running',
    ]);
  });

  it('deletes them at the deadline, too, when the API server falls silent before the pods can be watched', async () => {
    await newPod('unwatched');
    const proxy = await startFaultProxy(testKubeconfig());
    const target = testClient(proxy.access);
    const { deadline, pass } = stopClock();
    let lists = 0;
    proxy.setRule(({ method, url }) => {
      const isList = method === 'GET' && url.pathname === '/api/v1/pods';
      if (!isList || ++lists !== 2) return undefined; // the first finds pods, the third deletes them
      pass();
      return { kind: 'hang' };
    });
    try {
      await start({ deadline }, { target }).ended;

      expect(lists).toBe(3);
      expect(await stateOf('unwatched')).toBe('gone');
    } finally {
      await target.close();
      await proxy.close();
    }
  });

  it('deletes them, too, when the API server answers with an error only past the deadline', async () => {
    await newPod('unlisted');
    const { deadline, pass } = stopClock();
    let hasFailed = false;
    const target: KubeClient = {
      ...client,
      list: async (...args) => {
        if (hasFailed) return client.list(...args);
        hasFailed = true;
        pass();
        throw new Error('out of order');
      },
    };
    await start({ deadline }, { target }).ended;
    expect(hasFailed).toBe(true);
    expect(await stateOf('unlisted')).toBe('gone');
  });

  it.each([24, -24])(
    'comes neither sooner nor later on a worker whose clock is %i h ahead of that of Temporal',
    async (hours) => {
      await newBudget('budget', 0);
      await newPod('guarded', { labels: { app: 'budget' } });
      const { drainNode } = createDrainActivities(drained.depsOf());
      const drainWithin = (timeoutMs: number) => {
        const scheduledMs = Date.now() - hours * hour;
        const deadline = new Date(scheduledMs + timeoutMs).toISOString();
        const info = { attempt: 1, currentAttemptScheduledTimestampMs: scheduledMs };
        return inActivity(info, () => drainNode(drained.requestOf({ deadline })));
      };
      expect(await drainWithin(hour)).toMatchObject({ kind: 'blocked' });
      expect(await stateOf('guarded')).toBe('running');
      expect(await drainWithin(0)).toEqual({ kind: 'drained', left: `1 pod left: ${namespace}/guarded` });
      expect(await stateOf('guarded')).toBe('gone');
    },
  );

  it('deletes all pods at once when it is asked for, whatever the budgets say', async () => {
    const daemon = { apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'd', uid: 'd', controller: true };
    await newBudget('budget', 0);
    await newPod('guarded', { labels: { app: 'budget' } });
    await newPod('daemon', { ownerReferences: [daemon] });
    await start({ force: true }).ended;
    expect([await stateOf('guarded'), await stateOf('daemon')]).toEqual(['gone', 'running']);
    expect((await client.get(nodes, { name: nodeName })).spec?.unschedulable).toBe(true);
  });

  it('[mcm 56 partly] deletes the other pods and the volume attachments when the API server refuses the cordon and a pod', async () => {
    for (const name of ['kept', 'goes']) await newPod(name);
    await client.create(volumeAttachments, {
      metadata: { name: `va-${nodeName}` },
      spec: { attacher: 'test', nodeName, source: { persistentVolumeName: 'pv' } },
    });
    const target: KubeClient = {
      ...client,
      patch: () => Promise.reject(new Error('a webhook refuses it')),
      delete: async (resource, key, ...rest) => {
        if (key.name === 'kept') throw new Error('a webhook refuses it');
        await client.delete(resource, key, ...rest);
      },
    };
    await start({ force: true }, { target }).ended;
    expect([await stateOf('kept'), await stateOf('goes')]).toEqual(['running', 'gone']);
    expect(await client.find(volumeAttachments, { name: `va-${nodeName}` })).toBeUndefined();
  });

  it('asks once for the end of pods and volume attachments that the API server does not delete', async () => {
    await newPod('kept');
    const attachment = { name: `va-${nodeName}` };
    await client.create(volumeAttachments, {
      metadata: attachment,
      spec: { attacher: 'test', nodeName, source: { persistentVolumeName: 'pv' } },
    });
    const asked: string[] = [];
    const target: KubeClient = { ...client, delete: async (_, { name }) => void asked.push(name) };
    await start({ force: true }, { target }).ended;
    expect(asked).toEqual(['kept', attachment.name]);
    await client.delete(volumeAttachments, attachment);
  });

  it('does not wait for pods that others hold back', async () => {
    await newPod('held', { finalizers: ['example.com/held'] });
    await start({ force: true }).ended;
    expect(await stateOf('held')).toBe('terminating');
  });
});

describe('cancellation', () => {
  it('ends a drain promptly, while it waits and while an eviction is under way', async () => {
    await newPod('slow');
    const waiting = start();
    await untilTerminating('slow');
    waiting.cancel.abort(new Error('enough'));
    await expect(waiting.ended).rejects.toThrow('enough');

    await newPod('hanging');
    const hanging: { signal?: AbortSignal } = {};
    const target: KubeClient = {
      ...client,
      evict: (_, { signal } = {}) =>
        new Promise((__, reject) => {
          if (signal === undefined) throw new Error('the eviction cannot be cancelled');
          hanging.signal = signal;
          signal.addEventListener('abort', () => reject(signal.reason));
        }),
    };
    const evicting = start({}, { target });
    await until('the eviction is under way', () => hanging.signal !== undefined);
    evicting.cancel.abort(new Error('enough'));
    await expect(evicting.ended).rejects.toThrow('enough');
    expect(hanging.signal?.aborted).toBe(true);
    expect(await stateOf('hanging')).toBe('running');
  });
});

describe('a node that was not well for 5 min', () => {
  const condition = (type: string, status: string, minutes: number) => {
    const lastTransitionTime = new Date(Date.now() - minutes * 60_000).toISOString().replace(/\.\d+/, '');
    return { type, status, lastTransitionTime, lastHeartbeatTime: lastTransitionTime, reason: 'Test', message: '' };
  };
  const setConditions = (...conditions: object[]) =>
    client.patch(nodes, { name: nodeName }, mergePatch({ status: { conditions } }), { subresource: 'status' });

  it.each([
    ['not ready', condition('Ready', 'Unknown', 6)],
    ['read-only', condition('ReadonlyFilesystem', 'True', 6)],
  ])(
    '[mcm 55] [mcm 56 partly] loses its pods without grace, budget or wait, and its volume attachments: %s',
    async (_, bad) => {
      await newBudget('guarded', 0);
      await newPod('guarded', { labels: { app: 'guarded' } });
      const attachment = (of: string) => ({
        metadata: { name: `va-${of}` },
        spec: { attacher: 'test', nodeName: of, source: { persistentVolumeName: 'pv' } },
      });
      await client.create(volumeAttachments, attachment(nodeName));
      await client.create(volumeAttachments, attachment(`${nodeName}-2`));
      await setConditions(bad);

      const { ended, outcomes } = start();
      await ended;
      expect(outcomes).toEqual([{ kind: 'drained' }]);
      expect(await stateOf('guarded')).toBe('gone');
      expect(await client.find(volumeAttachments, { name: `va-${nodeName}` })).toBeUndefined();
      expect(await client.find(volumeAttachments, { name: `va-${nodeName}-2` })).toBeDefined();
      await client.delete(volumeAttachments, { name: `va-${nodeName}-2` });
    },
  );

  it.each([24, -24])('is judged by the clock of Temporal, where that of the worker is %i h ahead', async (hours) => {
    await newBudget('guarded', 0);
    await newPod('guarded', { labels: { app: 'guarded' } });
    const scheduledMs = Date.now() - hours * hour;
    const info = { attempt: 1, currentAttemptScheduledTimestampMs: scheduledMs };
    const deadline = new Date(scheduledMs + hour).toISOString();
    const { drainNode } = createDrainActivities(drained.depsOf());
    const drainAt = async (minutes: number) => {
      await setConditions(condition('Ready', 'Unknown', hours * 60 + minutes));
      return inActivity(info, () => drainNode(drained.requestOf({ deadline })));
    };

    expect(await drainAt(4)).toMatchObject({ kind: 'blocked' });
    expect(await drainAt(6)).toEqual({ kind: 'drained' });
  });

  it('is drained as any other before that, and its volume attachments stay', async () => {
    await client.create(volumeAttachments, {
      metadata: { name: `va-${nodeName}` },
      spec: {
        attacher: 'test',
        nodeName,
        source: { inlineVolumeSpec: { accessModes: ['ReadWriteOnce'], csi: { driver: 'test', volumeHandle: 'v' } } },
      },
    });
    await newPod('app');
    await setConditions(condition('Ready', 'False', 4), condition('ReadonlyFilesystem', 'False', 60));
    const { ended } = start();
    await untilTerminating('app');
    await finish('app');
    await ended;
    expect(await client.find(volumeAttachments, { name: `va-${nodeName}` })).toBeDefined();
    await client.delete(volumeAttachments, { name: `va-${nodeName}` });
  });
});

describe('a budget that can never allow an eviction', () => {
  it('[mcm 50 partly] is told from one that may allow it later', async () => {
    await newBudget('never', 0);
    await newPod('never', { labels: { app: 'never' } });
    const { outcomes, cancel } = start();
    await untilBack(outcomes);
    cancel.abort();
    expect(outcomes[0]).toMatchObject({
      kind: 'blocked',
      budget: `${namespace}/never`,
      mistake: expect.stringMatching(/^it requires zero voluntary evictions/),
    });

    await client.patch(
      podDisruptionBudgets,
      { namespace, name: 'never' },
      mergePatch({ status: { currentHealthy: 1, expectedPods: 2 } }),
      { subresource: 'status' },
    );
    const later = start();
    await untilBack(later.outcomes);
    later.cancel.abort();
    expect(later.outcomes[0]).toMatchObject({ kind: 'blocked', budget: `${namespace}/never` });
    expect(later.outcomes[0]).not.toHaveProperty('mistake');
  });

  it('[mcm 50 partly] is named before one that may', async () => {
    for (const name of ['a-later', 'never']) {
      await newBudget(name, 0);
      await newPod(name, { labels: { app: name } });
    }
    await client.patch(
      podDisruptionBudgets,
      { namespace, name: 'a-later' },
      mergePatch({ status: { currentHealthy: 1, expectedPods: 2 } }),
      { subresource: 'status' },
    );
    const { outcomes, cancel } = start();
    await untilBack(outcomes);
    cancel.abort();
    expect(outcomes[0]).toMatchObject({
      ...{ kind: 'blocked', budget: `${namespace}/never`, podsLeft: 2 },
      mistake: expect.stringMatching(/^it requires zero voluntary evictions/),
    });
  });

  it('is named together with the other one of the same pod', async () => {
    const labels = { app: 'one', tier: 'web' };
    await newBudget('one', 1);
    await client.create(podDisruptionBudgets, {
      metadata: { namespace, name: 'two' },
      spec: { selector: { matchExpressions: [{ key: 'tier', operator: 'In', values: ['web'] }] }, maxUnavailable: 1 },
    });
    await client.create(podDisruptionBudgets, {
      metadata: { namespace, name: 'three' },
      spec: { selector: { matchLabels: { of: 'daemon' } }, maxUnavailable: 1 },
    });
    // Stays, and has two as well.
    const daemon = { apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'd', uid: 'd', controller: true };
    await newPod('a-daemon', { labels: { app: 'one', of: 'daemon' }, ownerReferences: [daemon] });
    await newPod('twice', { labels });
    const { outcomes, cancel } = start();
    await untilBack(outcomes);
    cancel.abort();
    expect(outcomes[0]).toMatchObject({
      kind: 'blocked',
      budget: `${namespace}/one and ${namespace}/two`,
      mistake: expect.stringMatching(/^the pod has more than one/),
    });
  });
});
