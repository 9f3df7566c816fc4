/** An HTTP proxy in front of a real API server that breaks what a test asks for, and counts what passes. */
import { writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent } from 'undici';
import { stringify } from 'yaml';
import { keepAliveTimeout } from '../../deploy/local/keep-alive.ts';
import { freePort } from '../../deploy/local/ports.ts';
import { type KubeconfigAccess, loadKubeconfig } from '../../kube/config.ts';

/** A request as the proxy saw it, forwarded or not. */
export interface SeenRequest {
  readonly method: string;
  readonly url: URL;
  readonly headers: IncomingMessage['headers'];
  readonly isWatch: boolean;
  /** On the clock of `performance.now()`. */
  readonly atMs: number;
}

/** What to do with a request instead of forwarding it. */
export type Fault =
  /** Answers itself; `thenHold` leaves the answer open, as a watch that says no more. */
  | { kind: 'answer'; status: number; headers?: Record<string, string>; body?: unknown; thenHold?: boolean }
  /** Resets the connection before the server hears of the request. */
  | { kind: 'reset' }
  /** Lets the server do the work and resets the connection instead of answering. */
  | { kind: 'lose-answer' }
  /** Accepts the request and never answers. */
  | { kind: 'hang' }
  /** Asks the server for the objects with this label alone. */
  | { kind: 'select'; labelSelector: string }
  /**
   * Forwards the request with another body, as a webhook that changes what is stored. `body` may also change the query.
   */
  | { kind: 'alter'; body(sent: unknown, query: URLSearchParams): unknown }
  /** Forwards the request after a while. */
  | { kind: 'delay'; ms: number }
  /** Forwards every part of the answer so much later than it came, as a watch that is behind. */
  | { kind: 'lag'; ms: number }
  /** Forwards the answer in pieces of so many bytes with a pause between. */
  | { kind: 'drip'; bytes: number; pauseMs: number };

/** Decides about one request; undefined forwards it. */
export type Rule = (request: SeenRequest) => Fault | undefined;

export interface FaultProxy {
  /** `http://127.0.0.1:<port>`; the same for the life of the proxy. */
  readonly server: string;
  /** For a client in this process. The proxy logs in to the server. */
  readonly access: KubeconfigAccess;
  /** Every request so far, oldest first. */
  readonly seen: readonly SeenRequest[];
  /** Connections accepted so far. */
  readonly connections: number;
  /** Sets the rule for requests from now on; without one all are forwarded. */
  setRule(rule?: Rule): void;
  /** Resets every open connection. */
  resetConnections(): void;
  /** Turns open connections into half-open ones: nothing arrives any more, nothing ends. New ones work. */
  silenceConnections(): void;
  /** Refuses connections, as a server that is down. */
  goDown(): Promise<void>;
  comeUp(): Promise<void>;
  /**
   * Forwards to the server of another kubeconfig from now on, as an address that leads elsewhere. Resets every open
   * connection.
   */
  leadTo(kubeconfig: string): Promise<void>;
  /** Writes a kubeconfig for other processes. */
  writeKubeconfig(path: string): Promise<void>;
  close(): Promise<void>;
}

/** Status objects as the API server writes them. */
export function statusBody(code: number, reason: string, message = reason): object {
  return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', code, reason, message };
}

