import { afterEach, beforeEach, expect, it, jest } from '@jest/globals';
import type { BlockedWorkflow } from '../../temporal/blocked.ts';
import { watchBlocked } from './blocked.ts';

let now: jest.SpiedFunction<typeof performance.now>;
beforeEach(() => {
  now = jest.spyOn(performance, 'now').mockReturnValue(0);
});
afterEach(() => now.mockRestore());
const at = (seconds: number) => now.mockReturnValue(seconds * 1_000);

const blocked = (name: string, blockedOn: BlockedWorkflow['blockedOn'], type = 'machine'): BlockedWorkflow => ({
  ...{ workflowId: `default/machine/default/${name}/uid`, type, blockedOn, start: '2030-01-01T00:00:00Z' },
});

/** Answers with what is blocked by now, and counts the questions. */
function played() {
  const list = jest.fn<() => Promise<readonly BlockedWorkflow[]>>();
  return { list, groups: watchBlocked(list) };
}

it('counts from when a workflow was first seen to wait for the same', async () => {
  const { list, groups } = played();
  list.mockResolvedValue([blocked('a', 'CloudCapacity')]);
  await groups();

  at(60);
  list.mockResolvedValue([
    blocked('a', 'CloudCapacity'),
    blocked('b', 'CloudCapacity'),
    blocked('c', 'Brake', 'sweep'),
  ]);
  expect(await groups()).toEqual([
    { type: 'machine', cause: 'CloudCapacity', count: 2, longestSeconds: 60 },
    { type: 'sweep', cause: 'Brake', count: 1, longestSeconds: 0 },
  ]);

  at(100);
  list.mockResolvedValue([blocked('a', 'NodeJoin')]);
  expect(await groups()).toEqual([{ type: 'machine', cause: 'NodeJoin', count: 1, longestSeconds: 0 }]);
});

it('asks at most every 10 s', async () => {
  const { list, groups } = played();
  list.mockResolvedValue([blocked('a', 'Drain')]);
  for (const seconds of [0, 5, 9.9]) {
    at(seconds);
    await groups();
  }
  expect(list).toHaveBeenCalledTimes(1);

  at(10);
  await Promise.all([groups(), groups()]);
  expect(list).toHaveBeenCalledTimes(2);
});

it('rests ten times as long as a list took', async () => {
  const { list, groups } = played();
  list.mockImplementation(async () => {
    at(performance.now() / 1_000 + 3);
    return [];
  });
  await groups();

  at(29);
  await groups();
  expect(list).toHaveBeenCalledTimes(1);
  at(30);
  await groups();
  expect(list).toHaveBeenCalledTimes(2);
});

it('shows the last list for five minutes while Temporal does not answer, then throws', async () => {
  const { list, groups } = played();
  list.mockResolvedValueOnce([blocked('a', 'Drain')]).mockRejectedValue(new Error('no answer'));
  await groups();

  at(299);
  expect(await groups()).toMatchObject([{ count: 1, longestSeconds: 299 }]);
  at(300);
  await expect(groups()).rejects.toThrow('no answer');
});
