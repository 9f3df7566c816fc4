import type { Cloud } from '../kit/cloud.ts';

/**
 * Error codes of EC2 and STS (docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html). The capacity codes are
 * those of machine-controller-manager-provider-aws, with more that mean the same.
 */
export const errors = {
  // capacity and quota
  InsufficientCapacity: 'ResourceExhausted',
  InsufficientAddressCapacity: 'ResourceExhausted',
  InsufficientFreeAddressesInSubnet: 'ResourceExhausted',
  InsufficientHostCapacity: 'ResourceExhausted',
  InsufficientInstanceCapacity: 'ResourceExhausted',
  InsufficientReservedInstanceCapacity: 'ResourceExhausted',
  InsufficientVolumeCapacity: 'ResourceExhausted',
  InstanceLimitExceeded: 'ResourceExhausted',
  MaxIOPSLimitExceeded: 'ResourceExhausted',
  MaxSpotInstanceCountExceeded: 'ResourceExhausted',
  NetworkInterfaceLimitExceeded: 'ResourceExhausted',
  ReservationCapacityExceeded: 'ResourceExhausted',
  RouteLimitExceeded: 'ResourceExhausted',
  SpotMaxPriceTooLow: 'ResourceExhausted',
  Unsupported: 'ResourceExhausted',
  UnsupportedHostConfiguration: 'ResourceExhausted',
  VcpuLimitExceeded: 'ResourceExhausted',
  VolumeLimitExceeded: 'ResourceExhausted',
  // throttling
  RequestLimitExceeded: 'Throttled',
  RequestThrottled: 'Throttled',
  Throttling: 'Throttled',
  ThrottlingException: 'Throttled',
  EC2ThrottledException: 'Throttled',
  // credentials
  AuthFailure: 'Unauthenticated',
  ExpiredToken: 'Unauthenticated',
  ExpiredTokenException: 'Unauthenticated',
  IDPRejectedClaim: 'Unauthenticated',
  InvalidClientTokenId: 'Unauthenticated',
  InvalidIdentityToken: 'Unauthenticated',
  MissingAuthenticationToken: 'Unauthenticated',
  RequestExpired: 'Unauthenticated',
  SignatureDoesNotMatch: 'Unauthenticated',
  UnrecognizedClientException: 'Unauthenticated',
  // permissions
  AccessDenied: 'PermissionDenied',
  AccessDeniedException: 'PermissionDenied',
  Blocked: 'PermissionDenied',
  OptInRequired: 'PermissionDenied',
  PendingVerification: 'PermissionDenied',
  UnauthorizedOperation: 'PermissionDenied',
  // what the class says
  'InvalidAMIID.Malformed': 'InvalidArgument',
  'InvalidAMIID.NotFound': 'InvalidArgument',
  'InvalidAMIID.Unavailable': 'InvalidArgument',
  InvalidBlockDeviceMapping: 'InvalidArgument',
  'InvalidGroup.NotFound': 'InvalidArgument',
  'InvalidKeyPair.NotFound': 'InvalidArgument',
  InvalidParameter: 'InvalidArgument',
  InvalidParameterCombination: 'InvalidArgument',
  InvalidParameterValue: 'InvalidArgument',
  'InvalidPlacementGroup.Unknown': 'InvalidArgument',
  'InvalidSecurityGroupID.NotFound': 'InvalidArgument',
  'InvalidSnapshot.NotFound': 'InvalidArgument',
  'InvalidSubnetID.NotFound': 'InvalidArgument',
  MissingParameter: 'InvalidArgument',
  UnknownParameter: 'InvalidArgument',
  // an earlier request with this token was taken, so there may be a VM
  IdempotentParameterMismatch: 'Internal',
  // the cloud itself
  InternalError: 'Unavailable',
  InternalFailure: 'Unavailable',
  ServerInternal: 'Unavailable',
  ServiceUnavailable: 'Unavailable',
  Unavailable: 'Unavailable',
  // of what is to be deleted or looked at
  DependencyViolation: 'Aborted',
  IncorrectInstanceState: 'Aborted',
  IncorrectState: 'Aborted',
  VolumeInUse: 'Aborted',
  'InvalidInstanceID.NotFound': 'NotFound',
  'InvalidNetworkInterfaceID.NotFound': 'NotFound',
  'InvalidVolume.NotFound': 'NotFound',
} as const satisfies Cloud<never, never, never, never>['errors'];
