import { describe, expect, it } from '@jest/globals';
import { ActivityFailure, ApplicationFailure, TimeoutFailure } from '@temporalio/workflow';
import { type FailureCode, failures } from '../../api/failures.ts';
import { blockers } from '../../api/names.ts';
import { isSameError, toFailure } from './failure.ts';

function failed(cause: Error): ActivityFailure {
  return new ActivityFailure('Activity task failed', 'ensureVm', '1', 'NON_RETRYABLE_FAILURE', 'worker', cause);
}

describe('toFailure', () => {
  it.each(Object.keys(failures) as FailureCode[])('keeps code and message of %s and says what it means', (code) => {
    const failure = toFailure(failed(ApplicationFailure.create({ type: code, message: 'no' })));
    const { outcomeUnknown, blockedOn } = failures[code];
    expect(failure).toEqual({ code, message: 'no', outcomeUnknown, blockedOn });
    expect(Object.keys(blockers)).toContain(blockedOn);
  });

  it('shortens the message of a provider to 2,000 characters', () => {
    const { message } = toFailure(failed(ApplicationFailure.create({ message: 'no'.repeat(2_000) })));

    expect(message).toHaveLength(2_000);
    expect(message).toMatch(/… \(cut: there were 4000 characters\)$/);
  });

  it('says how long the cloud asks to be left alone', () => {
    const failureOf = (retryAfterMs: unknown) =>
      toFailure(failed(ApplicationFailure.create({ type: 'Unavailable', message: 'no', details: [{ retryAfterMs }] })));

    expect(failureOf(30_000)).toMatchObject({ retryAfterMs: 30_000 });
    for (const odd of [-1, 0, '30', null]) expect(failureOf(odd)).not.toHaveProperty('retryAfterMs');
  });

  it('takes from the details what blocks only where that is a workflow: a provider does not say what blocks', () => {
    const blockerOf = (blockedOn: string) =>
      toFailure(failed(ApplicationFailure.create({ type: 'Unavailable', message: 'no', details: [{ blockedOn }] })))
        .blockedOn;

    expect(['WorkflowTask', 'Credentials'].map(blockerOf)).toEqual(['WorkflowTask', 'CloudApi']);
  });

  it.each(['TypeError', 'toString', '', undefined])(
    '[invariant 1 partly] takes type %p as Unknown, so a VM may exist',
    (type) => {
      const cause = ApplicationFailure.create({ message: 'bug', ...(type !== undefined && { type }) });
      expect(toFailure(failed(cause))).toMatchObject({ code: 'Unknown', message: 'bug', outcomeUnknown: true });
    },
  );

  it.each(['START_TO_CLOSE', 'HEARTBEAT', 'SCHEDULE_TO_CLOSE'] as const)(
    '[invariant 1 partly] knows no outcome after timeout %s',
    (type) => {
      expect(toFailure(failed(new TimeoutFailure('timeout', undefined, type)))).toEqual({
        code: 'DeadlineExceeded',
        message: 'ensureVm did not come back in time',
        outcomeUnknown: true,
        blockedOn: 'CloudApi',
      });
    },
  );

  it('blames the missing worker when nobody took the call', () => {
    const failure = toFailure(failed(new TimeoutFailure('timeout', undefined, 'SCHEDULE_TO_START')));
    expect(failure).toMatchObject({ code: 'Unavailable', blockedOn: 'ProviderWorker', outcomeUnknown: true });
    expect(failure.message).toContain('ensureVm');
  });

  it('has a message also where there is no cause', () => {
    const failure = toFailure(new ActivityFailure('gone', 'ensureVm', '1', 'NON_RETRYABLE_FAILURE', 'worker'));
    expect(failure).toMatchObject({ code: 'Unknown', message: 'gone', outcomeUnknown: true });
  });
});

describe('isSameError', () => {
  const error = { code: 'ResourceExhausted', message: 'no room in zone 1a (request 7f-31)' } as const;

  it('[mcm 28] overlooks ids, times and numbers', () => {
    expect(isSameError(error, { ...error, message: 'no room in zone 1a (request 8c-90)' })).toBe(true);
  });

  it('distinguishes codes and words', () => {
    expect(isSameError(error, { ...error, code: 'Unavailable' })).toBe(false);
    expect(isSameError(error, { ...error, message: 'no quota in zone 1a (request 7f-31)' })).toBe(false);
  });
});
