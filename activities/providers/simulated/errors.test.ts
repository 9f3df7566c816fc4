import { describe, expect, it } from '@jest/globals';
import { toConnectionError, toProviderError } from './errors.ts';

describe('toProviderError', () => {
  const answers = [
    [401, 'Unauthorized', 'Unauthenticated'],
    [403, 'Forbidden', 'PermissionDenied'],
    [400, 'InvalidParameter', 'InvalidArgument'],
    [409, 'InsufficientCapacity', 'ResourceExhausted'],
    [403, 'QuotaExceeded', 'ResourceExhausted'],
    [429, 'Throttled', 'Unavailable'],
    [503, 'ServiceUnavailable', 'Unavailable'],
    [404, 'NotFound', 'NotFound'],
    [418, 'Teapot', 'Unknown'],
  ] as const;
  for (const [status, cloudCode, code] of answers) {
    it(`makes ${code} of ${cloudCode}`, () => {
      const body = { error: { code: cloudCode, message: 'no' } };

      expect(toProviderError({ status, body, requestId: 'r-1', retryAfter: '3' })).toMatchObject({
        code,
        cloudCode,
        requestId: 'r-1',
        retryAfterMs: 3000,
        message: `the cloud answered ${status}: ${cloudCode}: no`,
      });
    });
  }

  it('judges an answer of something in between by its status', () => {
    const codes = [502, 504, 500, 400].map((status) => toProviderError({ status, body: '<html>' }).code);

    expect(codes).toEqual(['Unavailable', 'Unavailable', 'Unknown', 'Unknown']);
  });
});

describe('toConnectionError', () => {
  it('distinguishes a timeout from a connection that fails', () => {
    const origin = 'http://cloud:8080';
    const timeout = toConnectionError(origin, new DOMException('too late', 'TimeoutError'));
    const refused = toConnectionError(origin, Object.assign(new Error('connect'), { code: 'ECONNREFUSED' }));

    expect(timeout).toMatchObject({
      code: 'DeadlineExceeded',
      message: 'the cloud at http://cloud:8080 did not answer in time',
    });
    expect(refused).toMatchObject({
      code: 'Unavailable',
      cloudCode: 'ECONNREFUSED',
      message: 'the cloud at http://cloud:8080 cannot be reached (ECONNREFUSED)',
    });
  });
});
