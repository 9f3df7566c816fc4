/** A TLS front of a real Temporal server that demands client certificates and API keys, and records who called. */
import { once } from 'node:events';
import {
  connect,
  constants,
  createSecureServer,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { type Authority, createAuthority } from '../support/certificates.ts';

/** A call as the front saw it. */
export interface SeenCall {
  /** Such as `PollWorkflowTaskQueue`. */
  readonly method: string;
  /** Common name in the certificate of the client. */
  readonly client: string;
  readonly apiKey: string | undefined;
  readonly headers: IncomingHttpHeaders;
}

export interface TemporalFront {
  readonly address: string;
  /** Of the certificate of the front, PEM. */
  readonly ca: Buffer;
  /** The calls that were forwarded, oldest first. */
  readonly seen: readonly SeenCall[];
  /** Accepts only certificates of this authority in new connections, and only this API key; undefined: any. */
  accept(clients: Authority, apiKey?: string): void;
  /** Ends all connections. */
  cut(): void;
  close(): Promise<void>;
}

const unauthenticated = { 'grpc-status': '16', 'grpc-message': 'unknown API key' };

/** Starts a front on a free port of `localhost`. */
export async function startTemporalFront(temporalAddress: string, clients: Authority): Promise<TemporalFront> {
  const authority = await createAuthority('servers');
  const { crt: cert, key } = await authority.issue('front');
  const upstream = connect(`http://${temporalAddress}`);
  upstream.on('error', () => undefined);
  const sessions = new Set<ServerHttp2Session>();
  const seen: SeenCall[] = [];
  let acceptedKey: string | undefined;

  const server = createSecureServer({ cert, key, ca: clients.crt, requestCert: true, rejectUnauthorized: true });
  server.on('session', (session) => {
    sessions.add(session);
    session.on('error', () => undefined).on('close', () => sessions.delete(session));
  });
  server.on('stream', (stream, headers) => {
    stream.on('error', () => undefined);
    const apiKey = /^Bearer (.*)$/.exec(headers.authorization ?? '')?.[1];
    if (acceptedKey !== undefined && apiKey !== acceptedKey) {
      stream.respond({ ':status': 200, 'content-type': 'application/grpc', ...unauthenticated }, { endStream: true });
      return;
    }
    const socket = stream.session?.socket as TLSSocket | undefined;
    const client = String(socket?.getPeerCertificate().subject.CN);
    seen.push({ method: headers[':path']?.split('/').at(-1) ?? '', client, apiKey, headers });
    forward(stream, headers);
  });

  function forward(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    const call = upstream.request({ ...headers, ':authority': temporalAddress, ':scheme': 'http' });
    call.on('error', () => stream.destroy());
    stream.on('close', () => call.close(constants.NGHTTP2_CANCEL));
    let trailers: IncomingHttpHeaders = {};
    call.on('trailers', (received) => {
      trailers = received;
    });
    call.on('response', (received, flags) => {
      if (stream.destroyed) return;
      if (flags & constants.NGHTTP2_FLAG_END_STREAM) {
        stream.respond(received, { endStream: true }); // an error: its trailers are its headers
        return;
      }
      stream.on('wantTrailers', () => stream.sendTrailers(trailers));
      stream.respond(received, { waitForTrailers: true });
      call.pipe(stream);
    });
    stream.pipe(call);
  }

  server.listen(0, 'localhost');
  await once(server, 'listening');
  const cut = () => {
    for (const session of sessions) session.destroy();
  };
  return {
    address: `localhost:${(server.address() as AddressInfo).port}`,
    ca: authority.crt,
    seen,
    accept(next, apiKey) {
      server.setSecureContext({ cert, key, ca: next.crt });
      acceptedKey = apiKey;
    },
    cut,
    async close() {
      const closed = once(server, 'close');
      server.close();
      cut();
      await closed;
      upstream.destroy();
    },
  };
}
