/** Requests to OpenStack, with the credentials of a class. */
import type { ConnectionHooks, Session } from '../kit/cloud.ts';
import { ProviderError } from '../provider.ts';
import { createOpenstack, NoAnswerError, type Openstack, type Page, type Query } from './client/index.ts';
import type { OpenstackCredentials } from './credentials.ts';

/** Where the servers are. */
export interface Reach {
  readonly spec: { readonly region: string };
}

/** A connection, and the IDs of names that it has looked up. */
export interface Connection {
  readonly region: string;
  readonly openstack: Openstack;
  readonly ids: Map<string, { readonly id: Promise<string>; readonly untilMs: number }>;
}

/** nova and cinder take their time, and proxies in front of them give them as long, ms. */
const timeoutMs = 60_000;

export function connect(
  { spec: { region } }: Reach,
  { authUrl, credentials, tls }: OpenstackCredentials,
  { onToken }: ConnectionHooks,
): Connection {
  const openstack = createOpenstack({ authUrl, credentials, region, tls, timeoutMs, onToken });
  return { region, openstack, ids: new Map() };
}

/** Sends one request. Throws as `Session.send` does. @param isRead it changes nothing in the cloud */
export function call<T>(
  { client: { openstack }, signal, send }: Session<Connection>,
  act: (openstack: Openstack, signal: AbortSignal) => Promise<T>,
  isRead = false,
): Promise<T> {
  return send(async () => {
    try {
      return await act(openstack, signal);
    } catch (error) {
      if (!(error instanceof NoAnswerError)) throw error;
      const code = error.code === undefined ? 'DeadlineExceeded' : 'Unavailable';
      throw new ProviderError(code, hintOf(error), { cloudCode: error.code, cause: error });
    }
  }, isRead);
}

/** The same for a request that changes nothing. */
export function read<T>(
  session: Session<Connection>,
  act: (openstack: Openstack, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return call(session, act, true);
}

/** A resource; undefined where there is none. */
export async function find<T>(
  session: Session<Connection>,
  act: (openstack: Openstack, signal: AbortSignal) => Promise<T>,
): Promise<T | undefined> {
  try {
    return await read(session, act);
  } catch (error) {
    if (error instanceof ProviderError && error.code === 'NotFound') return undefined;
    throw error;
  }
}

/** All pages of a list. */
export async function all<T>(
  session: Session<Connection>,
  query: Query,
  page: (openstack: Openstack, query: Query, signal: AbortSignal) => Promise<Page<T>>,
): Promise<T[]> {
  const found: T[] = [];
  for (let next: Query | undefined = query; next !== undefined; ) {
    const asked: Query = next;
    const answer: Page<T> = await read(session, (openstack, signal) => page(openstack, asked, signal));
    found.push(...answer.items);
    next = answer.next;
  }
  return found;
}

/** A certificate that is not trusted is not the cloud's fault. */
function hintOf({ message, code = '' }: NoAnswerError): string {
  return /CERT|SSL|TLS|SELF_SIGNED|LEAF_SIGNATURE/.test(code)
    ? `${message}: the key caCert of the Secret needs the certificate authority of the cloud`
    : message;
}
