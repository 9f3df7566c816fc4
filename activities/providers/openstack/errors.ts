/** From what OpenStack says to failure codes. */
import type { Cloud, CreationFailure, Refusal } from '../kit/cloud.ts';
import { NotInCatalogueError, OpenstackError } from './client/index.ts';
import type { OpenstackProviderSpec } from './schema.ts';

/**
 * Codes that this provider finds in texts, because the service gives all of them one code or none. The first that fits
 * counts. `NoValidHost`, and a flavor that is missing, are ResourceExhausted as in
 * machine-controller-manager-provider-openstack.
 */
const texts: readonly (readonly [code: string, text: RegExp])[] = [
  ['NoValidHost', /no valid host was found|no suitable host|insufficient compute resources|not enough free/i],
  [
    'QuotaExceeded',
    /quota exceeded|exceeded for quota|exceeds? (the )?(allowed|available) .*quota|maximum number of \w+ (allowed|exceeded)|LimitExceeded|too many instances/i,
  ],
  [
    'NoMoreIpAddresses',
    /no more (fixed )?ip addresses|no more fixed ips|ip address generation failed|not enough (free )?ips/i,
  ],
  ['FlavorNotFound', /flavor \S+ could not be found/i],
  ['PortInUse', /port \S+ is still in use/i],
  ['PortBindingFailed', /binding failed for port/i],
  ['VolumeNotReady', /volume status must be|invalid volume/i],
];

/** All codes: those of `texts`, and those of the services by whoever uses them. */
export const errors = {
  // capacity and quota
  NoValidHost: 'ResourceExhausted',
  QuotaExceeded: 'ResourceExhausted',
  NoMoreIpAddresses: 'ResourceExhausted',
  FlavorNotFound: 'ResourceExhausted',
  VolumeFailed: 'ResourceExhausted', // cinder does not say why; most often no backend has room
  OverQuota: 'ResourceExhausted',
  IpAddressGenerationFailure: 'ResourceExhausted',
  IpAddressAllocationNotFound: 'ResourceExhausted',
  MacAddressGenerationFailure: 'ResourceExhausted',
  // throttling
  overLimit: 'Throttled',
  tooManyRequests: 'Throttled',
  TooManyRequests: 'Throttled',
  // credentials and permissions
  Unauthorized: 'Unauthenticated',
  unauthorized: 'Unauthenticated',
  forbidden: 'PermissionDenied',
  Forbidden: 'PermissionDenied',
  PolicyNotAuthorized: 'PermissionDenied',
  HTTPForbidden: 'PermissionDenied',
  // what the class says
  badRequest: 'InvalidArgument',
  BadRequest: 'InvalidArgument',
  HTTPBadRequest: 'InvalidArgument',
  NotInCatalogue: 'InvalidArgument',
  NetworkNotFound: 'InvalidArgument',
  SubnetNotFound: 'InvalidArgument',
  SecurityGroupNotFound: 'InvalidArgument',
  InvalidInput: 'InvalidArgument',
  InvalidAllowedAddressPair: 'InvalidArgument',
  AddressPairAndPortSecurityRequired: 'InvalidArgument',
  AllowedAddressPairExhausted: 'InvalidArgument',
  PortSecurityAndIPRequiredForSecurityGroups: 'InvalidArgument',
  // the cloud itself
  PortBindingFailed: 'Internal',
  BuildFailed: 'Internal',
  computeFault: 'Unavailable',
  HTTPInternalServerError: 'Unavailable',
  InternalServerError: 'Unavailable',
  serviceUnavailable: 'Unavailable',
  ServiceUnavailable: 'Unavailable',
  HTTPServiceUnavailable: 'Unavailable',
  BadGateway: 'Unavailable',
  GatewayTimeout: 'Unavailable',
  // of what is to be deleted or looked at
  PortInUse: 'Aborted',
  VolumeNotReady: 'Aborted',
  conflictingRequest: 'Aborted',
  Conflict: 'Aborted',
  HTTPConflict: 'Aborted',
  NotFound: 'NotFound',
  itemNotFound: 'NotFound',
  PortNotFound: 'NotFound',
  HTTPNotFound: 'NotFound',
} as const satisfies Cloud<never, never, never, never>['errors'];

/** Of answers without a code that is known. */
const codesOfStatus: Readonly<Record<number, keyof typeof errors>> = {
  401: 'Unauthorized',
  403: 'Forbidden',
  413: 'overLimit',
};

/** What an answer says; undefined for any other error. */
export function refusalOf(error: unknown): Refusal | undefined {
  if (error instanceof NotInCatalogueError)
    return { code: 'NotInCatalogue', message: `${error.message}: correct providerSpec.spec.region`, status: 404 };
  if (!(error instanceof OpenstackError)) return undefined;
  const { service, status, requestId, retryAfterMs } = error;
  const message = `${service}: ${error.message}`;
  // keystone does not find the application credential, or the user's project: that says nothing of what was looked for.
  if (service === 'identity' && status === 404) return { code: 'Unauthorized', message, status, requestId };
  const own = status >= 400 && status < 500 ? (codeOfText(error.message) ?? error.code) : error.code;
  const code = own !== undefined && own in errors ? own : (codesOfStatus[status] ?? own);
  return { code, message, status, requestId, retryAfterMs };
}

/** Why a server is in the status ERROR. */
export function failureOf(fault = 'nova does not say why'): CreationFailure {
  return { code: codeOfText(fault) ?? 'BuildFailed', message: fault };
}

function codeOfText(text: string): string | undefined {
  return texts.find(([, pattern]) => pattern.test(text))?.[0];
}

/** What OpenStack calls a field of the class when it refuses its value. The first that fits counts. */
const wordsOfFields = [
  ['keyName', /key_name|key ?pair/i],
  ['availabilityZone', /availability zone/i],
  ['serverGroupID', /(server|instance) group|scheduler hint/i],
  ['rootDiskType', /volume type/i],
  ['securityGroups', /security ?group/i],
  ['subnetIDs', /subnet/i],
  ['networkID', /network_id|network \S+ could not be found/i],
  ['imageID', /image/i],
] as const satisfies readonly (readonly [keyof OpenstackProviderSpec, RegExp])[];

/**
 * ` (providerSpec.spec.keyName is "x")` for the field that a message complains of; empty if it names a field, or none
 * is known.
 */
export function culpritOf(message: string, spec: OpenstackProviderSpec): string {
  if (message.includes('providerSpec.')) return '';
  const field = wordsOfFields.find(([name, words]) => spec[name] !== undefined && words.test(message))?.[0];
  return field === undefined ? '' : ` (providerSpec.spec.${field} is ${JSON.stringify(spec[field])})`;
}
