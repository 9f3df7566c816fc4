/** What OpenStack says, in the words that it says it in, and what that means. */
import { describe, expect, it } from '@jest/globals';
import { openstackScope } from '../../../test/support/openstack.ts';
import { readCreationFailure, readError } from '../kit/errors.ts';
import { OpenstackError } from './client/index.ts';
import { culpritOf, errors, failureOf, refusalOf } from './errors.ts';
import type { OpenstackProviderSpec } from './schema.ts';

const cloud = { errors, refusalOf, endpointOf: () => 'one' };

describe('an answer', () => {
  const read = (status: number, code: string | undefined, message: string, service = 'compute') =>
    readError(cloud, {}, new OpenstackError(message, { service, status, code, requestId: 'req-1' }));

  it.each<[number, string, string, string]>([
    [
      403,
      'forbidden',
      'Quota exceeded for cores, ram: Requested 2, 9, but already used 1, 2048 of 1, 51200 cores, ram',
      'QuotaExceeded',
    ],
    [403, 'forbidden', 'Quota exceeded for instances: Requested 1, but already used 0 of 0 instances', 'QuotaExceeded'],
    [403, 'forbidden', 'Maximum number of ports exceeded', 'QuotaExceeded'],
    [409, 'OverQuota', "Quota exceeded for resources: ['port'].", 'QuotaExceeded'],
    [409, 'IpAddressGenerationFailure', 'No more IP addresses available on network net-1.', 'NoMoreIpAddresses'],
    [
      413,
      'overLimit',
      "VolumeLimitExceeded: Maximum number of volumes allowed (0) exceeded for quota 'volumes'.",
      'QuotaExceeded',
    ],
    [
      413,
      'overLimit',
      'VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota. Requested 20G, quota is 5G and 0G has been consumed.',
      'QuotaExceeded',
    ],
    [400, 'badRequest', 'Flavor f-1 could not be found.', 'FlavorNotFound'],
  ])('[mcm 109 partly] %i %s "%s" is ResourceExhausted', (status, code, message, cloudCode) => {
    const { error, isThrottled } = read(status, code, message);

    expect(error).toMatchObject({ code: 'ResourceExhausted', cloudCode, requestId: 'req-1' });
    expect(error.message).toBe(`the cloud answered ${status}: ${cloudCode}: compute: ${message}`);
    expect(isThrottled).toBe(false);
  });

  it.each<[number, string | undefined, string, string]>([
    [400, 'badRequest', 'The requested availability zone is not available', 'InvalidArgument'],
    [400, 'badRequest', 'Invalid key_name provided.', 'InvalidArgument'],
    [400, 'HTTPBadRequest', 'Invalid input for network_id.', 'InvalidArgument'],
    [404, 'SubnetNotFound', 'Subnet s could not be found.', 'InvalidArgument'],
    [401, 'Unauthorized', 'The request you have made requires authentication.', 'Unauthenticated'],
    [401, undefined, '', 'Unauthenticated'],
    [403, 'forbidden', "Policy doesn't allow os_compute_api:servers:create to be performed.", 'PermissionDenied'],
    [403, 'NeverHeardOf', 'no', 'PermissionDenied'],
    [404, 'itemNotFound', 'Instance i could not be found.', 'NotFound'],
    [404, 'PortNotFound', 'Port p could not be found.', 'NotFound'],
    [404, undefined, '<html>', 'Unknown'],
    [409, 'conflictingRequest', 'Port p is still in use.', 'Aborted'],
    [409, 'conflictingRequest', "Cannot 'delete' instance i while it is in task_state deleting", 'Aborted'],
    [400, 'badRequest', 'Invalid volume: Volume status must be available or error', 'Aborted'],
    [500, 'computeFault', 'Unexpected API Error. Quota exceeded', 'Unavailable'],
    [500, 'NeverHeardOf', 'no', 'Unknown'],
    [503, undefined, '<html>', 'Unavailable'],
    [409, 'NeverHeardOf', 'no', 'FailedPrecondition'],
  ])('%i %s "%s" is %s', (status, code, message, expected) => {
    const { error, isThrottled } = read(status, code, message);

    expect(error.code).toBe(expected);
    expect(isThrottled).toBe(false);
  });

  it('of keystone that it knows no such application credential does not say that anything else is gone', () => {
    const { error } = read(404, 'NotFound', 'Could not find Application Credential: ac-1.', 'identity');

    expect(error).toMatchObject({ code: 'Unauthenticated', requestId: 'req-1' });
  });

  it.each<[number, string | undefined]>([
    [413, 'overLimit'],
    [413, undefined],
    [429, 'tooManyRequests'],
    [429, undefined],
  ])('%i %s is throttling', (status, code) => {
    const { error, isThrottled } = read(status, code, 'This request was rate-limited.');

    expect(error.code).toBe('Unavailable');
    expect(isThrottled).toBe(true);
  });
});

describe('a server that was accepted and cannot be made', () => {
  it.each([
    ['No valid host was found. ', 'ResourceExhausted', 'NoValidHost'],
    ['No valid host was found. There are not enough hosts available.', 'ResourceExhausted', 'NoValidHost'],
    ['Insufficient compute resources: Free vcpu 0.00 VCPU < requested 4 VCPU.', 'ResourceExhausted', 'NoValidHost'],
    [
      "Build of instance i aborted: VolumeLimitExceeded: Maximum number of volumes allowed (1) exceeded for quota 'volumes'.",
      'ResourceExhausted',
      'QuotaExceeded',
    ],
    [
      'Exceeded maximum number of retries. Exhausted all hosts available for retrying build failures for instance i.',
      'Internal',
      'BuildFailed',
    ],
    ['Build of instance i aborted: driver', 'Internal', 'BuildFailed'],
    ['Binding failed for port p, please check neutron logs for more information.', 'Internal', 'PortBindingFailed'],
  ])('[mcm 109 partly] because of "%s" is %s', (fault, code, cloudCode) => {
    expect(readCreationFailure({ errors }, failureOf(fault))).toMatchObject({
      code,
      message: `the cloud had accepted the VM and could not make it: ${cloudCode}: ${fault.trim()}`,
    });
  });
});

describe('the field that a refusal complains of', () => {
  const spec = {
    ...(openstackScope().providerSpec.spec as OpenstackProviderSpec),
    serverGroupID: 'group-1',
    rootDiskType: 'gold',
    subnetIDs: ['sub-1'],
  };
  it.each([
    ['Invalid key_name provided.', ' (providerSpec.spec.keyName is "key")'],
    ['The requested availability zone is not available', ' (providerSpec.spec.availabilityZone is "a")'],
    ['Instance group group-1 could not be found.', ' (providerSpec.spec.serverGroupID is "group-1")'],
    ['Volume type with name gold could not be found.', ' (providerSpec.spec.rootDiskType is "gold")'],
    ['Subnet sub-1 could not be found.', ' (providerSpec.spec.subnetIDs is ["sub-1"])'],
    ['Network net-1 could not be found.', ' (providerSpec.spec.networkID is "net-1")'],
    ["Invalid input for network_id. Reason: 'net-1' is not a valid UUID.", ' (providerSpec.spec.networkID is "net-1")'],
    ['Invalid image identifier or unable to access requested image.', ' (providerSpec.spec.imageID is "image-1")'],
    ['Invalid input for field/attribute user_data.', ''],
    ['providerSpec.spec.imageName is "x": nothing in one has this name', ''],
  ])('of "%s" is%s', (message, field) => {
    expect(culpritOf(message, spec)).toBe(field);
  });
});
