/** What an error of Azure becomes. */

import { createHttpHeaders, createPipelineRequest } from '@azure/core-rest-pipeline';
import { describe, expect, it } from '@jest/globals';
import { readError } from '../kit/errors.ts';
import { ArmError, allowancesOf, refusalOf } from './client.ts';
import { errors } from './errors.ts';

function thrown(status: number, code: string | undefined, message = 'no', headers: Record<string, string> = {}) {
  const bodyAsText = code === undefined ? '' : JSON.stringify({ error: { code, message } });
  const request = createPipelineRequest({ url: 'https://management.azure.com' });
  return new ArmError({ request, status, headers: createHttpHeaders(headers), bodyAsText });
}

const judge = (error: unknown) =>
  readError({ errors, refusalOf, endpointOf: () => 'https://management.azure.com' }, {}, error);

describe('an error of Azure', () => {
  it.each([
    [409, 'SkuNotAvailable', 'no', 'ResourceExhausted'],
    [409, 'ZonalAllocationFailed', 'no', 'ResourceExhausted'],
    [409, 'AllocationFailed', 'no', 'ResourceExhausted'],
    [409, 'OverconstrainedAllocationRequest', 'no', 'ResourceExhausted'],
    [400, 'ResourceQuotaExceeded', 'no', 'ResourceExhausted'],
    [409, 'OperationNotAllowed', 'exceeding approved standardDSv5Family Cores quota', 'ResourceExhausted'],
    [400, 'BadRequest', 'The size is not supported in this zone', 'ResourceExhausted'],
    [400, 'BadRequest', 'something else', 'InvalidArgument'],
    [409, 'OperationNotAllowed', 'the VM is marked for deletion', 'Aborted'],
    [409, 'OperationNotAllowed', 'the disk is attached to VM', 'Aborted'],
    [409, 'OperationNotAllowed', 'something else', 'FailedPrecondition'],
    [400, 'NicInUse', 'no', 'Aborted'],
    [400, 'InvalidParameter', 'no', 'InvalidArgument'],
    [403, 'AuthorizationFailed', 'no', 'PermissionDenied'],
    [403, 'LinkedAuthorizationFailed', 'no', 'PermissionDenied'],
    [401, 'ExpiredAuthenticationToken', 'no', 'Unauthenticated'],
    [404, 'ResourceGroupNotFound', 'no', 'NotFound'],
    [412, 'PreconditionFailed', 'no', 'AlreadyExists'],
    [503, undefined, 'no', 'Unavailable'],
    [500, 'InternalServerError', 'no', 'Unavailable'],
  ])('[mcm 109 partly] %i %s: %s is %s', (status, code, message, expected) => {
    expect(judge(thrown(status, code, message))).toMatchObject({ error: { code: expected }, isThrottled: false });
  });

  it.each(['OperationNotAllowed', 'TooManyRequests', 'SubscriptionRequestsThrottled', undefined])(
    'of status 429 is throttling, whatever its code: %s',
    (code) => {
      const { error, isThrottled } = judge(thrown(429, code, 'too many requests', { 'retry-after': '17' }));
      expect([error.code, error.retryAfterMs, isThrottled]).toEqual(['Unavailable', 17_000, true]);
    },
  );

  it('has the ID with which Azure finds the request', () => {
    const { error } = judge(thrown(400, 'InvalidParameter', 'no', { 'x-ms-correlation-request-id': 'c-1' }));
    expect(error.requestId).toBe('c-1');
  });
});

describe('allowancesOf', () => {
  it('reads the headers of the subscription and of the compute provider, but no limit of one VM', () => {
    const headers = createHttpHeaders({
      'x-ms-ratelimit-remaining-subscription-writes': '199',
      'x-ms-ratelimit-remaining-resource': 'Microsoft.Compute/PutVM3Min;237, Microsoft.Compute/PutVMResource;11,odd',
    });
    expect(allowancesOf({ headers })).toEqual([
      { kind: 'writes', left: 199, most: 200 },
      { kind: 'Microsoft.Compute/PutVM3Min', left: 237 },
    ]);
  });
});
