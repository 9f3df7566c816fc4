import { expect, it } from '@jest/globals';
import { readError } from '../kit/errors.ts';
import { AnswerError } from './client.ts';
import { errors, refusalOf } from './errors.ts';

const answers = [
  [401, 'Unauthorized', 'Unauthenticated'],
  [403, 'Forbidden', 'PermissionDenied'],
  [400, 'InvalidParameter', 'InvalidArgument'],
  [409, 'InsufficientCapacity', 'ResourceExhausted'],
  [403, 'QuotaExceeded', 'ResourceExhausted'],
  [429, 'Throttled', 'Unavailable'],
  [503, 'ServiceUnavailable', 'Unavailable'],
  [404, 'NotFound', 'NotFound'],
  [418, 'Teapot', 'FailedPrecondition'],
] as const;
for (const [status, cloudCode, code] of answers) {
  it(`makes ${code} of ${cloudCode}`, () => {
    const body = { error: { code: cloudCode, message: 'no' } };
    const answer = new AnswerError({ status, body, bytes: 1, requestId: 'r-1', retryAfter: '3' });

    const { error } = readError({ errors, refusalOf, endpointOf: () => 'http://cloud' }, {}, answer);

    expect(error).toMatchObject({
      code,
      cloudCode,
      requestId: 'r-1',
      retryAfterMs: 3000,
      message: `the cloud answered ${status}: ${cloudCode}: no`,
    });
  });
}
