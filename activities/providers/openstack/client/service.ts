/** Requests to one service, with the token of the client. */
import { NotInCatalogueError, OpenstackError } from './errors.ts';
import type { Http, HttpRequest } from './http.ts';
import type { Tokens } from './identity.ts';

/** Which of a service's endpoints. */
export interface Place {
  readonly region: string;
  readonly interface: 'public' | 'internal' | 'admin';
}

/** A kind of service. */
export interface ServiceKind {
  /** Its names in catalogues, the official one first. */
  readonly types: readonly string[];
  /** Version that its URL needs, where catalogues may leave that out. After it some have the ID of the project. */
  readonly version?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Parameters of a query. A list is one parameter for each element. */
export type Query = Readonly<Record<string, string | number | readonly string[] | undefined>> | string;

/** Part of a list. */
export interface Page<T> {
  readonly items: readonly T[];
  /** Query of the next part. */
  readonly next?: string;
}

/** What to ask a service for. */
export interface Ask {
  readonly method?: HttpRequest['method'];
  /** Below the URL of the service, as `/servers`. */
  readonly path: string;
  readonly query?: Query;
  readonly json?: unknown;
  /** Besides those of the service. */
  readonly headers?: Readonly<Record<string, string>>;
}

export type Service = ReturnType<typeof createService>;

/** Makes the access to a service. All of it throws as `Http.send` does, and NotInCatalogueError. */
export function createService(http: Http, tokens: Tokens, place: Place, kind: ServiceKind) {
  const [service = ''] = kind.types;

  async function send<T>(ask: Ask, signal: AbortSignal, isRetry = false): Promise<T> {
    const { method = 'GET', path, query = '', json } = ask;
    const token = await tokens.get(signal);
    const base = urlOf(kind, place, token.catalogue);
    const search = toSearch(query);
    const url = `${base}${path}${search && `?${search}`}`;
    const headers = { 'x-auth-token': token.value, ...kind.headers, ...ask.headers };
    try {
      return (await http.send({ service, method, url, headers, json, signal })).json as T;
    } catch (error) {
      if (isRetry || !(error instanceof OpenstackError) || error.status !== 401) throw error;
      tokens.forget(token); // it has expired or was revoked
      return send<T>(ask, signal, true);
    }
  }

  return {
    send: <T>(ask: Ask, signal: AbortSignal): Promise<T> => send<T>(ask, signal),

    /** A page of a list. @param key of the list in the answer */
    async page<T>(path: string, key: string, query: Query, signal: AbortSignal): Promise<Page<T>> {
      const answer = await send<Record<string, unknown>>({ path, query }, signal);
      const links = answer[`${key}_links`] as { rel: string; href: string }[] | undefined;
      const href = links?.find(({ rel }) => rel === 'next')?.href ?? (answer['next'] as string | undefined);
      // Behind a proxy the host of a link may be unreachable, so only its query is used.
      const next = href === undefined ? undefined : href.slice(href.indexOf('?') + 1);
      return { items: answer[key] as T[], ...(next !== undefined && { next }) };
    },

    /** Whether the catalogue has it. */
    async exists(signal: AbortSignal): Promise<boolean> {
      return endpointsOf(kind, place, (await tokens.get(signal)).catalogue).here.length > 0;
    },
  };
}

type Catalogue = Awaited<ReturnType<Tokens['get']>>['catalogue'];

function endpointsOf({ types }: ServiceKind, place: Place, catalogue: Catalogue) {
  const all = types
    .flatMap((type) => catalogue.filter((entry) => entry.type === type))
    .flatMap((entry) => entry.endpoints);
  const offered = all.filter((endpoint) => endpoint.interface === place.interface);
  const here = offered.filter(({ region, region_id }) => region_id === place.region || region === place.region);
  return { offered, here };
}

function urlOf(kind: ServiceKind, place: Place, catalogue: Catalogue): string {
  const { offered, here } = endpointsOf(kind, place, catalogue);
  const [endpoint] = here;
  if (endpoint === undefined) {
    const regions = new Set(offered.flatMap(({ region_id, region }) => region_id ?? region ?? []));
    throw new NotInCatalogueError(kind.types[0] ?? '', place.region, [...regions].toSorted());
  }
  const url = endpoint.url.replace(/\/+$/, '');
  return kind.version === undefined || /\/v\d+(\.\d+)?(\/|$)/.test(url) ? url : `${url}/${kind.version}`;
}

function toSearch(query: Query): string {
  if (typeof query === 'string') return query;
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).flatMap((each): [string, string][] =>
      each === undefined ? [] : [[name, String(each)]],
    ),
  );
  return new URLSearchParams(pairs).toString();
}
