import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { Logger } from '../../../kube/logger.ts';
import { type ActiveFault, faultOf, latencyMs } from '../faults.ts';
import { keepAliveTimeout } from '../keep-alive.ts';
import type { createEc2 } from './ec2.ts';
import { Fault, faultsOf, type ShownFault } from './faults.ts';
import type { Instances } from './instances.ts';
import { region as defaultRegion, type Moto } from './moto.ts';
import type { Seeds } from './seeds.ts';
import { filtersOf, type Params, Refusal, tagsFor, toAnswer, toErrorAnswer, valuesOf } from './wire.ts';

/** One request to the cloud's API. */
export interface CallRecord {
  /** Also the answer's request id. */
  readonly id: string;
  readonly at: string;
  /** `ec2` or `sts`. */
  readonly service: string;
  readonly action: string;
  /** All parameters as sent, but for Action and Version. */
  readonly parameters: Params;
  readonly accessKeyId?: string | undefined;
  /** HTTP status, `lost` when the connection was cut, or `pending`. */
  outcome: number | 'lost' | 'pending';
  /** Whether the cloud has done what the call asks for. */
  effect: boolean;
  /** Error code of the answer. */
  code?: string;
}

interface ServerOptions {
  readonly moto: Moto;
  readonly ec2: ReturnType<typeof createEc2>;
  readonly instances: Instances;
  readonly accessKeys: readonly string[];
  readonly port: number;
  readonly seeds: Seeds;
  readonly logger: Logger;
}

/** A request to the cloud's API as it was read. */
interface Call {
  readonly headers: Record<string, string>;
  readonly body: string;
  readonly action: string;
  readonly params: Params;
  readonly service: string;
  readonly region: string;
  readonly accessKeyId: string | undefined;
}

interface Answer {
  readonly status: number;
  readonly xml: string;
}

const Faults = z.strictObject({ faults: z.array(Fault) });

/**
 * Serves the cloud on 127.0.0.1: its API at `/`, the same without credentials, faults and record at `/direct`, and an
 * admin API.
 */
