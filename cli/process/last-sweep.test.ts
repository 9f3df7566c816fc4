import { expect, it } from '@jest/globals';
import { watchLastSweep } from './last-sweep.ts';

it('answers of the last sweep are kept for a while, and failures are not', async () => {
  let asked = 0;
  const standing = watchLastSweep(async () => {
    asked += 1;
    if (asked === 1) throw new Error('away');
    return { startedMs: 0, completedMs: Date.now() - 60_000, unlisted: ['a', 'b', 'c'] };
  });

  await expect(standing()).rejects.toThrow('away');
  const [first] = await standing();
  const [second] = await standing();

  expect(first).toMatchObject({ unlisted: 3, ageSeconds: expect.closeTo(60, 0) });
  expect([second?.unlisted, asked]).toEqual([3, 2]);
});

it('a sweep that never was is as old as the process', async () => {
  const [standing] = await watchLastSweep(async () => undefined)();
  expect(standing).toEqual({ ageSeconds: expect.closeTo(0, 0), unlisted: 0 });
});
