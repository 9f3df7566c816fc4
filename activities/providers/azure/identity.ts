/** Tokens of Entra ID. */

import type { TokenCredential } from '@azure/core-auth';
import {
  AggregateAuthenticationError,
  AuthenticationError,
  AuthenticationRequiredError,
  AzureAuthorityHosts,
  ChainedTokenCredential,
  ClientSecretCredential,
  CredentialUnavailableError,
  EnvironmentCredential,
  ManagedIdentityCredential,
  WorkloadIdentityCredential,
} from '@azure/identity';
import { z } from 'zod';
import type { Refusal } from '../kit/cloud.ts';
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

export function identityOf(given: AzureCredentials, cloud: CloudName): TokenCredential {
  const { tenantId, clientId } = given;
  if ('clientSecret' in given)
    return new ClientSecretCredential(tenantId, clientId, given.clientSecret, optionsOf(cloud));
  const { tokenFile: tokenFilePath } = given;
  return named(
    new WorkloadIdentityCredential({ ...optionsOf(cloud), tenantId, clientId, tokenFilePath }),
    tokenFilePath,
  );
}

/** Says which file cannot be read. */
function named(credential: TokenCredential, file: string): TokenCredential {
  return {
    async getToken(scopes, options) {
      try {
        return await credential.getToken(scopes, options);
      } catch (error) {
        if (!(error instanceof Error) || !/ENOENT|EACCES|EISDIR|No content on the file/.test(error.message))
          throw error;
        const message = `the token file ${file} cannot be read: mount it into the worker`;
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

const Caused = z.object({ cause: z.object({ name: z.string(), code: z.string().optional() }).optional() });

/** What Entra ID says; undefined for any other error. It names the application and what is wrong, and no secret. */
export function identityRefusalOf(error: unknown): Refusal | undefined {
  if (error instanceof AuthenticationError) {
    const { errorDescription, error: reason, correlationId } = error.errorResponse;
    return {
      code: error.name,
      message: errorDescription ?? reason,
      status: error.statusCode,
      requestId: correlationId,
    };
  }
  if (error instanceof CredentialUnavailableError && error.message.includes('endpoints_resolution_error')) {
    const message =
      'Entra ID does not answer for this tenant: correct tenantID, and see that the worker reaches Entra ID';
    return { code: error.name, message, status: 401 };
  }
  const isUnavailable = error instanceof CredentialUnavailableError || error instanceof AggregateAuthenticationError;
  if (isUnavailable) return { code: error.name, message: error.message, status: 401 };
  if (!(error instanceof AuthenticationRequiredError)) return undefined;
  const { cause } = Caused.safeParse(error).data ?? {};
  if (cause?.code !== undefined && cause.name !== 'ServerError') return undefined; // no connection
  const [, description = error.message] =
    /Description: (.*?)(?: Trace ID| - Correlation ID|$)/.exec(error.message) ?? [];
  return { code: error.name, message: description, status: 401 };
}
