import { describe, expect, it } from '@jest/globals';
import type { Pod } from '../../../kube/core.ts';
import type { Departures } from './departures.ts';
import type { Move } from './moves.ts';
import { createProgress } from './stuck.ts';

/** @param endsMs end of its grace period, ms since the epoch; left out while it runs */
function pod(uid: string, endsMs?: number): Pod {
  const deletionTimestamp = endsMs === undefined ? {} : { deletionTimestamp: new Date(endsMs).toISOString() };
  return { metadata: { name: uid, uid, resourceVersion: '', creationTimestamp: '', ...deletionTimestamp } };
}

function volumes(...moves: Move[]): Departures {
  return { isKnown: true, due: [], queued: 0, moves, unknown: [] };
}

function move(name: string, waitsFor: Move['waitsFor']): Move {
  return { volume: { name, driver: 'disk', spec: {} }, waitsFor, untilMs: 0 };
}

describe('a drain', () => {
  it('is stuck some time after the last pod or volume has left', () => {
    const progressAt = createProgress(100, undefined);
    const stuckMs = (...args: Parameters<typeof progressAt>) => progressAt(...args).stuckMs;

    expect(stuckMs([pod('a'), pod('b')], volumes(), 0)).toBe(100);
    expect(stuckMs([pod('a'), pod('b')], volumes(), 50)).toBe(100);
    expect(stuckMs([pod('a')], volumes(), 70)).toBe(170);
    expect(stuckMs([], volumes(move('v', 'detach'), move('w', 'detach')), 80)).toBe(180);
    expect(stuckMs([], volumes(move('v', 'detach')), 90)).toBe(190);
  });

  it('is stuck only when the grace periods of its pods are over as well', () => {
    const progressAt = createProgress(100, undefined);

    expect(progressAt([pod('slow', 3_600_000), pod('held', 1_000)], volumes(), 0).stuckMs).toBe(3_600_100);
    expect(progressAt([pod('held', 1_000)], volumes(), 500).stuckMs).toBe(1_100);
  });

  it('is not stuck while another node has to attach a volume', () => {
    expect(createProgress(100, undefined)([], volumes(move('v', 'reattach')), 0).stuckMs).toBe(Infinity);
  });

  it('is not stuck again with what was reported', () => {
    const { reported, isReported } = createProgress(100, undefined)([pod('held', 0)], volumes(), 0);
    const again = createProgress(100, reported)([pod('held', 0)], volumes(), 1_000);

    expect([isReported, again.isReported, again.stuckMs]).toEqual([false, true, Infinity]);
    expect(createProgress(100, reported)([pod('held', 0), pod('other')], volumes(), 1_000).isReported).toBe(false);
  });
});
