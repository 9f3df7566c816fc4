import { randomUUID } from 'node:crypto';
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { Logger } from '../../../kube/logger.ts';
import { type ActiveFault, faultOf, latencyMs } from '../faults.ts';
import { keepAliveTimeout } from '../keep-alive.ts';
import { actionOf, linkedActionsOf } from './actions.ts';
import type { Arm, ArmAnswer } from './arm.ts';
import { Fault, faultsOf, type ShownFault, toStateFaults } from './faults.ts';
import { expiredToken, type Identity } from './identity.ts';
import { createRateLimits } from './rate-limits.ts';
import { Refusal, toArmError } from './refusal.ts';
import type { Seeds } from './seeds.ts';

/** One request to the cloud. */
export interface CallRecord {
  /** Also the answer's request id. */
  readonly id: string;
  readonly at: string;
  /** Azure Resource Manager, Entra ID, or the metadata service. */
  readonly service: 'arm' | 'entra' | 'imds';
  readonly method: string;
  /** With its query. */
  readonly path: string;
  /** What a role has to permit, for example `Microsoft.Compute/virtualMachines/write`. */
  readonly action: string;
  /** What a role has to permit besides, for resources that the request names. */
  readonly linkedActions: readonly string[];
  /** Of the token. */
  clientId?: string;
  /** HTTP status, `lost` when the connection was cut, or `pending`. */
  outcome: number | 'lost' | 'pending';
  /** Whether the cloud has done, or has started, what the call asks for. */
  effect: boolean;
  /** Error code of the answer. */
  code?: string;
}

interface ServerOptions {
  readonly arm: Arm;
  readonly identity: Identity;
  readonly certificate: { readonly cert: string; readonly key: string };
  readonly port: number;
  readonly adminPort: number;
  readonly seeds: Seeds;
  readonly logger: Logger;
}

/** A request as it was read. */
interface Call {
  readonly method: string;
  readonly url: string;
  readonly path: string;
  readonly authorization: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly action: string;
  readonly content: Content;
}

const Faults = z.strictObject({ faults: z.array(Fault) });

/** What faults ask about the body of a request. */
const Content = z.object({
  tags: z.record(z.string(), z.string()).nullish(),
  properties: z.object({ hardwareProfile: z.object({ vmSize: z.string().optional() }).nullish() }).nullish(),
});
type Content = z.output<typeof Content>;

/**
 * Serves the cloud on 127.0.0.1: Azure Resource Manager and Entra ID over TLS on one port, the first at `/direct` also
 * without credentials, faults and record; an admin API and the metadata service on the other.
 */
