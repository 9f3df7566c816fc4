/** Entra ID and the metadata service as far as they give tokens. */
import { randomUUID } from 'node:crypto';
import { Refusal } from './refusal.ts';

/** Who may have a token. */
export interface Principal {
  readonly tenantId: string;
  readonly clientId: string;
  readonly clientSecret: string;
}

export interface JsonAnswer {
  readonly status: number;
  readonly json: object;
}

export type Identity = ReturnType<typeof createIdentity>;

/** @param tokenMs how long a token is valid, ms */
export function createIdentity({ principal, tokenMs }: { principal: Principal; tokenMs: number }) {
  const tokens = new Map<string, { readonly clientId: string; readonly expiresAt: number }>();

  function issue(clientId: string) {
    const token = `token-${randomUUID()}`;
    const expiresAt = Date.now() + tokenMs;
    tokens.set(token, { clientId, expiresAt });
    return { token, expiresAt, expiresIn: Math.floor(tokenMs / 1000) };
  }

  function discover(url: string, tenant: string): JsonAnswer {
    if (tenant !== principal.tenantId) return unknownTenant(tenant);
    const authority = `${url}/${tenant}`;
    return {
      status: 200,
      json: {
        token_endpoint: `${authority}/oauth2/v2.0/token`,
        authorization_endpoint: `${authority}/oauth2/v2.0/authorize`,
        device_authorization_endpoint: `${authority}/oauth2/v2.0/devicecode`,
        end_session_endpoint: `${authority}/oauth2/v2.0/logout`,
        jwks_uri: `${authority}/discovery/v2.0/keys`,
        issuer: `${authority}/v2.0`,
        token_endpoint_auth_methods_supported: ['client_secret_post', 'private_key_jwt'],
        response_types_supported: ['code', 'id_token', 'token'],
        subject_types_supported: ['pairwise'],
        scopes_supported: ['openid'],
        tenant_region_scope: 'EU',
      },
    };
  }

  function grant(tenant: string, form: URLSearchParams): JsonAnswer {
    if (tenant !== principal.tenantId) return unknownTenant(tenant);
    if (form.get('grant_type') !== 'client_credentials') {
      return entraError(400, 'unsupported_grant_type', 70003, 'The app requested an unsupported grant type.');
    }
    const clientId = form.get('client_id') ?? '';
    if (clientId !== principal.clientId) {
      const message =
        `Application with identifier '${clientId}' was not found in the directory '${tenant}'. This can happen if the ` +
        'application has not been installed by the administrator of the tenant or consented to by any user in the tenant.';
      return entraError(400, 'unauthorized_client', 700016, message);
    }
    const assertion = form.get('client_assertion');
    if (assertion === null && form.get('client_secret') !== principal.clientSecret) {
      const message =
        'Invalid client secret provided. Ensure the secret being sent in the request is the client secret value, not the ' +
        `client secret ID, for a secret added to app '${clientId}'.`;
      return entraError(401, 'invalid_client', 7000215, message);
    }
    if (assertion !== null && assertion.split('.').length !== 3) {
      return entraError(401, 'invalid_client', 50027, 'JWT token is invalid or malformed.');
    }
    const { token, expiresIn } = issue(clientId);
    return {
      status: 200,
      json: { token_type: 'Bearer', expires_in: expiresIn, ext_expires_in: expiresIn, access_token: token },
    };
  }

  return {
    /** Answers a request to the authority host; undefined where the path is none of Entra's. */
    serve(url: string, path: string, body: string): JsonAnswer | undefined {
      const [, tenant = '', rest = ''] = /^\/([^/]+)\/(.*)$/.exec(path) ?? [];
      if (rest.endsWith('.well-known/openid-configuration')) return discover(url, tenant);
      if (rest === 'oauth2/v2.0/token') return grant(tenant, new URLSearchParams(body));
      return undefined;
    },

    /** Answers a request of a machine for a token of its managed identity. */
    serveMetadata(metadata: string | undefined, query: URLSearchParams): JsonAnswer {
      if (metadata !== 'true') {
        const json = { error: 'bad_request_102', error_description: 'Required metadata header not specified' };
        return { status: 400, json };
      }
      const clientId = query.get('client_id') ?? principal.clientId;
      if (clientId !== principal.clientId) {
        return { status: 400, json: { error: 'invalid_request', error_description: 'Identity not found' } };
      }
      const { token, expiresIn, expiresAt } = issue(clientId);
      return {
        status: 200,
        json: {
          access_token: token,
          client_id: clientId,
          expires_in: String(expiresIn),
          expires_on: String(Math.floor(expiresAt / 1000)),
          ext_expires_in: String(expiresIn),
          not_before: String(Math.floor(Date.now() / 1000)),
          resource: query.get('resource') ?? '',
          token_type: 'Bearer',
        },
      };
    },

    /** Who sends a request. Throws a Refusal where the token is none or has expired. */
    callerOf(authorization: string | undefined): string {
      const [, token = ''] = /^Bearer (.*)$/.exec(authorization ?? '') ?? [];
      const known = tokens.get(token);
      if (authorization === undefined) {
        const message =
          "Authentication failed. The 'Authorization' header is missing or the access token is in an invalid format.";
        throw unauthenticated('AuthenticationFailed', message);
      }
      if (!known) throw unauthenticated('InvalidAuthenticationToken', 'The access token is invalid.');
      if (Date.now() >= known.expiresAt) throw expiredToken();
      return known.clientId;
    },
  };
}

/** The answer to a token that was valid once. */
export function expiredToken(): Refusal {
  return unauthenticated(
    'ExpiredAuthenticationToken',
    'The access token expiry UTC time is earlier than current UTC time.',
  );
}

function unauthenticated(code: string, message: string): Refusal {
  const challenge = 'Bearer authorization_uri="https://login.windows.net/", error="invalid_token"';
  return new Refusal(401, code, message, { headers: { 'www-authenticate': challenge } });
}

function unknownTenant(tenant: string): JsonAnswer {
  const message =
    `Tenant '${tenant}' not found. Check to make sure you have the correct tenant ID and are signing into the correct ` +
    'cloud. Check with your subscription administrator, this may happen if there are no active subscriptions for the tenant.';
  return entraError(400, 'invalid_request', 90002, message);
}

function entraError(status: number, error: string, number: number, message: string): JsonAnswer {
  const [trace, correlation] = [randomUUID(), randomUUID()];
  const timestamp = new Date().toISOString().replace('T', ' ').replace(/\..*/, 'Z');
  const description = `AADSTS${number}: ${message} Trace ID: ${trace} Correlation ID: ${correlation} Timestamp: ${timestamp}`;
  return {
    status,
    json: {
      ...{ error, error_description: description, error_codes: [number], timestamp },
      ...{
        trace_id: trace,
        correlation_id: correlation,
        error_uri: `https://login.microsoftonline.com/error?code=${number}`,
      },
    },
  };
}