export async function startServer({ moto, ec2, instances, accessKeys, port, seeds, logger }: ServerOptions) {
  const calls: CallRecord[] = [];
  const known = new Set(accessKeys);
  let active: ActiveFault<Fault>[] = [];
  const releases = new Set<() => void>();

  async function answerCall(call: Call): Promise<Answer | 'lost'> {
    const { service, action, params: parameters, accessKeyId } = call;
    const id = randomUUID();
    const record: CallRecord = {
      ...{ id, at: new Date().toISOString(), service, action, parameters, accessKeyId },
      ...{ outcome: 'pending', effect: false },
    };
    calls.push(record);
    try {
      const answer = await meetFaults(record, call);
      record.outcome = answer === 'lost' ? answer : answer.status;
      return answer;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      record.outcome = error.status;
      record.code = error.code;
      return { status: error.status, xml: toErrorAnswer(service, id, error) };
    }
  }

  async function meetFaults(record: CallRecord, call: Call): Promise<Answer | 'lost'> {
    const faults = faultsOf(active, { action: call.action, ...subjectOf(call.params) });
    const outage = faultOf(faults, 'outage');
    if (outage?.how === 'disconnect') return 'lost';
    if (outage) throw new Refusal(503, 'Unavailable', 'The server is overloaded and cannot handle the request.');
    const latency = faultOf(faults, 'latency');
    if (latency) await sleep(latencyMs(latency));
    refuseCaller(call, faults);

    const hang = faultOf(faults, 'hang');
    const lost = faultOf(faults, 'lostAnswer');
    const never = hang?.effect === 'none' || lost?.effect === 'none';
    const isOver = hang && (hang.ms === undefined ? faultsReplaced() : sleep(hang.ms));
    const answer = never ? undefined : act(record.id, call, faults, false);
    // A refusal, too, comes only when the hang is over, and may be lost.
    const isDone = answer?.then(
      ({ status }) => status < 300,
      () => false,
    );
    record.effect = (await isDone) ?? false;
    await isOver;
    return lost || answer === undefined ? 'lost' : answer;
  }

  function faultsReplaced(): Promise<void> {
    return new Promise((resolve) => releases.add(resolve));
  }

  function refuseCaller({ service, action, accessKeyId }: Call, faults: readonly ShownFault[]): void {
    const isUnsigned = service === 'sts' && accessKeyId === undefined;
    if (!isUnsigned && !known.has(accessKeyId ?? '')) {
      throw service === 'ec2'
        ? new Refusal(401, 'AuthFailure', 'AWS was not able to validate the provided access credentials')
        : new Refusal(403, 'InvalidClientTokenId', 'The security token included in the request is invalid.');
    }
    if (faultOf(faults, 'expired')) throw new Refusal(400, 'RequestExpired', 'Request has expired.');
    if (faultOf(faults, 'throttle')) throw new Refusal(503, 'RequestLimitExceeded', 'Request limit exceeded.');
    if (faultOf(faults, 'unauthorized')) {
      const details = Buffer.from(JSON.stringify({ allowed: false, action: `${service}:${action}` })).toString(
        'base64',
      );
      const message =
        'You are not authorized to perform this operation. User: arn:aws:iam::123456789012:user/machines is not ' +
        `authorized to perform: ${service}:${action} because no identity-based policy allows the ${service}:${action} ` +
        `action. Encoded authorization failure message: ${details}`;
      throw new Refusal(403, 'UnauthorizedOperation', message);
    }
  }

  async function act(id: string, call: Call, faults: readonly ShownFault[], seesAll: boolean): Promise<Answer> {
    const { service, headers, body, action, params, region } = call;
    if (service === 'ec2') {
      const elements = await ec2({ action, params, region, faults, seesAll });
      return { status: 200, xml: toAnswer(action, id, elements) };
    }
    const answer = await moto.forward(headers, body);
    const [, temporary] = /<AccessKeyId>([^<]+)</.exec(answer.xml) ?? [];
    if (temporary !== undefined) known.add(temporary);
    return answer;
  }

  function subjectOf(params: Params) {
    const instance = instances.get(valuesOf(params, 'InstanceId')[0] ?? '');
    return {
      machineType: instance?.machineType ?? params['InstanceType'],
      tags: instance?.tags ?? { ...tagsFor(params, 'instance'), ...tagsInFilters(params) },
    };
  }

  async function answerDirectly(call: Call): Promise<Answer> {
    const id = randomUUID();
    return act(id, call, [], true).catch((error: unknown) => {
      if (!(error instanceof Refusal)) throw error;
      return { status: error.status, xml: toErrorAnswer(call.service, id, error) };
    });
  }

  function serveAdmin(route: string, body: string): { status: number; json: unknown } {
    switch (route) {
      case 'GET /seeds':
        return { status: 200, json: seeds };
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

  function putFaults(body: string): { status: number; json: unknown } {
    const { data, error } = Faults.safeParse(JSON.parse(body));
    if (error) return { status: 400, json: { error: z.prettifyError(error) } };
    active = data.faults.map((fault) => ({ fault, met: 0, shown: 0 }));
    for (const release of releases) release();
    releases.clear();
    return { status: 200, json: { faults: active } };
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(request.url ?? '/', 'http://cloud');
    const body = await text(request);
    const isDirect = pathname.startsWith('/direct');
    if (request.method !== 'POST' || (pathname !== '/' && !isDirect)) {
      const { status, json } = serveAdmin(`${request.method} ${pathname}`, body);
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(json));
      return;
    }
    const call = toCall(request, body);
    const answer = await (isDirect ? answerDirectly(call) : answerCall(call));
    if (answer === 'lost') {
      request.socket.destroy();
      return;
    }
    response.writeHead(answer.status, { 'content-type': 'text/xml' });
    response.end(answer.xml);
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
    url: `http://127.0.0.1:${port}`,
    async stop(): Promise<void> {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** What a list is to be filtered by. */
function tagsInFilters(params: Params): Record<string, string> {
  const filters = filtersOf(params).filter(({ name }) => name.startsWith('tag:'));
  return Object.fromEntries(filters.map(({ name, values }) => [name.slice('tag:'.length), values[0] ?? '']));
}

/** The service and region are in the signature. STS is also asked without one. */
function toCall({ headers: { authorization, ...headers } }: IncomingMessage, body: string): Call {
  const { Action: action = '', Version: _, ...params } = Object.fromEntries(new URLSearchParams(body));
  const [, accessKeyId, region = defaultRegion, service = 'sts'] =
    /Credential=([^/]+)\/\d+\/([^/]+)\/([^/]+)\//.exec(authorization ?? '') ?? [];
  const kept = { 'content-type': headers['content-type'] ?? '', ...(authorization !== undefined && { authorization }) };
  return { headers: kept, body, action, params, service, region, accessKeyId };
}
