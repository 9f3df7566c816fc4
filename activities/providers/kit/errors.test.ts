import { describe, expect, it } from '@jest/globals';
import { ProviderError } from '../provider.ts';
import type { Refusal } from './cloud.ts';
import { readError } from './errors.ts';

const errors = { NoRoom: 'ResourceExhausted', SlowDown: 'Throttled' } as const;
const endpointOf = () => 'http://cloud:8080';

/** What is made of an error that says this. */
const judge = (refusal: Refusal) => readError({ errors, endpointOf, refusalOf: () => refusal }, {}, new Error('no'));

/** What is made of an error that is no answer. */
const judgeNoAnswer = (thrown: unknown) => readError({ errors, endpointOf, refusalOf: () => undefined }, {}, thrown);

describe('readError', () => {
  it('goes by the code of the cloud', () => {
    const { error, isThrottled } = judge({ status: 500, code: 'NoRoom', message: 'full', requestId: 'r-1' });

    expect(error).toMatchObject({ code: 'ResourceExhausted', cloudCode: 'NoRoom', requestId: 'r-1' });
    expect(error.message).toBe('the cloud answered 500: NoRoom: full');
    expect(isThrottled).toBe(false);
  });

  it('says Unavailable of throttling, with how long to wait', () => {
    const { error, isThrottled } = judge({ status: 400, code: 'SlowDown', message: 'wait', retryAfterMs: 3_000 });

    expect(error).toMatchObject({ code: 'Unavailable', cloudCode: 'SlowDown', retryAfterMs: 3_000 });
    expect(isThrottled).toBe(true);
  });

  it('goes by the status where the code is not known or there is none', () => {
    const unknown = judge({ status: 400, code: 'Teapot', message: 'no' });
    const none = [502, 504, 500, 400].map((status) => judge({ status, message: 'no message' }));

    expect(unknown.error.code).toBe('FailedPrecondition');
    expect(none.map(({ error }) => error.code)).toEqual(['Unavailable', 'Unavailable', 'Unknown', 'Unknown']);
  });

  it('distinguishes a timeout from a connection that fails', () => {
    const timeout = judgeNoAnswer(new DOMException('too late', 'TimeoutError')).error;
    const cut = judgeNoAnswer(Object.assign(new Error('hang up'), { name: 'TimeoutError', code: 'ECONNRESET' })).error;
    const refused = judgeNoAnswer(Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })).error;

    expect(timeout).toMatchObject({
      code: 'DeadlineExceeded',
      message: 'the cloud at http://cloud:8080 did not answer in time',
    });
    expect(cut).toMatchObject({ code: 'Unavailable', cloudCode: 'ECONNRESET' });
    expect(refused).toMatchObject({
      code: 'Unavailable',
      cloudCode: 'ECONNREFUSED',
      message: 'the cloud at http://cloud:8080 cannot be reached (ECONNREFUSED)',
    });
  });

  it('knows a connection of fetch that fails', () => {
    const cause = Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' });

    const { error } = judgeNoAnswer(new TypeError('fetch failed', { cause }));

    expect(error).toMatchObject({ code: 'Unavailable', cloudCode: 'UND_ERR_SOCKET' });
  });

  it('takes status 429 for throttling, whatever the code is', () => {
    expect(judge({ status: 429, message: 'slow down' })).toMatchObject({
      error: { code: 'Unavailable' },
      isThrottled: true,
    });
  });

  it('leaves a ProviderError as it is', () => {
    const error = new ProviderError('Internal', 'no');

    expect(judgeNoAnswer(error)).toEqual({ error, isThrottled: false });
  });

  it('throws what is a defect', () => {
    const invalid = Object.assign(new TypeError('invalid header'), { code: 'ERR_INVALID_CHAR' });

    expect(() => judgeNoAnswer(new TypeError('x is not a function'))).toThrow('x is not a function');
    expect(() => judgeNoAnswer(invalid)).toThrow('invalid header');
  });
});
