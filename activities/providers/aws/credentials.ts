import { fromTokenFile } from '@aws-sdk/credential-provider-web-identity';
import type { AwsCredentialIdentityProvider } from '@smithy/types';
import { z } from 'zod';

/** Keys of Secrets, by the names that machine-controller-manager-provider-aws knows. */
export const credentialKeys = [
  'providerAccessKeyId',
  'accessKeyID',
  'providerSecretAccessKey',
  'secretAccessKey',
  'workloadIdentityTokenFile',
  'roleARN',
] as const;

const Keys = z.object(Object.fromEntries(credentialKeys.map((key) => [key, z.string().optional()]))) as z.ZodType<
  Partial<Record<(typeof credentialKeys)[number], string>>
>;

/** Static keys, or a role that a token of the workload's identity is exchanged for. */
export const AwsCredentials = Keys.transform((keys, context): AwsCredentialIdentityProvider => {
  const { workloadIdentityTokenFile: webIdentityTokenFile, roleARN: roleArn } = keys;
  const accessKeyId = keys.providerAccessKeyId ?? keys.accessKeyID;
  const secretAccessKey = keys.providerSecretAccessKey ?? keys.secretAccessKey;
  if (webIdentityTokenFile !== undefined && roleArn !== undefined) return fromTokenFile({ webIdentityTokenFile, roleArn });
  if (accessKeyId !== undefined && secretAccessKey !== undefined) return async () => ({ accessKeyId, secretAccessKey });
  context.addIssue(
    'no Secret has credentials: add the keys providerAccessKeyId and providerSecretAccessKey, or workloadIdentityTokenFile and roleARN',
  );
  return z.NEVER;
});
