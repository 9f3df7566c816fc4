import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Client, type ScheduleHandle, ScheduleNotFoundError } from '@temporalio/client';
import { Worker } from '@temporalio/worker';
import { createCodec, keyIdOf } from '../../temporal/codec.ts';
import { connectClient } from '../../temporal/connection.ts';
import {
  ensureInterruptionSchedule,
  ensureSweepSchedule,
  interruptionScheduleId,
  startSweep,
  sweepScheduleId,
} from '../../temporal/schedules.ts';
import { ensureSearchAttributes } from '../../temporal/search-attributes.ts';
import { connectWorkers } from '../../temporal/worker-connection.ts';
import type { Installation } from '../../temporal/workflows.ts';
import { bundleChanged } from '../replay/changed.ts';
import { recordingLogger } from '../support/kube.ts';
import { sinks } from '../support/sinks.ts';
import { until } from '../support/until.ts';

const address = process.env.MILLWRIGHT_TEST_TEMPORAL_ADDRESS ?? '';
let client: Client;
let installation: Installation;
let schedule: ScheduleHandle;

beforeAll(async () => {
  const connection = await connectClient({ address, namespace: 'default', tls: false });
  await ensureSearchAttributes(connection, 'default');
  client = new Client({ connection });
});
afterAll(() => client.connection.close());

beforeEach(() => {
  installation = { client, name: `schedules-test-${randomUUID()}` };
  schedule = client.schedule.getHandle(sweepScheduleId(installation.name));
});
afterEach(() => schedule.delete().catch(() => undefined));

const ensure = (periodSeconds: number, namespace = 'machines') =>
  ensureSweepSchedule(installation, { dialect: 'gardener', namespace, periodSeconds });

describe('ensureInterruptionSchedule', () => {
  it('creates a Schedule, leaves it alone while it is as wanted, and deletes it', async () => {
    const own = client.schedule.getHandle(interruptionScheduleId(installation.name));
    const keep = (periodSeconds: number) =>
      ensureInterruptionSchedule(
        { ...installation, cluster: 'one' },
        { dialect: 'gardener', namespace: 'machines', periodSeconds },
      );
    await keep(60);
    await keep(60);

    const present = await own.describe();
    expect(present).toMatchObject({
      spec: { intervals: [{ every: 60_000 }] },
      policies: { overlap: 'SKIP', catchupWindow: 60_000 },
      action: {
        workflowType: 'interruptionCheck',
        taskQueue: installation.name,
        args: [{ dialect: 'gardener', namespace: 'machines', cluster: 'one' }],
      },
    });
    expect(present.info.lastUpdatedAt).toBeUndefined();
    await keep(0);
    await expect(own.describe()).rejects.toThrow(ScheduleNotFoundError);
    await keep(0);
  });
});

