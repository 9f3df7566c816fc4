import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Client, type ScheduleHandle } from '@temporalio/client';
import { connectClient } from '../../temporal/connection.ts';
import { ensureSweepSchedule, startSweep, sweepScheduleId } from '../../temporal/schedules.ts';
import { ensureSearchAttributes } from '../../temporal/search-attributes.ts';
import type { Installation } from '../../temporal/workflows.ts';

let client: Client;
let installation: Installation;
let schedule: ScheduleHandle;

beforeAll(async () => {
  const address = process.env.MILLWRIGHT_TEST_TEMPORAL_ADDRESS ?? '';
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
  ensureSweepSchedule(installation, { namespace, periodSeconds });

describe('ensureSweepSchedule', () => {
  it('makes a Schedule that skips what overlaps and catches up on nothing old', async () => {
    await ensure(900);

    expect(await schedule.describe()).toMatchObject({
      spec: { intervals: [{ every: 900_000 }] },
      policies: { overlap: 'SKIP', catchupWindow: 60_000 },
      action: {
        workflowType: 'orphanSweep',
        taskQueue: installation.name,
        args: [{ dialect: 'gardener', namespace: 'machines', dryRun: false }],
      },
      searchAttributes: { MillwrightInstallation: [installation.name] },
    });
  });

  it('[invariant 9] changes nothing that is as wanted', async () => {
    await ensure(900);
    await ensure(900);

    expect((await schedule.describe()).info.lastUpdatedAt).toBeUndefined();
  });

  it('follows the flags, and leaves a paused one paused', async () => {
    await ensure(900);
    await schedule.pause('an operator looks at something');

    await ensure(60, 'others');

    expect(await schedule.describe()).toMatchObject({
      spec: { intervals: [{ every: 60_000 }] },
      action: { args: [{ namespace: 'others' }] },
      state: { paused: true, note: 'an operator looks at something' },
      searchAttributes: { MillwrightInstallation: [installation.name] },
    });
  });

  it('makes it again when it is lost, also twice at once, and has none without a period', async () => {
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
  it('takes the sweep that was started before and is not over, but no dry run and none for classes', async () => {
    const sweep = (dryRun: boolean, waiting: 'person' | 'classes' = 'person') =>
      startSweep(installation, { dialect: 'gardener', namespace: 'machines', dryRun }, waiting);
    const runOf = async (id: string) => (await client.workflow.getHandle(id).describe()).runId;

    const first = await sweep(false);
    const run = await runOf(first);
    const [second, dry, released] = [await sweep(false), await sweep(true), await sweep(false, 'classes')];

    expect([second, await runOf(second)]).toEqual([first, run]);
    expect(new Set([first, dry, released])).toHaveProperty('size', 3);
    await Promise.all([first, dry, released].map((id) => client.workflow.getHandle(id).terminate()));
  });
});
