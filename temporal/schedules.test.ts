import { expect, it } from '@jest/globals';
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { findHeldSweeps } from './schedules.ts';

it('a sweep that has ended since it was listed, or does not answer, hides no sweep that waits for approval', async () => {
  const held = { reasons: ['there are 4 orphans'], count: 4, orphans: [] };
  const answers: Readonly<Record<string, () => Promise<unknown>>> = {
    ended: () => Promise.reject(new WorkflowNotFoundError('it is gone', 'ended', undefined)),
    silent: () => Promise.reject(new Error('no worker')),
    busy: async () => ({}),
    held: async () => ({ held }),
  };
  const client = {
    workflow: {
      list: async function* () {
        for (const workflowId of Object.keys(answers)) yield { workflowId };
      },
      getHandle: (id: string) => ({ query: answers[id] }),
    },
    withDeadline: (_: number, ask: () => Promise<unknown>) => ask(),
  } as unknown as Client;

  expect(await findHeldSweeps({ client, name: 'one' })).toEqual([{ id: 'held', held }]);
});