export async function startServer(options: ServerOptions) {
  const { arm, identity, certificate, port, adminPort, seeds, logger } = options;
  const url = `https://127.0.0.1:${port}`;
  const adminUrl = `http://127.0.0.1:${adminPort}`;
  const calls: CallRecord[] = [];
  const rateLimits = createRateLimits();
  let active: ActiveFault<Fault>[] = [];
  const releases = new Set<() => void>();

  async function answerCall(call: Call): Promise<ArmAnswer | 'lost'> {
    const id = randomUUID();
    const record: CallRecord = {
      ...{ id, at: new Date().toISOString(), service: 'arm' as const, method: call.method, path: call.url },
      ...{ action: call.action, linkedActions: linkedActionsOf(call.method, parsed(call.body)) },
      ...{ outcome: 'pending', effect: false },
    };
    calls.push(record);
    const headers: Record<string, string> = { 'x-ms-request-id': id, 'x-ms-correlation-request-id': id };
    try {
      const answer = await meetFaults(record, call, headers);
      record.outcome = answer === 'lost' ? answer : answer.status;
      if (answer === 'lost') return answer;
      const code = codeOf(answer);
      if (code !== undefined) record.code = code;
      return { ...answer, headers: { ...answer.headers, ...headers } };
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      record.outcome = error.status;
      record.code = error.code;
      return toAnswer(error.status, toArmError(error), { ...headers, ...error.headers });
    }
  }

  async function meetFaults(
    record: CallRecord,
    call: Call,
    headers: Record<string, string>,
  ): Promise<ArmAnswer | 'lost'> {
    const { content, action } = call;
    const vmSize = content.properties?.hardwareProfile?.vmSize;
    const faults = faultsOf(active, { action, vmSize, tags: content.tags ?? {} });
    const outage = faultOf(faults, 'outage');
    if (outage?.how === 'disconnect') return 'lost';
    if (outage)
      throw new Refusal(503, 'ServiceUnavailable', 'The service is temporarily unavailable. Please retry later.');
    const latency = faultOf(faults, 'latency');
    if (latency) await sleep(latencyMs(latency));
    record.clientId = identity.callerOf(call.authorization);
    if (faultOf(faults, 'expired')) throw expiredToken();
    refuseBusy(call, record.clientId, faults, headers);
    if (faultOf(faults, 'unauthorized')) throw unauthorized(call, record.clientId);

    const hang = faultOf(faults, 'hang');
    const lost = faultOf(faults, 'lostAnswer');
    const never = hang?.effect === 'none' || lost?.effect === 'none';
    const isOver = hang && (hang.ms === undefined ? faultsReplaced() : sleep(hang.ms));
    const answer = never ? undefined : await act(call, url, toStateFaults(faults));
    record.effect = answer !== undefined && answer.status < 300;
    await isOver; // a refusal, too, comes only then
    return lost || answer === undefined ? 'lost' : answer;
  }

  function faultsReplaced(): Promise<void> {
    return new Promise((resolve) => releases.add(resolve));
  }

  /** Also puts into `headers` what the caller has left. */
  function refuseBusy(call: Call, clientId: string, faults: readonly ShownFault[], headers: Record<string, string>) {
    const allowance = rateLimits.count(clientId, call.method, call.action, faultOf(faults, 'rateLimit'));
    Object.assign(headers, allowance.headers);
    const throttle = faultOf(faults, 'throttle');
    if (throttle) throw tooMany(call.action, throttle.retryAfterSeconds);
    if (allowance.retryAfterSeconds !== undefined) {
      const message =
        `Number of '${allowance.kind}' requests for subscription '${seeds.subscriptionId}' actor '${clientId}' exceeded. ` +
        `Please try again after '${allowance.retryAfterSeconds}' seconds after additional tokens are available. Refer to ` +
        'https://aka.ms/arm-throttling for additional information.';
      const wait = { 'retry-after': String(allowance.retryAfterSeconds) };
      throw new Refusal(429, 'SubscriptionRequestsThrottled', message, { headers: wait });
    }
  }

  /** @param base what the links in the answer begin with */
  function act({ method, url: path, body, headers }: Call, base: string, faults: object): Promise<ArmAnswer> {
    const own = { 'cloud-base': base, 'cloud-faults': JSON.stringify(faults) };
    return arm.send({ method, path, body, headers: { ...headers, ...own } });
  }

  function recordToken(service: 'entra' | 'imds', request: IncomingMessage, status: number): void {
    calls.push({
      ...{ id: randomUUID(), at: new Date().toISOString(), service, method: request.method ?? '' },
      ...{ path: request.url ?? '', action: 'token', linkedActions: [], outcome: status, effect: status < 300 },
    });
  }

  async function serveCloud(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request);
    const { pathname } = new URL(request.url ?? '/', url);
    const token = identity.serve(url, pathname, body);
    if (token) {
      recordToken('entra', request, token.status);
      end(response, toAnswer(token.status, token.json));
      return;
    }
    if (pathname.startsWith('/direct/')) {
      const call = toCall(request, (request.url ?? '').slice('/direct'.length), body);
      const headers = { ...call.headers, 'cloud-sees-all': 'yes' };
      end(response, await act({ ...call, headers }, `${url}/direct`, {}));
      return;
    }
    const answer = await answerCall(toCall(request, request.url ?? '/', body));
    if (answer === 'lost') request.socket.destroy();
    else end(response, answer);
  }

  async function serveAdmin(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request);
    const { pathname, searchParams } = new URL(request.url ?? '/', adminUrl);
    if (pathname.startsWith('/metadata/identity/oauth2/token')) {
      const { metadata } = request.headers;
      const { status, json } = identity.serveMetadata(metadata?.toString(), searchParams);
      recordToken('imds', request, status);
      end(response, toAnswer(status, json));
      return;
    }
    end(response, await administer(`${request.method} ${pathname}`, body));
  }

  async function administer(route: string, body: string): Promise<ArmAnswer> {
    switch (route) {
      case 'GET /seeds':
        return toAnswer(200, seeds);
      case 'GET /calls':
        return toAnswer(200, calls);
      case 'GET /faults':
        return toAnswer(200, { faults: active });
      case 'PUT /faults':
        return putFaults(body);
      case 'POST /reset':
        await arm.send({ method: 'DELETE', path: '/', body: '', headers: {} });
        return toAnswer(200, {});
      default:
        return toAnswer(404, { error: `there is no ${route}` });
    }
  }

  function putFaults(body: string): ArmAnswer {
    const { data, error } = Faults.safeParse(JSON.parse(body));
    if (error) return toAnswer(400, { error: z.prettifyError(error) });
    active = data.faults.map((fault) => ({ fault, met: 0, shown: 0 }));
    for (const release of releases) release();
    releases.clear();
    return toAnswer(200, { faults: active });
  }

  const listener = (serve: typeof serveCloud) => (request: IncomingMessage, response: ServerResponse) => {
    serve(request, response).catch((err: unknown) => {
      logger.error({ err, method: request.method, url: request.url }, 'serving a request failed');
      request.socket.destroy();
    });
  };
  const servers = [
    { server: createTlsServer({ keepAliveTimeout, ...certificate }, listener(serveCloud)), at: port },
    { server: createHttpServer({ keepAliveTimeout }, listener(serveAdmin)), at: adminPort },
  ];
  for (const { server, at } of servers) {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(at, '127.0.0.1', resolve);
    });
  }
  return {
    url,
    adminUrl,
    async stop(): Promise<void> {
      for (const { server } of servers) {
        server.closeAllConnections();
        await new Promise((resolve) => server.close(resolve));
      }
    },
  };
}

