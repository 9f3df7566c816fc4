/** What the memory of the sweeps says when a real Temporal server does not answer it. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Client } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';
import { toFailure } from '../../activities/boundary.ts';
import { createSweepMemory } from '../../temporal/past-sweeps.ts';
import { connectWorkers } from '../../temporal/worker-connection.ts';
import { recordingLogger } from '../support/kube.ts';

const server = {
  address: process.env.MILLWRIGHT_TEST_TEMPORAL_ADDRESS ?? '',
  namespace: 'default',
  tls: false,
} as const;

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
});
