import { describe, expect, it } from '@jest/globals';
import { until } from './until.ts';

const atOnce = { timeoutMs: 0 };

describe('until', () => {
  it('repeats a check that answers false or undefined, or throws, and returns what it answers then', async () => {
    const answers = [() => false, () => undefined, () => expect(1).toBe(2), () => 0];

    expect(await until('there is a number', async () => answers.shift()?.())).toBe(0);
    expect(answers).toEqual([]);
  });

  it.each([
    ['its answer', () => false as const, 'false'],
    ['what was seen', (see: <V>(seen: V) => V) => see(String('Pending')) === 'Running', "'Pending'"],
    ['the error', () => Promise.reject(new Error('no answer')), 'no answer'],
    ['its ends', (see: <V>(seen: V) => V) => see('x'.repeat(3_000)) === '', `'x{999} … x{999}'`],
  ])('says what it waited for, how long, and what the check has seen last: %s', async (_, check, seen) => {
    const describeScene = () => 'the logs';

    await expect(until('it runs', check, { ...atOnce, describe: describeScene })).rejects.toThrow(
      new RegExp(`^waited \\d+\\.\\d s in vain until it runs\nseen last: ${seen}\nthe logs$`),
    );
  });

  it('says what it waited for also where nothing more can be described', async () => {
    const describeScene = () => Promise.reject(new Error('fetch failed'));

    await expect(until('it runs', () => false, { ...atOnce, describe: describeScene })).rejects.toThrow(
      /^waited .* until it runs\nseen last: false\n\(no more is known: Error: fetch failed\)$/,
    );
  });

  it('has the last error as its cause', async () => {
    const cause = new Error('no answer');

    await expect(until('it runs', () => Promise.reject(cause), atOnce)).rejects.toMatchObject({ cause });
  });
});
