import { expect, it } from '@jest/globals';
import type { ConnectionLike } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { controllersQueue, findMissingProcesses } from './clusters.ts';

/** A server whose clock is an hour ahead. @param ago by queue: when a process has polled it last, ms ago */
function serverOf(ago: Readonly<Record<string, number>>): ConnectionLike {
  const aheadMs = 3_600_000;
  const seen = Object.entries(ago).map(([queue, ms]) => ({ queue, identity: 'a', ms: Date.now() + aheadMs - ms }));
  type Request = { readonly taskQueue: { readonly name: string }; readonly identity?: string };
  const workflowService = {
    pollWorkflowTaskQueue: async ({ taskQueue: { name }, identity = '' }: Request) => {
      seen.push({ queue: name, identity, ms: Date.now() + aheadMs });
    },
    describeTaskQueue: async ({ taskQueue: { name } }: Request) => ({
      pollers: seen
        .filter(({ queue }) => queue === name)
        .map(({ identity, ms }) => ({ identity, lastAccessTime: msToTs(ms) })),
    }),
  };
  const call = (_: unknown, run: () => Promise<unknown>) => run();
  return { workflowService, withDeadline: call, withAbortSignal: call } as unknown as ConnectionLike;
}

it.each([
  ['both run', { a: 60_000, [controllersQueue('a')]: 60_000 }, []],
  ['both ended two minutes ago', { a: 120_000, [controllersQueue('a')]: 120_000 }, ['worker', 'controllers']],
  ['only controllers run', { a: 120_000, [controllersQueue('a')]: 60_000 }, ['worker']],
  ['none has polled', {}, ['worker', 'controllers']],
])(
  'a process that has polled within a poll and a bit is there, by the clock of the server: %s',
  async (_, ago, missing) => {
    expect(await findMissingProcesses(serverOf(ago), { namespace: 'default', installation: 'a' })).toEqual(missing);
  },
);
