import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { z } from 'zod';
import type { Logger } from '../../../kube/logger.ts';
import { keepAliveTimeout } from '../keep-alive.ts';
import { type CloudAnswer, createCloudApi, toAnswer, toPartAnswer } from './api.ts';
import { Fault } from './faults.ts';
import { type CloudState, isAlive, type StoredVm, stateOf } from './state.ts';

interface ServerOptions {
  readonly state: CloudState;
  readonly tokens: readonly string[];
  /** 0: any free one. */
  readonly port: number;
  /** Called for each VM that starts: created, or restarted by hand. */
  readonly onStart: (vm: StoredVm) => void;
  readonly logger: Logger;
}

const Faults = z.strictObject({ faults: z.array(Fault) });
const Interrupt = z.strictObject({ afterMs: z.int().min(0) });

/** Serves the cloud on 127.0.0.1: its API under `/v1`, and an admin API without credentials under `/`. */
export async function startServer({ state, tokens, port, onStart, logger }: ServerOptions) {
  const serveCloud = createCloudApi({ state, tokens, onCreated: onStart });

  function serveAdmin(method: string, url: URL, body: unknown): CloudAnswer {
    const [, id, act] = /^\/vms\/([^/]+)\/(kill|restart|interrupt)$/.exec(url.pathname) ?? [];
    if (id !== undefined && act === 'interrupt' && method === 'POST') return interrupt(id, body);
    if (id !== undefined && method === 'POST') return act === 'kill' ? kill(id) : restart(id);
    switch (`${method} ${url.pathname}`) {
      case 'GET /vms':
        return ok(vms(url.searchParams.get('all') === 'true'));
      case 'GET /resources':
        return ok(existing());
      case 'GET /calls':
        return ok(state.calls());
      case 'GET /stats':
        return ok(state.stats());
      case 'GET /faults':
        return ok({ faults: state.faults() });
      case 'PUT /faults':
        return putFaults(body);
      case 'POST /reset':
        return reset();
      default:
        return refuse(404, `there is no ${method} ${url.pathname}`);
    }
  }

  function vms(all: boolean) {
    const now = Date.now();
    const shown = all ? state.vms() : state.vms().filter((vm) => stateOf(vm, now) !== 'terminated');
    return shown.map((vm) => ({ ...vm, ...toAnswer(vm), alive: isAlive(vm, now) }));
  }

  function existing() {
    const parts = state.parts(Date.now()).map(toPartAnswer);
    return [
      ...vms(false).map(({ id, kind, tags }) => ({ id, kind, tags })),
      ...parts.map(({ id, kind, tags, vm }) => ({ id, kind, tags, vm })),
    ];
  }

  function putFaults(body: unknown): CloudAnswer {
    const { data, error } = Faults.safeParse(body);
    if (error) return refuse(400, z.prettifyError(error));
    state.setFaults(data.faults);
    return ok({ faults: state.faults() });
  }

  function reset(): CloudAnswer {
    const now = Date.now();
    for (const { id } of vms(false)) state.update(id, { vanishesAt: now });
    for (const part of state.parts(now)) state.updatePart(part, { deletedAt: now });
    return ok(existing());
  }

  function kill(id: string): CloudAnswer {
    const vm = state.update(id, { diesAt: Date.now() });
    return vm ? ok(toAnswer(vm)) : refuse(404, `there is no VM ${id}`);
  }

  function interrupt(id: string, body: unknown): CloudAnswer {
    const { data, error } = Interrupt.safeParse(body);
    if (error) return refuse(400, z.prettifyError(error));
    const vm = state.update(id, { isInterrupted: true, vanishesAt: Date.now() + data.afterMs });
    return vm ? ok(toAnswer(vm)) : refuse(404, `there is no VM ${id}`);
  }

  function restart(id: string): CloudAnswer {
    const before = state.vm(id);
    if (before === undefined || stateOf(before, Date.now()) === 'terminated')
      return refuse(404, `there is no VM ${id}`);
    const bootedAt = Date.now() + before.bootMs;
    const booted = { diesAt: null, neverJoins: false, bootedAt, restarts: before.restarts + 1, nodeUid: null };
    const vm = state.update(id, booted);
    if (vm) onStart(vm);
    return ok(toAnswer(vm ?? before));
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const method = request.method ?? 'GET';
    const url = new URL(request.url ?? '/', 'http://cloud');
    const id = randomUUID();
    const body = await json(request).catch(() => undefined);
    const { authorization } = request.headers;
    const answer = url.pathname.startsWith('/v1/')
      ? await serveCloud(id, { method, url, authorization, body })
      : serveAdmin(method, url, body);
    if (answer === 'lost') {
      request.socket.destroy();
      return;
    }
    response.writeHead(answer.status, { 'content-type': 'application/json', 'x-request-id': id, ...answer.headers });
    response.end(JSON.stringify(answer.body));
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
  const address = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${address.port}`,
    async stop(): Promise<void> {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function ok(body: unknown): CloudAnswer {
  return { status: 200, body };
}

function refuse(status: number, message: string): CloudAnswer {
  return { status, body: { error: { code: status === 404 ? 'NotFound' : 'InvalidParameter', message } } };
}
