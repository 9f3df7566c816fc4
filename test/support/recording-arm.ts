/**
 * Azure Resource Manager and Entra ID with TLS, which keep the requests as they were sent and answer what a test has
 * said.
 */

import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import tls from 'node:tls';
import { generate } from 'selfsigned';
import { keepAliveTimeout } from '../../deploy/local/keep-alive.ts';

/** A request to ARM. */
export interface ArmRequest {
  /** Method, and path behind the namespace of the resource provider, as `GET virtualMachines/workers-1`. */
  readonly name: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage['headers'];
  readonly body: unknown;
}

export interface ArmAnswer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** Instead of a body, as it is. */
  readonly text?: string;
  /** Instead of a body: an error with this code. */
  readonly code?: string;
  readonly message?: string;
}

/**
 * Answers by the names of requests; of Entra ID `tenant` and `token`. Where there is none: nothing is found, lists are
 * empty, and everything else succeeds.
 */
export type ArmAnswers = Readonly<Record<string, ArmAnswer | ((request: ArmRequest) => ArmAnswer)>>;

export type RecordingArm = Awaited<ReturnType<typeof startRecordingArm>>;

/** Starts it on a free port of this host, and has this process trust its certificate. */
export async function startRecordingArm() {
  // Of two certificates with one name that a process trusts, it would take the first.
  const { cert, private: key } = await generate([{ name: 'commonName', value: randomUUID() }], {
    ...({ keyType: 'ec', algorithm: 'sha256' } as const),
    extensions: [
      { name: 'basicConstraints', cA: true, critical: true },
      { name: 'subjectAltName', altNames: [{ type: 7, ip: '127.0.0.1' }] },
    ],
  });
  tls.setDefaultCACertificates([...tls.getCACertificates('default'), cert]);

  const requests: ArmRequest[] = [];
  const grants: Record<string, string>[] = [];
  let answers: ArmAnswers = {};
  let url = '';

  function grant(path: string, body: string): ArmAnswer {
    const [, tenant = ''] = path.split('/');
    const authority = `${url}/${tenant}`;
    if (path.endsWith('openid-configuration')) {
      const ofTenant = answers['tenant'];
      if (ofTenant !== undefined && typeof ofTenant !== 'function') return ofTenant;
      const [token_endpoint, issuer] = [`${authority}/oauth2/v2.0/token`, `${authority}/v2.0`];
      return { body: { token_endpoint, issuer, authorization_endpoint: authority, jwks_uri: authority } };
    }
    grants.push({ tenant, ...Object.fromEntries(new URLSearchParams(body)) });
    const given = answers['token'];
    if (given !== undefined && typeof given !== 'function') return given;
    return { body: { token_type: 'Bearer', expires_in: 3_600, access_token: `token-${grants.length}` } };
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams: query } = new URL(request.url ?? '', url);
    const sent = await text(request);
    const { headers } = request;
    if (!pathname.startsWith('/subscriptions/')) return send(response, grant(pathname, sent));
    const [, resource = pathname] = /^.*\/providers\/[^/]+\/(.*)$/.exec(pathname) ?? [];
    const body: unknown = sent === '' ? undefined : JSON.parse(sent);
    const made: ArmRequest = { name: `${request.method} ${decodeURIComponent(resource)}`, query, headers, body };
    requests.push(made);
    const given = answers[made.name];
    send(response, (typeof given === 'function' ? given(made) : given) ?? byDefault(made));
  }

  function byDefault({ name: requestName, body }: ArmRequest): ArmAnswer {
    const [method = '', path = ''] = requestName.split(' ');
    const operation = {
      'azure-asyncoperation': `${url}/subscriptions/sub-1/providers/Microsoft.Compute/locations/l/operations/op-1?api-version=1`,
    };
    if (method === 'GET' && path.includes('/subnets/')) return { body: { id: path, name: 'nodes' } };
    if (method === 'GET')
      return path.split('/').length % 2 === 1 ? { body: { value: [] } } : { status: 404, code: 'ResourceNotFound' };
    if (method === 'DELETE') return { status: 202, headers: operation };
    const provisioningState = path.startsWith('virtualMachines/') ? 'Creating' : 'Succeeded';
    const sentBody = (body ?? {}) as { properties?: object };
    return {
      status: method === 'PUT' ? 201 : 200,
      headers: operation,
      body: { ...sentBody, properties: { ...sentBody.properties, provisioningState } },
    };
  }

  const server = createServer({ key, cert, keepAliveTimeout }, (request, response) => {
    serve(request, response).catch((error: unknown) => response.destroy(error as Error));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    /** All so far, oldest first; those whose name begins so. */
    requests: (start = '') => requests.filter(({ name: each }) => each.startsWith(start)),
    names: () => requests.map(({ name: each }) => each),
    /** Forms with which tokens were asked for. */
    grants: () => grants,
    /** Forgets the requests, and answers so from now on. */
    answer(next: ArmAnswers) {
      requests.length = 0;
      grants.length = 0;
      answers = next;
    },
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function send(response: ServerResponse, answer: ArmAnswer): void {
  const { status = 200, headers = {}, body, text: given, code, message = 'no' } = answer;
  response.writeHead(code === undefined ? status : Math.max(status, 400), {
    'content-type': 'application/json',
    ...headers,
  });
  response.end(given ?? JSON.stringify(code === undefined ? body : { error: { code, message } }));
}
