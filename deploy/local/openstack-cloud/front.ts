import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { request as send } from 'undici';
import { z } from 'zod';
import type { Logger } from '../../../kube/logger.ts';
import { type ActiveFault, faultOf, latencyMs } from '../faults.ts';
import { keepAliveTimeout } from '../keep-alive.ts';
import { Refused } from './api.ts';
import { type Ports, urlOf } from './config.ts';
import { Fault, faultsOf, isSetting, type ShownFault } from './faults.ts';
import { operationOf, type Prefix, prefixes } from './operation.ts';
import { forbidden, type Refusal, throttled, unauthorized, unavailable } from './refusals.ts';
import type { Project } from './seeds.ts';

/** One request to the cloud's API. */
export interface CallRecord {
  readonly at: string;
  readonly service: Prefix;
  /** Method and path, generic: `DELETE /compute/servers/{id}`. */
  readonly operation: string;
  readonly method: string;
  /** As sent, with the query. */
  readonly path: string;
  /** The body if it is JSON. Those of keystone are left out. */
  readonly body?: unknown;
  /** HTTP status, `lost` when the connection was cut, or `pending`. */
  outcome: number | 'lost' | 'pending';
  /** Whether OpenStack has done what the call asks for. */
  effect: boolean;
  /** The one that OpenStack has given the request. */
  requestId?: string | undefined;
}

interface FrontOptions {
  readonly ports: Ports;
  readonly project: Project;
  readonly port: number;
  readonly logger: Logger;
}

