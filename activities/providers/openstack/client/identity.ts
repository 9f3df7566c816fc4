/** keystone v3: tokens, and the service catalogue that comes with each. */
import type { Http } from './http.ts';

/** By its name, or by its ID. */
export type NameOrId = { readonly name: string } | { readonly id: string };

/** Who asks. A password is for one project; an application credential has its own. */
export type Credentials =
  | {
      readonly kind: 'password';
      readonly username: string;
      readonly userDomain: NameOrId;
      readonly password: string;
      /** A name counts within `projectDomain`. */
      readonly project: NameOrId;
      readonly projectDomain: NameOrId | undefined;
    }
  | { readonly kind: 'applicationCredential'; readonly id: string; readonly secret: string }
  | {
      readonly kind: 'applicationCredential';
      readonly name: string;
      readonly username: string;
      readonly userDomain: NameOrId;
      readonly secret: string;
    };

/** A service of the catalogue. */
export interface CatalogueEntry {
  readonly type: string;
  readonly endpoints: readonly Endpoint[];
}

interface Endpoint {
  readonly interface: string;
  /** Older releases of keystone have only `region`. */
  readonly region?: string | null;
  readonly region_id?: string | null;
  readonly url: string;
}

export interface Token {
  readonly value: string;
  readonly catalogue: readonly CatalogueEntry[];
  readonly projectId: string;
}

export type Tokens = ReturnType<typeof createTokens>;

/**
 * A token is replaced before it expires: after this share of its life, but not longer before than `longestMarginMs`.
 */
const usedShare = 0.9;
const longestMarginMs = 300_000;

/** Gets tokens. All requests of a client share one, and wait together for the next. */
export function createTokens(http: Http, authUrl: string, credentials: Credentials, onToken?: (token: string) => void) {
  const url = `${identityUrl(authUrl)}/auth/tokens`;
  const json = { auth: toAuth(credentials) };
  let current: { readonly token: Promise<Token>; renewAtMs: number; value?: string } | undefined;

  async function issue(): Promise<Token & { readonly livesMs: number }> {
    const { signal } = new AbortController(); // others wait for the same token, so nobody's signal ends the request
    const answer = await http.send({ service: 'identity', method: 'POST', url, json, signal });
    const { token } = answer.json as {
      token: { catalog?: CatalogueEntry[]; project?: { id: string }; issued_at: string; expires_at: string };
    };
    const value = String(answer.headers['x-subject-token']);
    onToken?.(value);
    return {
      value,
      catalogue: token.catalog ?? [],
      projectId: token.project?.id ?? '',
      livesMs: Date.parse(token.expires_at) - Date.parse(token.issued_at), // both by the same clock
    };
  }

  function renew(): Promise<Token> {
    const next: NonNullable<typeof current> = {
      renewAtMs: Number.POSITIVE_INFINITY,
      token: issue().then(
        ({ livesMs, ...token }) => {
          next.renewAtMs = performance.now() + Math.max(livesMs * usedShare, livesMs - longestMarginMs);
          next.value = token.value;
          return token;
        },
        (error: unknown) => {
          if (current === next) current = undefined;
          throw error;
        },
      ),
    };
    current = next;
    return next.token;
  }

  return {
    /** Throws as `Http.send` does. */
    get(signal: AbortSignal): Promise<Token> {
      const isUsable = current !== undefined && performance.now() < current.renewAtMs;
      return orAborted(isUsable && current ? current.token : renew(), signal);
    },
    /** A service has refused this token. */
    forget({ value }: Token): void {
      if (current?.value === value) current = undefined;
    },
  };
}

/** `https://keystone.example.com:5000`, with or without the version. */
function identityUrl(authUrl: string): string {
  const bare = authUrl.replace(/\/+$/, '');
  return bare.endsWith('/v3') ? bare : `${bare.replace(/\/v2\.0$/, '')}/v3`;
}

function toAuth(credentials: Credentials) {
  if (credentials.kind === 'password') {
    const { username, userDomain, password, project, projectDomain } = credentials;
    const user = { name: username, domain: userDomain, password };
    return {
      identity: { methods: ['password'], password: { user } },
      scope: { project: 'id' in project ? project : { ...project, domain: projectDomain } },
    };
  }
  const { secret } = credentials;
  const own =
    'id' in credentials
      ? { id: credentials.id, secret }
      : {
          name: credentials.name,
          secret,
          user: { name: credentials.username, domain: credentials.userDomain },
        };
  return { identity: { methods: ['application_credential'], application_credential: own } };
}

function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}
