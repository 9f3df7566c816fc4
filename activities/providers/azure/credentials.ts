/** What the Secrets of a class say about credentials. */
import { z } from 'zod';

/** Keys of Secrets, by the names that machine-controller-manager-provider-azure knows. */
export const credentialKeys = [
  'clientID',
  'azureClientId',
  'clientSecret',
  'azureClientSecret',
  'workloadIdentityTokenFile',
  'subscriptionID',
  'azureSubscriptionId',
  'tenantID',
  'azureTenantId',
] as const;

export const secretKeys: readonly string[] = ['clientSecret', 'azureClientSecret'];

/** An application in Entra ID, with its secret or a token that is exchanged. */
export type AzureCredentials = {
  readonly clientId: string;
  readonly subscriptionId: string;
  readonly tenantId: string;
} & ({ readonly clientSecret: string } | { readonly tokenFile: string });

const key = z.string().optional();
const Keys = z.object({
  clientID: key,
  azureClientId: key,
  clientSecret: key,
  azureClientSecret: key,
  workloadIdentityTokenFile: key,
  subscriptionID: key,
  azureSubscriptionId: key,
  tenantID: key,
  azureTenantId: key,
} satisfies Record<(typeof credentialKeys)[number], typeof key>);

/** A secret or a token file, but not both, as in machine-controller-manager-provider-azure. */
export const AzureCredentials = Keys.transform((keys, context): AzureCredentials => {
  const clientId = keys.clientID ?? keys.azureClientId;
  const subscriptionId = keys.subscriptionID ?? keys.azureSubscriptionId;
  const tenantId = keys.tenantID ?? keys.azureTenantId;
  const clientSecret = keys.clientSecret ?? keys.azureClientSecret;
  const { workloadIdentityTokenFile: tokenFile } = keys;
  if (clientSecret !== undefined && tokenFile !== undefined) {
    context.addIssue('the Secrets have both clientSecret and workloadIdentityTokenFile: remove one');
    return z.NEVER;
  }
  const missing = Object.entries({
    clientID: clientId,
    subscriptionID: subscriptionId,
    tenantID: tenantId,
    'clientSecret or workloadIdentityTokenFile': clientSecret ?? tokenFile,
  }).flatMap(([name, value]) => (value === undefined ? [name] : []));
  if (clientId === undefined || subscriptionId === undefined || tenantId === undefined || missing.length > 0) {
    context.addIssue(`no Secret has ${missing.join(', ')}: add what is missing to one`);
    return z.NEVER;
  }
  const common = { clientId, subscriptionId, tenantId };
  return clientSecret === undefined ? { ...common, tokenFile: tokenFile ?? '' } : { ...common, clientSecret };
});
