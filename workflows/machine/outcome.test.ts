import { describe, expect, it } from '@jest/globals';
import { type FailureCode, failures } from '../../api/failures.ts';
import { isPastCreation } from '../../api/model/machine.ts';
import type { Failure } from '../calls/failure.ts';
import {
  deletionPollMs,
  firstPollIntervalMs,
  isWrittenRecently,
  nextPollIntervalMs,
  quickPauseMs,
  retryPauseMs,
  waitFor,
} from './outcome.ts';

const codes = Object.keys(failures) as FailureCode[];
const second = 1_000;
const minute = 60 * second;

describe('isWrittenRecently', () => {
  it('[mcm 28] has an error that lasts written again after 30 minutes and not before', () => {
    const writtenMs = Date.UTC(2026, 7, 19);
    const times = [0, 29 * minute, 30 * minute - 1, 30 * minute];
    expect(times.map((ms) => isWrittenRecently(writtenMs, writtenMs + ms))).toEqual([true, true, true, false]);
  });
});

describe('retryPauseMs', () => {
  it('waits ten minutes for capacity, or as long as configured', () => {
    expect(retryPauseMs({ code: 'ResourceExhausted' }, 'creation')).toBe(10 * minute);
    expect(retryPauseMs({ code: 'ResourceExhausted' }, 'creation', { noRoomMs: 4 * second })).toBe(4 * second);
    expect(retryPauseMs({ code: 'ResourceExhausted' }, 'creation', { noRoomMs: 20 * minute })).toBe(20 * minute);
    expect(retryPauseMs({ code: 'ResourceExhausted' }, 'deletion', { noRoomMs: 4 * second })).toBe(30 * second);
  });

  it.each(['Unknown', 'DeadlineExceeded', 'Aborted', 'Unavailable'] as const)(
    '[mcm 27 partly] tries again after 5 s for %s',
    (code) => {
      expect(retryPauseMs({ code }, 'creation')).toBe(5 * second);
      expect(retryPauseMs({ code }, 'deletion')).toBe(5 * second);
    },
  );

  it('tries again after 5 s for a VM whose set-up did not succeed', () => {
    expect(retryPauseMs({ code: 'Uninitialized' }, 'creation')).toBe(5 * second);
  });

  it('[mcm 27 partly] waits for all others 3 minutes when creating, and when deleting from half a minute to ten minutes', () => {
    const special = ['ResourceExhausted', 'Uninitialized', 'Unknown', 'DeadlineExceeded', 'Aborted', 'Unavailable'];
    const others = codes.filter((code) => !special.includes(code));
    expect(others.map((code) => retryPauseMs({ code }, 'creation'))).toEqual(others.map(() => 3 * minute));
    expect(others.map((code) => retryPauseMs({ code }, 'deletion'))).toEqual(others.map(() => 30 * second));
    const after = (refusedForMs: number) => retryPauseMs({ code: 'PermissionDenied' }, 'deletion', { refusedForMs });
    expect([30 * second, 4 * minute, 60 * minute].map(after)).toEqual([30 * second, 4 * minute, 10 * minute]);
  });

  it('waits as long as the cloud asks for, when that is longer, and never longer than ten minutes', () => {
    expect(retryPauseMs({ code: 'Unavailable', retryAfterMs: 45 * second }, 'creation')).toBe(45 * second);
    expect(retryPauseMs({ code: 'Unavailable', retryAfterMs: second }, 'deletion')).toBe(5 * second);
    expect(retryPauseMs({ code: 'PermissionDenied', retryAfterMs: 60 * minute }, 'creation')).toBe(10 * minute);
  });
});

describe('nextPollIntervalMs', () => {
  it('grows from the first pause to two minutes and no further', () => {
    const pauses = [firstPollIntervalMs];
    for (let i = 0; i < 6; i++) pauses.push(nextPollIntervalMs(pauses.at(-1) ?? 0));
    expect(pauses.map((ms) => ms / second)).toEqual([10, 20, 40, 80, 120, 120, 120]);
  });
});

describe('deletionPollMs', () => {
  it('asks soon at first, and then less often the longer a deletion takes', () => {
    const atSeconds = [0, 1, 3, 9, 30, 60, 400, 10_000];

    expect(atSeconds.map((lasted) => deletionPollMs(lasted * second) / second)).toEqual([1, 1, 3, 9, 10, 15, 100, 120]);
  });

  it('asks when the provider says, after 1 s at the earliest and 2 minutes at the latest', () => {
    const said = [0.001, 5, 90, 10_000];

    expect(said.map((seconds) => deletionPollMs(10 * minute, seconds * second) / second)).toEqual([1, 5, 90, 120]);
  });
});

describe('isPastCreation', () => {
  it.each([
    ['new', false],
    ['joining', false],
    ['creating', false],
    ['running', true],
    ['unhealthy', true],
    ['failed', true],
  ] as const)('of stage %p is %p', (stage, isPast) => {
    expect(isPastCreation(stage)).toBe(isPast);
  });
});

describe('waitFor', () => {
  it('waits for a change alone when no time is given', () => {
    expect(waitFor()).toEqual({ kind: 'wait' });
    expect(waitFor(0)).toEqual({ kind: 'wait', timeoutMs: 0 });
  });
});

describe('quickPauseMs', () => {
  const lost: Failure = {
    code: 'Unavailable',
    message: 'no answer',
    outcomeUnknown: true,
    blockedOn: 'CloudApi',
    attemptsUsedUp: true,
  };

  it('repeats a call whose answer was lost three times within seconds, then reports it', () => {
    expect([1, 2, 3, 4].map((attempts) => quickPauseMs(lost, attempts))).toEqual([1_000, 2_000, 4_000, undefined]);
  });

  const { attemptsUsedUp: _, ...final } = lost;

  it.each<[string, Failure]>([
    [
      'a rejection, although its provider marked it retryable',
      { ...lost, code: 'ResourceExhausted', outcomeUnknown: false },
    ],
    ['a failure that its provider marked as final', final],
    ['a long pause that the cloud asks for', { ...lost, retryAfterMs: 10_000 }],
    ['a missing worker', { ...lost, blockedOn: 'ProviderWorker' }],
  ])('reports %s at once', (_name, failure) => {
    expect(quickPauseMs(failure, 1)).toBeUndefined();
  });

  it('waits as long as the cloud asks for', () => {
    expect(quickPauseMs({ ...lost, retryAfterMs: 5_000 }, 1)).toBe(5_000);
  });
});