/** Starts a proxy on a free port in front of the server of a kubeconfig. */
export async function startFaultProxy(kubeconfig: string): Promise<FaultProxy> {
  let upstream = await connect(kubeconfig);
  const sockets = new Set<Socket>();
  const seen: SeenRequest[] = [];
  let connections = 0;
  let silenced = new WeakSet<Socket>();
  let rule: Rule = () => undefined;

  const http = createServer({ keepAliveTimeout }, (request, response) => {
    handle(request, response).catch(() => reset(request.socket));
  });
  http.on('connection', (socket) => {
    connections += 1;
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
  });

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', upstream.server);
    const isWatch = url.searchParams.get('watch') === 'true';
    const entry = { method: request.method ?? '', url, headers: request.headers, isWatch, atMs: performance.now() };
    seen.push(entry);
    const fault = rule(entry);
    if (fault?.kind === 'hang' || silenced.has(request.socket)) return;
    if (fault?.kind === 'reset') {
      reset(request.socket);
      return;
    }
    if (fault?.kind === 'answer') {
      response.writeHead(fault.status, { 'content-type': 'application/json', ...fault.headers });
      response.write(typeof fault.body === 'string' ? fault.body : JSON.stringify(fault.body ?? {}));
      if (!fault.thenHold) response.end();
      return;
    }
    if (fault?.kind === 'select') url.searchParams.set('labelSelector', fault.labelSelector);
    if (fault?.kind === 'delay') await sleep(fault.ms);
    await forward(request, response, url, fault);
  }

  async function forward(request: IncomingMessage, response: ServerResponse, url: URL, fault: Fault | undefined) {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const gone = new AbortController();
    response.on('close', () => gone.abort());
    const sent = Buffer.concat(chunks);
    const altered =
      fault?.kind === 'alter'
        ? Buffer.from(JSON.stringify(fault.body(JSON.parse(String(sent)), url.searchParams)))
        : sent;
    const { host: _host, connection: _connection, 'transfer-encoding': _encoding, ...headers } = request.headers;
    const { agent, login } = upstream;
    const answer = await agent.request({
      origin: url.origin,
      path: url.pathname + url.search,
      method: (request.method ?? 'GET') as 'GET',
      headers: { ...headers, ...login, ...(altered !== sent && { 'content-length': String(altered.length) }) },
      body: altered.length > 0 ? altered : null,
      signal: gone.signal,
    });
    if (fault?.kind === 'lose-answer') {
      await answer.body.dump();
      reset(request.socket);
      return;
    }
    const { connection: _hop, 'transfer-encoding': _coding, ...answerHeaders } = answer.headers;
    response.writeHead(answer.statusCode, answerHeaders);
    response.flushHeaders();
    for await (const chunk of answer.body as AsyncIterable<Buffer>) {
      if (fault?.kind === 'lag') {
        setTimeout(() => silenced.has(request.socket) || response.write(chunk), fault.ms);
        continue;
      }
      for (const piece of fault?.kind === 'drip' ? pieces(chunk, fault.bytes) : [chunk]) {
        if (silenced.has(request.socket)) return;
        response.write(piece);
        if (fault?.kind === 'drip') await sleep(fault.pauseMs);
      }
    }
    if (fault?.kind === 'lag') await sleep(fault.ms);
    if (!silenced.has(request.socket)) response.end();
  }

  const listen = (port: number) =>
    new Promise<void>((resolve, reject) => {
      http.once('error', reject);
      http.listen(port, '127.0.0.1', () => {
        http.off('error', reject);
        resolve();
      });
    });
  const resetConnections = () => {
    for (const socket of sockets) reset(socket);
  };
  const goDown = async () => {
    const closed = new Promise((resolve) => http.close(resolve));
    resetConnections();
    await closed;
  };

  await listen(await freePort()); // nobody else takes it while the proxy is down
  const { port } = http.address() as AddressInfo;
  const server = `http://127.0.0.1:${port}`;
  return {
    server,
    access: { server, credentials: async () => ({ headers: {}, tls: {} }) },
    seen,
    get connections() {
      return connections;
    },
    setRule(next = () => undefined) {
      rule = next;
    },
    resetConnections,
    silenceConnections() {
      silenced = new WeakSet(sockets);
    },
    goDown,
    comeUp: () => listen(port),
    async leadTo(other) {
      const { agent } = upstream;
      upstream = await connect(other);
      resetConnections();
      await agent.destroy();
    },
    async writeKubeconfig(path) {
      const clusters = [{ name: 'proxy', cluster: { server } }];
      const contexts = [{ name: 'proxy', context: { cluster: 'proxy' } }];
      await writeFile(
        path,
        stringify({ apiVersion: 'v1', kind: 'Config', clusters, contexts, 'current-context': 'proxy' }),
      );
    },
    async close() {
      if (http.listening) await goDown();
      await upstream.agent.destroy();
    },
  };
}

/** The server of a kubeconfig, and how to log in to it. */
async function connect(kubeconfig: string) {
  const { server, credentials } = loadKubeconfig(kubeconfig);
  const { headers: login, tls } = await credentials();
  return { server, login, agent: new Agent({ allowH2: false, connect: tls, bodyTimeout: 0 }) };
}

/** libuv resets no socket that is shutting down: it would keep a handle for which Node waits, busily, when it ends. */
function reset(socket: Socket): void {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}

function* pieces(chunk: Buffer, bytes: number): Generator<Buffer> {
  for (let start = 0; start < chunk.length; start += bytes) yield chunk.subarray(start, start + bytes);
}