function toCall(request: IncomingMessage, url: string, body: string): Call {
  const { method = '' } = request;
  const [path = ''] = url.split('?');
  const names = ['content-type', 'if-match', 'if-none-match'];
  const headers = Object.fromEntries(
    names.flatMap((name) => [[name, request.headers[name]]]).filter(([, value]) => value),
  );
  const { data: content = {} } = Content.safeParse(parsed(body));
  const { authorization } = request.headers;
  return { method, url, path, authorization, headers, body, action: actionOf(method, path), content };
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined; // the codec says so
  }
}

function codeOf({ status, body }: ArmAnswer): string | undefined {
  if (status < 400) return undefined;
  const { data } = z.object({ error: z.object({ code: z.string() }) }).safeParse(parsed(body));
  return data?.error.code;
}

function toAnswer(status: number, json: object, headers: Readonly<Record<string, string>> = {}): ArmAnswer {
  return {
    status,
    headers: { 'content-type': 'application/json; charset=utf-8', ...headers },
    body: JSON.stringify(json),
  };
}

function end(response: ServerResponse, { status, headers, body }: ArmAnswer): void {
  response.writeHead(status, headers);
  response.end(body);
}

function unauthorized({ action, path }: Call, clientId: string): Refusal {
  const message =
    `The client '${clientId}' with object id '${clientId}' does not have authorization to perform action '${action}' over ` +
    `scope '${path}' or the scope is invalid. If access was recently granted, please refresh your credentials.`;
  return new Refusal(403, 'AuthorizationFailed', message);
}

/**
 * How a resource provider says that it has too much to do. The compute provider uses the code that it also has for
 * quotas.
 */
function tooMany(action: string, seconds: number): Refusal {
  const headers = { 'retry-after': String(seconds) };
  if (!action.startsWith('Microsoft.Compute/')) {
    return new Refusal(429, 'TooManyRequests', 'The request is being throttled.', { headers });
  }
  const message = 'The server rejected the request because too many requests have been received for this subscription.';
  const [startTime, endTime] = [new Date(Date.now() - 180_000), new Date()];
  const group = {
    operationGroup: 'HighCostGet3Min',
    startTime,
    endTime,
    allowedRequestCount: 200,
    measuredRequestCount: 260,
  };
  const details = [{ code: 'TooManyRequests', target: 'HighCostGet3Min', message: JSON.stringify(group) }];
  return new Refusal(429, 'OperationNotAllowed', message, { headers, details });
}
