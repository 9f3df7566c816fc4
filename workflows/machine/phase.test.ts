import { describe, expect, it } from '@jest/globals';
import { type FailureCode, failures } from '../../api/failures.ts';
import { firstAskPauseMs, isPastCreation, nextAskPauseMs, retryPauseMs, waitFor } from './phase.ts';

const codes = Object.keys(failures) as FailureCode[];
const second = 1_000;
const minute = 60 * second;

describe('retryPauseMs', () => {
  it('waits ten minutes for capacity', () => {
    expect(retryPauseMs({ code: 'ResourceExhausted' }, 'creation')).toBe(10 * minute);
  });

  it.each(['Unknown', 'DeadlineExceeded', 'Aborted', 'Unavailable'] as const)(
    '[mcm 27 partly] comes back after 5 s for %s',
    (code) => {
      expect(retryPauseMs({ code }, 'creation')).toBe(5 * second);
      expect(retryPauseMs({ code }, 'deletion')).toBe(5 * second);
    },
  );

  it('comes back after 5 s for a VM whose set-up did not succeed', () => {
    expect(retryPauseMs({ code: 'Uninitialized' }, 'creation')).toBe(5 * second);
  });

  it('[mcm 27 partly] waits for all others 3 minutes when creating and 10 when deleting', () => {
    const special = ['ResourceExhausted', 'Uninitialized', 'Unknown', 'DeadlineExceeded', 'Aborted', 'Unavailable'];
    const others = codes.filter((code) => !special.includes(code));
    expect(others.map((code) => retryPauseMs({ code }, 'creation'))).toEqual(others.map(() => 3 * minute));
    expect(others.map((code) => retryPauseMs({ code }, 'deletion'))).toEqual(others.map(() => 10 * minute));
  });

  it('waits as long as the cloud asks for, when that is longer, and never longer than ten minutes', () => {
    expect(retryPauseMs({ code: 'Unavailable', retryAfterMs: 45 * second }, 'creation')).toBe(45 * second);
    expect(retryPauseMs({ code: 'Unavailable', retryAfterMs: second }, 'deletion')).toBe(5 * second);
    expect(retryPauseMs({ code: 'PermissionDenied', retryAfterMs: 60 * minute }, 'creation')).toBe(10 * minute);
  });
});

describe('nextAskPauseMs', () => {
  it('grows from the first pause to two minutes and no further', () => {
    const pauses = [firstAskPauseMs];
    for (let i = 0; i < 6; i++) pauses.push(nextAskPauseMs(pauses.at(-1) ?? 0));
    expect(pauses.map((ms) => ms / second)).toEqual([10, 20, 40, 80, 120, 120, 120]);
  });
});

describe('isPastCreation', () => {
  it.each([
    ['', false],
    ['Pending', false],
    ['CrashLoopBackOff', false],
    ['Running', true],
    ['Unknown', true],
    ['Failed', true],
  ] as const)('of phase %p is %p', (phase, joined) => {
    expect(isPastCreation(phase)).toBe(joined);
  });
});

describe('waitFor', () => {
  it('waits for news alone when no time is given', () => {
    expect(waitFor()).toEqual({ kind: 'wait' });
    expect(waitFor(0)).toEqual({ kind: 'wait', timeoutMs: 0 });
  });
});
