/** An OpenStack that keeps the requests as they were sent, and answers what a test has said. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { keepAliveTimeout } from '../../deploy/local/keep-alive.ts';

/** A request to a service. */
export interface SentRequest {
  /** Method, service and path, as `GET compute/servers/detail`. */
  readonly what: string;
  readonly query: Readonly<Record<string, string>>;
  readonly json: unknown;
  readonly headers: IncomingMessage['headers'];
}

/** What it answers: a body, or a status with one. */
export type OpenstackAnswer = object | { readonly status: number; readonly body?: unknown; readonly headers?: object };
type Given = OpenstackAnswer | ((request: SentRequest) => OpenstackAnswer);

export type RecordingOpenstack = Awaited<ReturnType<typeof startRecordingOpenstack>>;

/** Services of its catalogue: the type, and the path that the catalogue lacks. */
const services = { compute: '/v2.1', network: '', image: '', volumev3: '/v3/project-1' };

/** Starts it on a free port of this host. It gives tokens `token-1`, `token-2` and so on. */
export async function startRecordingOpenstack() {
  const requests: SentRequest[] = [];
  let answers: Readonly<Record<string, Given>> = {};
  let tokens = 0;
  let livesMs = 3_600_000;
  let types: readonly string[] = Object.keys(services);

  function login(response: ServerResponse): void {
    tokens += 1;
    const nowMs = Date.now();
    const catalog = types.map((type) => {
      const url = `${urlOf()}/${type}${services[type as keyof typeof services]}`;
      const endpoint = { url, interface: 'public', region: 'one', region_id: 'one' };
      const internal = { ...endpoint, interface: 'internal', url: 'http://internal.invalid' };
      const elsewhere = { ...endpoint, region: 'two', region_id: 'two', url: 'http://two.invalid' };
      return { type, endpoints: [internal, elsewhere, endpoint] };
    });
    response.writeHead(201, { 'x-subject-token': `token-${tokens}` });
    const times = { issued_at: new Date(nowMs), expires_at: new Date(nowMs + livesMs) };
    response.end(JSON.stringify({ token: { ...times, project: { id: 'project-1' }, catalog } }));
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://localhost');
    const body = await text(request);
    const path = pathname.replace(/^\//, '').replace(/^(\w+)\/(v2\.1|v2\.0|v2|v3\/project-1)(?=\/)/, '$1');
    const sent: SentRequest = {
      what: `${request.method} ${path}`,
      query: Object.fromEntries(searchParams),
      json: body === '' ? undefined : JSON.parse(body),
      headers: request.headers,
    };
    requests.push(sent);
    const given = answers[sent.what] ?? (path === 'identity/v3/auth/tokens' ? undefined : {});
    if (given === undefined) return login(response);
    const answer = typeof given === 'function' ? given(sent) : given;
    const { status, body: content, headers } = 'status' in answer ? answer : { status: 200, body: answer };
    response.writeHead(Number(status), { 'x-openstack-request-id': 'req-1', ...headers });
    response.end(content === undefined ? '' : typeof content === 'string' ? content : JSON.stringify(content));
  }

  const server = createServer({ keepAliveTimeout }, (request, response) => {
    serve(request, response).catch((error: unknown) => response.destroy(error as Error));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const urlOf = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    /** Of keystone, without the version. */
    authUrl: `${urlOf()}/identity`,
    /** All so far but logins, oldest first. */
    requests: (what?: string) =>
      requests.filter((each) => (what === undefined ? !each.what.startsWith('POST identity') : each.what === what)),
    logins: () => requests.filter((each) => each.what === 'POST identity/v3/auth/tokens'),
    /**
     * Forgets the requests, and answers so from now on, by method and path as in `what`. All else is answered with
     * `{}`.
     * @param more how long tokens live, and the types of the services in the catalogue
     */
    answer(next: Readonly<Record<string, Given>>, more: { livesMs?: number; types?: readonly string[] } = {}) {
      requests.length = 0;
      answers = next;
      livesMs = more.livesMs ?? 3_600_000;
      types = more.types ?? Object.keys(services);
    },
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