/** A request to the cloud's API as it was read. */
interface Call {
  readonly prefix: Prefix;
  readonly operation: string;
  readonly method: string;
  /** Path and query that the service gets. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  readonly body: string;
}

const Faults = z.strictObject({ faults: z.array(Fault) });

/** Headers of a connection, not of a message, and what the body is no more once it is rewritten. */
const ofConnection = new Set([
  ...['connection', 'keep-alive', 'transfer-encoding', 'content-length', 'host', 'expect', 'upgrade'],
  ...['accept-encoding', 'date', 'server'],
]);

/**
 * Serves one project of an OpenStack on 127.0.0.1: each service at a path of its own, which its answers name, too, and
 * an admin API. Only what comes through here meets faults.
 */
export async function startFront({ ports, project, port, logger }: FrontOptions) {
  const url = urlOf(port);
  const calls: CallRecord[] = [];
  let active: ActiveFault<Fault>[] = [];
  const releases = new Set<() => void>();
  const tokens = new Set<string>();
  /** Those that were there when the faults were set. */
  let oldTokens = new Set<string>();
  /** Until when a server is not listed, ms since 1970. */
  const hiddenUntil = new Map<string, number>();
  const addresses = Object.entries(prefixes).map(([prefix, name]) => [urlOf(ports[name]), `${url}/${prefix}`] as const);
  /** Services name themselves and each other. */
  const rewritten = (text: string) => addresses.reduce((rest, [from, to]) => rest.replaceAll(from, to), text);

  async function answerCall(call: Call): Promise<Answer | 'lost'> {
    const { prefix, operation, method, target } = call;
    const record: CallRecord = {
      ...{ at: new Date().toISOString(), service: prefix, operation, method, path: `/${prefix}${target}` },
      ...(prefix !== 'identity' && { body: jsonOf(call.body) }),
      ...{ outcome: 'pending', effect: false },
    };
    calls.push(record);
    const answer = await meetFaults(record, call);
    record.outcome = answer === 'lost' ? answer : answer.status;
    return answer;
  }

  async function meetFaults(record: CallRecord, call: Call): Promise<Answer | 'lost'> {
    const hasOldToken = oldTokens.has(call.headers['x-auth-token'] ?? '');
    const faults = faultsOf(active, { operation: call.operation, hasOldToken });
    const isDown = faultOf(faults, 'outage');
    if (isDown?.how === 'disconnect') return 'lost';
    const latency = faultOf(faults, 'latency');
    if (latency) await sleep(latencyMs(latency));
    const refusal = refusalOf(call, faults);
    if (refusal) return toAnswer(refusal);

    const hang = faultOf(faults, 'hang');
    const lost = faultOf(faults, 'lostAnswer');
    const isOver = hang && (hang.ms === undefined ? faultsReplaced() : sleep(hang.ms));
    const never = hang?.effect === 'none' || lost?.effect === 'none';
    const answer = never ? undefined : await act(record, call, faults);
    await isOver;
    return lost || answer === undefined ? 'lost' : answer;
  }

  function refusalOf({ prefix, operation }: Call, faults: readonly ShownFault[]): Refusal | undefined {
    const throttle = faultOf(faults, 'throttle');
    if (faultOf(faults, 'outage')) return unavailable();
    if (throttle) return throttled(throttle.status, throttle.retryAfterSeconds);
    if (faultOf(faults, 'expired')) return unauthorized(`${url}/identity`);
    if (faultOf(faults, 'forbidden')) return forbidden(prefix, operation);
    return undefined;
  }

  function faultsReplaced(): Promise<void> {
    return new Promise((resolve) => releases.add(resolve));
  }

  /** Has OpenStack do it. */
  async function act(record: CallRecord, call: Call, faults: readonly ShownFault[]): Promise<Answer> {
    const answer = await forward(call);
    record.effect = answer.status < 300;
    record.requestId = String(answer.headers['x-openstack-request-id'] ?? '') || undefined;
    if (call.operation === 'POST /identity/auth/tokens') tokens.add(String(answer.headers['x-subject-token']));
    const hiding = faultOf(faults, 'invisible');
    if (hiding && record.effect) {
      const { server } = JSON.parse(answer.body);
      hiddenUntil.set(server.id, Date.now() + hiding.ms);
    }
    return /^GET \/compute\/servers(?:\/detail)?$/.test(call.operation) ? withoutHidden(answer) : answer;
  }

  async function forward({ prefix, method, target, headers, body }: Call): Promise<Answer> {
    const answer = await send(urlOf(ports[prefixes[prefix]]) + target, {
      ...{ method: method as 'GET', headers },
      ...(body.length > 0 && { body }),
      ...{ headersTimeout: 0, bodyTimeout: 0 },
    });
    const kept = Object.entries(answer.headers).filter(([name]) => !ofConnection.has(name));
    return {
      status: answer.statusCode,
      headers: Object.fromEntries(
        kept.map(([name, value = '']) => [name, Array.isArray(value) ? value.map(rewritten) : rewritten(value)]),
      ),
      body: rewritten(await answer.body.text()),
    };
  }

  function withoutHidden(answer: Answer): Answer {
    if (hiddenUntil.size === 0 || answer.status !== 200) return answer;
    const json: { servers: { id: string }[] } = JSON.parse(answer.body);
    const servers = json.servers.filter(({ id }) => (hiddenUntil.get(id) ?? 0) < Date.now());
    return { ...answer, body: JSON.stringify({ ...json, servers }) };
  }

  async function serveAdmin(route: string, body: Buffer): Promise<{ status: number; json: unknown }> {
    switch (route) {
      case 'GET /seeds':
        return { status: 200, json: project.seeds };
      case 'GET /calls':
        return { status: 200, json: calls };
      case 'GET /faults':
        return { status: 200, json: { faults: active } };
      case 'PUT /faults':
        return putFaults(body);
      default:
        return { status: 404, json: { error: `there is no ${route}` } };
    }
  }

  async function putFaults(body: Buffer): Promise<{ status: number; json: unknown }> {
    const { data, error } = Faults.safeParse(JSON.parse(body.toString()));
    if (error) return { status: 400, json: { error: z.prettifyError(error) } };
    try {
      await project.set(data.faults.filter(isSetting));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return { status: 500, json: { error: error.message } };
    }
    active = data.faults.map((fault) => ({ fault, met: 0, shown: 0 }));
    oldTokens = new Set(tokens);
    for (const release of releases) release();
    releases.clear();
    return { status: 200, json: { faults: active } };
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await buffer(request);
    const call = toCall(request, body);
    if (call === undefined) {
      const { pathname } = new URL(request.url ?? '/', url);
      const { status, json } = await serveAdmin(`${request.method} ${pathname}`, body);
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(json));
      return;
    }
    const answer = await answerCall(call);
    if (answer === 'lost') {
      request.socket.destroy();
      return;
    }
    response.writeHead(answer.status, answer.headers as Record<string, string | string[]>);
    response.end(answer.body);
  }

  const server = createServer({ keepAliveTimeout }, (request, response) => {
    serve(request, response).catch((err: unknown) => {
      logger.error({ err, method: request.method, url: request.url }, 'serving a request failed');
      request.socket.destroy();
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  return {
    url,
    async stop(): Promise<void> {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Undefined when the path names no service. */
function toCall({ method = 'GET', url = '/', headers }: IncomingMessage, body: Buffer): Call | undefined {
  const [, prefix = '', rest = ''] = /^\/([^/?]+)(.*)$/.exec(url) ?? [];
  if (!Object.hasOwn(prefixes, prefix)) return undefined;
  const kept = Object.entries(headers).filter(([name]) => !ofConnection.has(name));
  return {
    prefix: prefix as Prefix,
    operation: operationOf(method, prefix as Prefix, rest.replace(/\?.*/, '')),
    ...{ method, target: rest.startsWith('/') ? rest : `/${rest}`, body },
    headers: Object.fromEntries(kept.map(([name, value]) => [name, String(value)])),
  };
}

function toAnswer({ status, headers, json }: Refusal): Answer {
  return { status, headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(json) };
}

function jsonOf(body: Buffer): unknown {
  if (body.length === 0) return undefined;
  try {
    return JSON.parse(body.toString());
  } catch {
    return undefined;
  }
}
