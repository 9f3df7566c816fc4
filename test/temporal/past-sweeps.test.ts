/** What the memory of the sweeps says when a real Temporal server does not answer it. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { Client } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';
import { toFailure } from '../../activities/boundary.ts';
import type { LostMachine } from '../../api/model/sweep.ts';
import { workflowId } from '../../api/workflow-id.ts';
import { createSweepMemory } from '../../temporal/past-sweeps.ts';
import { connectWorkers } from '../../temporal/worker-connection.ts';
import { recordingLogger } from '../support/kube.ts';
import { until } from '../support/until.ts';

const server = {
  address: process.env.MILLWRIGHT_TEST_TEMPORAL_ADDRESS ?? '',
  namespace: 'default',
  tls: false,
} as const;

/** The retention of the namespace of the tests, and an age at which Temporal has forgotten workflows. */
const [retentionMs, forgottenMs] = [86_400_000, 90_000_000];

describe('createSweepMemory', () => {
  let connection: NativeConnection;

  beforeAll(async () => {
    connection = await connectWorkers(server, recordingLogger());
  });
  afterAll(() => connection.close());

  const asks = [
    {
      name: 'readPast',
      ask: (client: Client) => createSweepMemory({ client, name: 'any' }).readPast(),
    },
    {
      name: 'countDeletions',
      ask: (client: Client) => createSweepMemory({ client, name: 'any' }).countDeletions('2026-01-01T00:00:00Z'),
    },
    {
      name: 'findLosses',
      ask: (client: Client) =>
        createSweepMemory({ client, name: 'any' }).findLosses([{ namespace: 'n', name: 'm', uid: 'u', ageMs: 0 }]),
    },
  ];

  it.each(asks)('makes $name fail with the reason and the fix when Temporal refuses the list', async ({ ask }) => {
    const refused: unknown = await ask(new Client({ connection, namespace: 'nowhere' })).catch((error) => error);

    const attempt = { elapsedMs: 0, isLocal: false };
    expect(toFailure(refused, new AbortController().signal, attempt)).toMatchObject({
      type: 'Unavailable',
      nonRetryable: false,
      message: expect.stringMatching(
        /^Temporal does not answer the list of workflows: .*nowhere.*; see whether `temporal workflow list -n nowhere` answers/i,
      ),
    });
  });

  it('[invariant 4 partly] says of a Machine by its workflow that it was not deleted', async () => {
    const client = new Client({ connection, namespace: 'default' });
    const installation = `past-${randomBytes(4).toString('hex')}`;
    const { findLosses } = createSweepMemory({ client, name: installation });
    const findLoss = async (machine: LostMachine) => (await findLosses([machine]))[0];
    const [ref, name] = [
      { dialect: 'gardener', namespace: 'n', name: 'lost', uid: 'u-1' },
      { namespace: 'n', name: 'lost', ageMs: forgottenMs },
    ];
    expect(await findLoss({ ...name, uid: 'u-1' })).toBeUndefined();
    const workflow = await client.workflow.start('machine', {
      workflowId: workflowId(installation, 'Machine', ref),
      taskQueue: installation, // which no worker polls
      args: [ref],
    });

    expect(await findLoss({ ...name, uid: 'u-1' })).toBe('its workflow is open');
    expect(await findLoss({ ...name, uid: 'u-2' })).toBeUndefined();
    await workflow.terminate();
    const ended = /^its workflow ended at .*Z as TERMINATED$/;
    expect(await findLoss({ ...name, uid: 'u-1' })).toMatch(ended);
    // As of a VM without UID tag: the list of workflows may be behind.
    await until('the name is enough', async (see) => ended.test(see((await findLoss(name)) ?? '')));
    expect(await findLoss({ ...name, name: 'los' })).toBeUndefined();
  });

  it('[invariant 4 partly] finds the workflows of Machines by their UIDs where their VMs have other names', async () => {
    const client = new Client({ connection, namespace: 'default' });
    const installation = `past-${randomBytes(4).toString('hex')}`;
    const { findLosses } = createSweepMemory({ client, name: installation });
    const start = (namespace: string, name: string, uid: string) =>
      client.workflow.start('machine', {
        workflowId: workflowId(installation, 'Machine', { dialect: 'gardener', namespace, name, uid }),
        taskQueue: installation, // which no worker polls
        args: [],
      });
    await start('n', 'named', 'u-1');
    await (await start('n', 'renamed', 'u-2')).terminate();
    await start('other', 'elsewhere', 'u-3');
    const asked = [
      { name: 'named', uid: 'u-1' },
      { name: 'web server', uid: 'u-2' },
      { name: 'of another namespace', uid: 'u-3' },
      { name: 'a part of a UID', uid: '2' },
    ].map((machine) => ({ ...machine, namespace: 'n', ageMs: forgottenMs }));

    // The list of workflows may be behind.
    const losses = await until('the renamed one is found', async (see) => {
      const found = see(await findLosses(asked));
      return found[1]?.includes('TERMINATED') && found;
    });
    expect(losses).toEqual([
      'its workflow is open',
      expect.stringMatching(/ended at .*Z as TERMINATED$/),
      undefined,
      undefined,
    ]);
  });

  it('[invariant 4 partly] misses the workflow of a Machine whose VM is younger than the retention, and has a UID tag', async () => {
    const client = new Client({ connection, namespace: 'default' });
    const { config } = await client.workflowService.describeNamespace({ namespace: 'default' });
    expect(Number(config?.workflowExecutionRetentionTtl?.seconds) * 1_000).toBe(retentionMs);
    const { findLosses } = createSweepMemory({ client, name: `past-${randomBytes(4).toString('hex')}` });
    const made = { namespace: 'n', name: 'made' };
    const asked = [
      { ...made, uid: 'u-1', ageMs: retentionMs - 1 },
      { ...made, uid: 'u-2', ageMs: retentionMs },
      { ...made, ageMs: 0 },
    ];

    expect(await findLosses(asked)).toEqual([
      expect.stringMatching(/^it has no workflow of it, although the VM is younger than the retention/),
      ...[undefined, undefined],
    ]);
  });

  it('makes findLosses fail with the reason and the fix when Temporal does not answer the retention', async () => {
    const client = new Client({ connection, namespace: 'default' });
    jest.spyOn(client.workflowService, 'describeNamespace').mockRejectedValueOnce(new Error('you may not'));
    const { findLosses } = createSweepMemory({ client, name: `past-${randomBytes(4).toString('hex')}` });

    await expect(findLosses([{ namespace: 'n', name: 'm', uid: 'u', ageMs: 0 }])).rejects.toThrow(
      'Temporal does not answer the retention of its namespace: you may not; see whether `temporal operator namespace describe -n default` answers',
    );
  });
});
