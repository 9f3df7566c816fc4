/** Tokens of Entra ID. */

import type { TokenCredential } from '@azure/core-auth';
import {
  AggregateAuthenticationError,
  AuthenticationError,
  AuthenticationRequiredError,
  AzureAuthorityHosts,
  ChainedTokenCredential,
  ClientAssertionCredential,
  ClientSecretCredential,
  CredentialUnavailableError,
  EnvironmentCredential,
  ManagedIdentityCredential,
  WorkloadIdentityCredential,
} from '@azure/identity';
import { z } from 'zod';
import type { ConnectionHooks, Refusal } from '../kit/cloud.ts';
import { ProviderError } from '../provider.ts';
import type { AzureCredentials } from './credentials.ts';
import type { AzureProviderSpec } from './schema.ts';

type CloudName = AzureProviderSpec['cloudConfiguration']['name'];

const authorityHosts: Record<CloudName, string> = {
  AzurePublic: AzureAuthorityHosts.AzurePublicCloud,
  AzureChina: AzureAuthorityHosts.AzureChina,
  AzureGovernment: AzureAuthorityHosts.AzureGovernment,
};

/** An authority that the environment names is not one that Microsoft knows. */
function optionsOf(cloud: CloudName) {
  const given = process.env['AZURE_AUTHORITY_HOST'];
  return {
    authorityHost: given || authorityHosts[cloud],
    disableInstanceDiscovery: Boolean(given),
    retryOptions: { maxRetries: 0 },
  };
}

export function identityOf(
  given: AzureCredentials,
  cloud: CloudName,
  { readToken }: Pick<ConnectionHooks, 'readToken'>,
): TokenCredential {
  const { tenantId, clientId } = given;
  const options = optionsOf(cloud);
  const credential =
    'clientSecret' in given
      ? new ClientSecretCredential(tenantId, clientId, given.clientSecret, options)
      : new ClientAssertionCredential(tenantId, clientId, () => readToken(given.tokenFile), options);
  return explained(credential, options.authorityHost, tenantId);
}

const tenantTimeoutMs = 10_000;

/**
 * The SDK says the same where a tenant does not exist and where Entra ID does not answer: an outage is no wrong
 * credential.
 */
function explained(credential: TokenCredential, authorityHost: string, tenantId: string): TokenCredential {
  return {
    async getToken(scopes, options) {
      try {
        return await credential.getToken(scopes, options);
      } catch (error) {
        if (!(error instanceof Error)) throw error;
        if (error.cause instanceof ProviderError) throw error.cause; // of the token file
        if (!error.message.includes('endpoints_resolution_error')) throw error;
        const url = new URL(`${encodeURIComponent(tenantId)}/v2.0/.well-known/openid-configuration`, authorityHost);
        const signal = AbortSignal.timeout(tenantTimeoutMs);
        const status = await fetch(url, { signal }).then(
          (answer) => answer.status,
          () => 503,
        );
        if (status < 400 || status > 499 || status === 429) {
          throw new ProviderError('Unavailable', `Entra ID at ${url.origin} does not answer`, { cause: error });
        }
        const message = `Entra ID knows no tenant ${tenantId}: correct tenantID`;
        throw new ProviderError('Unauthenticated', message, { cause: error });
      }
    },
  };
}

/** What the environment says of an application or a workload, else the managed identity of the VM. */
export function findIdentity(cloud: CloudName): { subscriptionId: string; credential: TokenCredential } {
  const { AZURE_SUBSCRIPTION_ID: subscriptionId, AZURE_FEDERATED_TOKEN_FILE, AZURE_CLIENT_ID: clientId } = process.env;
  if (!subscriptionId) {
    throw new ProviderError(
      'InvalidArgument',
      'the worker has no AZURE_SUBSCRIPTION_ID in its environment: set it, or give the class a Secret',
    );
  }
  const options = optionsOf(cloud);
  const sources: TokenCredential[] = [
    new EnvironmentCredential(options),
    ...(AZURE_FEDERATED_TOKEN_FILE ? [new WorkloadIdentityCredential(options)] : []),
    clientId ? new ManagedIdentityCredential({ ...options, clientId }) : new ManagedIdentityCredential(options),
  ];
  return { subscriptionId, credential: new ChainedTokenCredential(...sources) };
}

/** What the SDK has as the reason of an error: MSAL's code, and the status that Entra ID has answered. */
const Caused = z.object({
  cause: z.object({ errorCode: z.string().optional(), status: z.int().optional() }).optional(),
});

/** MSAL's codes of answers that are not in the format of Entra ID, which it quotes. */
const unreadableCodes = ['unknown_error', 'client_error', 'server_error'];

/** What Entra ID says; undefined for any other error. It names the application and what is wrong, and no secret. */
export function identityRefusalOf(error: unknown): Refusal | undefined {
  if (error instanceof AuthenticationError) {
    const { errorDescription, error: reason, correlationId } = error.errorResponse;
    return {
      code: error.name,
      message: errorDescription?.split('\n\n')[0] ?? reason, // an answer that the SDK cannot read comes after that
      status: error.statusCode,
      requestId: correlationId,
    };
  }
  const isUnavailable = error instanceof CredentialUnavailableError || error instanceof AggregateAuthenticationError;
  if (isUnavailable) return { code: error.name, message: error.message, status: 401 };
  if (!(error instanceof AuthenticationRequiredError)) return undefined;
  const { errorCode, status = 401 } = Caused.safeParse(error).data?.cause ?? {};
  if (errorCode === 'network_error') {
    return { code: 'ServiceUnavailable', message: 'Entra ID does not answer', status: 503 };
  }
  const isReadable = errorCode === undefined || !unreadableCodes.includes(errorCode);
  const [, description] =
    (isReadable && /Description: (.*?)(?:\s+Trace ID| - Correlation ID|$)/s.exec(error.message)) || [];
  const message = description ?? `Entra ID gives neither a token nor a reason${errorCode ? ` (${errorCode})` : ''}`;
  const isBusy = status === 429 || status >= 500;
  return { code: isBusy ? 'ServiceUnavailable' : error.name, message, status };
}
