/** A Machine whose Node is unhealthy for longer than its health timeout. */
import { describe, expect, it } from '@jest/globals';
import { ApplicationFailure } from '@temporalio/activity';
import type { MachineSnapshot } from '../../../api/model/machine.ts';
import { setUpMachine, vm } from '../../../test/support/played-machine.ts';
import { refreshSignal } from '../../messages.ts';

const {
  advance,
  beDown,
  cloud,
  cluster,
  described,
  joinNode,
  observe,
  registerNode,
  start,
  startAtRest,
  touch,
  advanceUntil,
  workflow,
} = setUpMachine();

const healthSeconds = 2;
/** Longer than any test. */
const ever = 3_600_000;

/** Starts a machine at rest whose Node becomes unhealthy then. */
async function startUnhealthy(seconds = healthSeconds): Promise<void> {
  touch({ limits: { ...cluster.machine.limits, healthSeconds: seconds } });
  await startAtRest();
  await setReady('Unknown');
  await advanceUntil(() => cluster.machine.stage === 'unhealthy');
}

async function setReady(status: string): Promise<void> {
  if (cluster.node.state !== 'present') throw new Error('it has no Node');
  const resourceVersion = String(Number(cluster.node.resourceVersion) + 1);
  cluster.node = { ...cluster.node, resourceVersion, conditions: { Ready: status } };
  await observe();
}

const untilAsked = () => advanceUntil(() => cluster.machine.request !== undefined);
const doing = async () => (await described()).doing;

async function grant(watchedMs: number): Promise<void> {
  const { request } = cluster.machine;
  if (request === undefined) throw new Error('it does not ask');
  touch({ request: { ...request, isGranted: true } });
  await observe(undefined, watchedMs);
}

it('says that nobody replaces it, and is that of no deployment, once its set has released it', async () => {
  const shown = async () => (await workflow().describe()).searchAttributes['MillwrightDeployment'];
  cluster.deployment = 'pool';
  await startUnhealthy();
  expect(await shown()).toEqual(['pool']);
  expect((await described()).unblock).toContain('Delete the Machine to have another one.');

  cluster.deployment = undefined;
  touch({ alone: true });
  await observe();

  await advanceUntil(async () => !(await shown())?.[0]);
  await advanceUntil(async () => (await described()).unblock?.includes('No MachineSet owns this Machine') === true);
});

describe('a Machine that names a VM and was restored without status', () => {
  /** Its Node is missing, as a kubelet registers it only at its start, or not ready. */
  async function restore(ready?: string): Promise<void> {
    touch({ limits: { ...cluster.machine.limits, healthSeconds, creationSeconds: 1 }, providerID: 'x:///vm-1' });
    touch({ managed: true, finalizers: ['ours'], nodeName: 'node-1' });
    if (ready !== undefined) {
      registerNode();
      if (cluster.node.state === 'present') cluster.node = { ...cluster.node, conditions: { Ready: ready } };
    }
    await start();
  }

  it.each([
    ['is missing', undefined],
    ['is not ready', 'Unknown'],
  ])('asks its owner to be replaced when its Node %s, and does not fail by itself', async (_, ready) => {
    await restore(ready);
    await advanceUntil(() => cluster.machine.stage === 'unhealthy');
    await untilAsked();
    await observe(undefined, ever);
    expect(cluster.written.map(({ stage }) => stage)).not.toContain('failed');
    expect(cloud.asked).toEqual([]);
  });

  it('is reported with its VM where the name of its Node is not known', async () => {
    touch({ managed: true, finalizers: ['ours'], providerID: 'x:///vm-1' });
    await start();

    await advanceUntil(() => cluster.machine.stage === 'unhealthy');

    expect(cluster.written.map(({ event }) => event?.note)).toContainEqual(
      expect.stringMatching(
        /^The Machine was restored .*, and node of VM x:\/\/\/vm-1 \(its name is not known\) is not healthy$/,
      ),
    );
  });

  it('runs at once when its Node is healthy', async () => {
    await restore('True');
    await advanceUntil(() => cluster.machine.stage === 'running');
    expect(cluster.written.map(({ stage }) => stage)).not.toContain('unhealthy');
  });
});

it('a Machine that has lost its run before its first status was written has its creation timeout', async () => {
  const limits = { ...cluster.machine.limits, healthSeconds, creationSeconds: 600 };
  const named = { managed: true, finalizers: ['ours'], providerID: vm.providerID, nodeName: 'node-1' };
  touch({ limits, ...named, nodeNotBefore: cluster.machine.createdAt });
  await start();
  await advance(590_000);
  expect([...new Set(cluster.written.map(({ stage }) => stage))]).toEqual(['joining']);
  await advanceUntil(() => cluster.machine.stage === 'failed');
  expect(cluster.written.at(-1)).toMatchObject({ step: { kind: 'join', code: 'DeadlineExceeded' } });
});

