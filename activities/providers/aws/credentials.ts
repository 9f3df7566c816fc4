/** What the Secrets of a class say about credentials. */
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

export const secretKeys: readonly string[] = ['providerSecretAccessKey', 'secretAccessKey'];

/** Keys of an account, or a role that a token of the workload's identity is exchanged for. */
export type AwsCredentials =
  | { readonly accessKeyId: string; readonly secretAccessKey: string }
  | { readonly webIdentityTokenFile: string; readonly roleArn: string };

const key = z.string().optional();
const Keys = z.object({
  providerAccessKeyId: key,
  accessKeyID: key,
  providerSecretAccessKey: key,
  secretAccessKey: key,
  workloadIdentityTokenFile: key,
  roleARN: key,
} satisfies Record<(typeof credentialKeys)[number], typeof key>);

/** Either kind. Where there are both, the token, as in machine-controller-manager-provider-aws. */
export const AwsCredentials = Keys.transform((keys, context): AwsCredentials => {
  const { workloadIdentityTokenFile: webIdentityTokenFile, roleARN: roleArn } = keys;
  const accessKeyId = keys.providerAccessKeyId ?? keys.accessKeyID;
  const secretAccessKey = keys.providerSecretAccessKey ?? keys.secretAccessKey;
  if (webIdentityTokenFile !== undefined && roleArn !== undefined) return { webIdentityTokenFile, roleArn };
  if (accessKeyId !== undefined && secretAccessKey !== undefined) return { accessKeyId, secretAccessKey };
  context.addIssue(
    'no Secret has credentials: add the keys providerAccessKeyId and providerSecretAccessKey, or ' +
      'workloadIdentityTokenFile and roleARN',
  );
  return z.NEVER;
});