describe('ensureSweepSchedule', () => {
  it('creates a Schedule that skips overlapping and missed sweeps', async () => {
    await ensure(900);

    expect(await schedule.describe()).toMatchObject({
      spec: { intervals: [{ every: 900_000 }] },
      policies: { overlap: 'SKIP', catchupWindow: 60_000 },
      action: {
        workflowType: 'orphanSweep',
        taskQueue: installation.name,
        args: [{ dialect: 'gardener', namespace: 'machines', dryRun: false }],
        retry: { initialInterval: 1_000, maximumInterval: 60_000 },
      },
      searchAttributes: { MillwrightInstallation: [installation.name] },
    });
  });

  it('[invariant 9 partly] changes nothing that is up to date', async () => {
    await ensure(900);
    await ensure(900);

    expect((await schedule.describe()).info.lastUpdatedAt).toBeUndefined();
  });

  it('follows the flags, and keeps a Schedule paused', async () => {
    await ensure(900);
    await schedule.pause('an operator checks something');

    await ensure(60, 'others');

    expect(await schedule.describe()).toMatchObject({
      spec: { intervals: [{ every: 60_000 }] },
      action: { args: [{ namespace: 'others' }] },
      state: { paused: true, note: 'an operator checks something' },
      searchAttributes: { MillwrightInstallation: [installation.name] },
    });
  });

  it('has arguments that are encrypted with the key that encrypts now', async () => {
    const keys = new Map(['a', 'b'].map((id, i) => [id, Buffer.alloc(32, i)]));
    for (const current of [undefined, 'a', 'b', 'b', undefined]) {
      const dataConverter = { payloadCodecs: [createCodec(() => ({ current, keys }))] };
      installation = { ...installation, client: new Client({ connection: client.connection, dataConverter }) };
      await ensure(900);
      const { raw } = await installation.client.schedule.getHandle(sweepScheduleId(installation.name)).describe();
      expect(keyIdOf(raw.schedule?.action?.startWorkflow?.input?.payloads?.[0] ?? {})).toBe(current);
    }
  });

  it('gives the sweeps their cluster, and another one when the installation has moved', async () => {
    for (const cluster of ['one', 'two']) {
      installation = { ...installation, cluster };
      await ensure(900);
      expect(await schedule.describe()).toMatchObject({ action: { args: [{ namespace: 'machines', cluster }] } });
    }
  });

  /** Starts a sweep that has these many signals, and a worker whose tasks of it fail. */
  async function startScheduled(): Promise<string> {
    await ensure(900);
    await schedule.trigger();
    const { action } = await until('a sweep runs', async (see) => see(await schedule.describe()).info.recentActions[0]);
    return action.workflow.workflowId;
  }

  const startOnDemand = () =>
    startSweep(installation, { dialect: 'gardener', namespace: 'none', dryRun: false }, 'person');

  async function startBroken(begin: () => Promise<string>, signals: number) {
    const sweep = client.workflow.getHandle(await begin());
    for (let i = 0; i < signals; i++) await sweep.signal('retryNow');
    const broken = await bundleChanged((code) =>
      code.replace(/\b\w+\(sweep, \{\s+doing: 'reading the sources'\s+\}\);/, "throw new Error('broken');"),
    );
    const connection = await connectWorkers({ address, namespace: 'default', tls: false }, recordingLogger());
    const taskQueue = installation.name;
    const worker = await Worker.create({ connection, taskQueue, workflowBundle: broken, sinks });
    const running = worker.run();
    await until(
      'its task has failed',
      async (see) => (see(await sweep.describe()).raw.pendingWorkflowTask?.attempt ?? 1) > 1,
    );
    return {
      sweep,
      async end(): Promise<void> {
        await sweep.terminate();
        worker.shutdown();
        await running;
        await connection.close();
      },
    };
  }

  it.each([
    ['of the Schedule', startScheduled],
    ['on demand', startOnDemand],
  ])('nudges a sweep %s whose task fails again and again', async (_, begin) => {
    const { sweep, end } = await startBroken(begin, 0);

    await ensure(900);

    const signal = await until('it has a signal', async (see) => {
      const { events } = see(await sweep.fetchHistory()); // which has it once the try under way is over
      return events?.find((event) => event.workflowExecutionSignaledEventAttributes)
        ?.workflowExecutionSignaledEventAttributes?.signalName;
    });
    await end();
    expect(signal).toBe('retryNow');
  });

  it('waits for more attempts of a sweep with a long history, as Temporal accepts 10,000 signals', async () => {
    const { sweep, end } = await startBroken(startScheduled, 400);

    await ensure(900);

    await end();
    const { events = [] } = await sweep.fetchHistory();
    expect(events?.filter((event) => event.workflowExecutionSignaledEventAttributes)).toHaveLength(400);
  });

  it('creates it again when it is lost, also twice at once, and deletes it without a period', async () => {
    await ensure(900);
    await schedule.delete();
    await Promise.all([ensure(900), ensure(900)]);
    await expect(schedule.describe()).resolves.toBeDefined();

    await ensure(0);
    await ensure(0);

    await expect(schedule.describe()).rejects.toThrow('not found');
  });
});

describe('startSweep', () => {
  it('uses the open sweep of the same purpose, but no dry run and none for classes', async () => {
    const sweep = (dryRun: boolean, waiting: 'person' | 'sources' = 'person') =>
      startSweep(installation, { dialect: 'gardener', namespace: 'machines', dryRun }, waiting);
    const runOf = async (id: string) => (await client.workflow.getHandle(id).describe()).runId;

    const first = await sweep(false);
    const run = await runOf(first);
    const [second, dry, released] = [await sweep(false), await sweep(true), await sweep(false, 'sources')];

    expect([second, await runOf(second)]).toEqual([first, run]);
    expect(new Set([first, dry, released])).toHaveProperty('size', 3);
    await Promise.all([first, dry, released].map((id) => client.workflow.getHandle(id).terminate()));
  });
});