describe('a Machine whose Node had joined', () => {
  it.each([
    ['its Node joined', 'syncNode'],
    ['it named its VM', 'storeIdentity'],
  ] as const)(
    '[invariant 6 partly] asks its owner to be replaced where a backup from before %s is restored, and does not fail by itself',
    async (_, step) => {
      touch({ limits: { ...cluster.machine.limits, healthSeconds, creationSeconds: 60 } });
      let backup: MachineSnapshot | undefined;
      cluster.before = (name) => {
        if (name === step) backup ??= cluster.machine;
      };
      await start();
      await advanceUntil(() => cluster.machine.stage === 'joining');
      await joinNode();
      await advanceUntil(async () => (await doing()) === 'running');

      cluster.machine = backup!;
      cluster.node = { state: 'absent' };
      await workflow().signal(refreshSignal);
      await untilAsked();
      await observe(undefined, ever);
      await advance(120_000);
      expect(cluster.machine.stage).toBe('unhealthy');
      expect(cluster.written.map(({ stage }) => stage)).not.toContain('failed');
    },
  );
});

describe('a Machine that is unhealthy for its health timeout', () => {
  it('asks to be replaced, names its deployment once that is known, and fails when its owner has decided so', async () => {
    await startUnhealthy();
    expect((await described()).until).toBeDefined();
    await untilAsked();
    expect(await doing()).toBe('waiting to be replaced');
    cluster.deployment = 'pool';
    await observe(undefined, ever);
    expect(cluster.machine.stage).toBe('unhealthy');
    await advanceUntil(
      async () => (await described()).waitingFor?.startsWith('MachineDeployment pool to replace it') === true,
    );
    expect((await workflow().describe()).searchAttributes).toMatchObject({ MillwrightDeployment: ['pool'] });

    await grant(ever);
    await advanceUntil(() => cluster.machine.stage === 'failed');
    expect(cluster.written.at(-1)).toMatchObject({
      isTimed: false,
      event: { reason: 'HealthTimeout', note: 'node node-1 (Ready is Unknown) is unhealthy for more than 2 s' },
    });
  });

  it('takes its request back when the Nodes were not watched for that long, and asks again after it', async () => {
    await startUnhealthy();
    await untilAsked();
    const { askedAt } = cluster.machine.request!;
    await grant(0);
    await advanceUntil(() => cluster.machine.request === undefined);
    expect(cluster.machine.stage).toBe('unhealthy');
    expect(await doing()).toBe('watching an unhealthy node');

    await untilAsked();
    expect(Date.parse(cluster.machine.request!.askedAt)).toBeGreaterThanOrEqual(
      Date.parse(askedAt) + healthSeconds * 1e3,
    );
    expect(cluster.machine.stage).toBe('unhealthy');
  });

  it('has all of its health timeout again where Temporal was down when that passed', async () => {
    await startUnhealthy();
    await beDown(60_000);
    await advance(1_500);
    expect(cluster.machine.request).toBeUndefined();

    await untilAsked();
  });

  it.each([
    ['[invariant 6 partly] has all of its health timeout again after an outage of an API server', undefined],
    ['has no more of its health timeout after an API server, or our own rate limit, has asked for a pause', true],
  ])('%s', async (_, isThrottled) => {
    await startUnhealthy(60);
    await advance(50_000);
    let readings = 0;
    cluster.before = (step) => {
      if (step !== 'observeMachine' || readings++ > 0) return;
      const details = [{ isThrottled }];
      throw ApplicationFailure.create({ type: 'Unavailable', message: 'no', details, nonRetryable: true });
    };
    await workflow().signal(refreshSignal);
    await advance(30_000);
    expect(readings).toBeGreaterThan(1);
    expect(cluster.machine.request !== undefined).toBe(isThrottled === true);

    await advance(40_000);
    expect(cluster.machine.request).toBeDefined();
  });

  it('waits for a watcher that can see its Node', async () => {
    await startUnhealthy();
    await untilAsked();
    touch({ request: { ...cluster.machine.request!, isGranted: true } });
    await observe();
    const before = cluster.steps.length;
    await described();
    expect(cluster.steps.slice(before)).toEqual([]);
    expect(cluster.machine.stage).toBe('unhealthy');

    await observe(undefined, ever);
    await advanceUntil(() => cluster.machine.stage === 'failed');
  });

  it('does not fail if its Node turns out to be healthy when it is read', async () => {
    await startUnhealthy();
    await untilAsked();
    cluster.before = (step) => {
      const { node } = cluster;
      const isRead = step === 'observeMachine' && node.state === 'present';
      if (isRead) cluster.node = { ...node, conditions: { Ready: 'True' } };
    };
    touch({ request: { ...cluster.machine.request!, isGranted: true } });
    await observe(undefined, ever);
    await advanceUntil(() => cluster.machine.stage === 'running');
    expect(cluster.written.filter(({ stage }) => stage === 'failed')).toEqual([]);
  });

  it('has no time limit where its health timeout is switched off meanwhile', async () => {
    await startUnhealthy();
    await untilAsked();
    const { healthSeconds: _, ...limits } = cluster.machine.limits;
    touch({ limits });
    await observe(undefined, ever);
    await advanceUntil(() => cluster.machine.request === undefined);
    expect((await described()).until).toBeUndefined();
  });
});
