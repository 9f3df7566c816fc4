import { describe, expect, it } from '@jest/globals';
import { latencyMs } from '../faults.ts';
import { Fault } from './faults.ts';

function draw(fault: object, count = 4_000): number[] {
  const latency = Fault.parse({ kind: 'latency', ...fault });
  if (latency.kind !== 'latency') throw new Error('not a latency');
  return Array.from({ length: count }, (_, i) => latencyMs({ ...latency, turn: i + 1 }));
}

const shareAbove = (times: readonly number[], ms: number) => times.filter((time) => time > ms).length / times.length;

describe('latencyMs', () => {
  it('is ms, or lies between ms and maxMs', () => {
    expect(new Set(draw({ ms: 20 }))).toEqual(new Set([20]));
    const times = draw({ ms: 20, maxMs: 40 });
    expect(Math.min(...times)).toBeGreaterThanOrEqual(20);
    expect(Math.max(...times)).toBeLessThan(40);
  });

  it.each([1, 2, 77])('has with p99Ms the median ms and a long tail, with seed %i', (seed) => {
    const times = draw({ ms: 200, p99Ms: 3_000, seed });

    expect(shareAbove(times, 200)).toBeCloseTo(0.5, 1);
    expect(shareAbove(times, 3_000)).toBeGreaterThan(0.005);
    expect(shareAbove(times, 3_000)).toBeLessThan(0.015);
    expect(Math.max(...times)).toBeGreaterThan(5_000);
  });

  it('is the same for the same seed, and another for another', () => {
    const first = draw({ ms: 200, p99Ms: 3_000, seed: 1 }, 5);

    expect(draw({ ms: 200, p99Ms: 3_000 }, 5)).toEqual(first);
    expect(draw({ ms: 200, p99Ms: 3_000, seed: 2 }, 5)).not.toEqual(first);
  });
});

describe('a latency', () => {
  it.each([
    [{ ms: 1, maxMs: 2, p99Ms: 3 }, 'give maxMs or p99Ms'],
    [{ ms: 0, p99Ms: 3 }, 'give ms above 0'],
    [{ ms: 5, p99Ms: 3 }, 'p99Ms above it'],
  ])('%j is refused', (fault, problem) => {
    const { error } = Fault.safeParse({ kind: 'latency', ...fault });

    expect(error?.issues[0]?.message).toContain(problem);
  });
});
