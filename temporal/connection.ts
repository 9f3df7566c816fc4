/** Connections to the Temporal server: one kind for clients, one for workers, from the same options. */
import {
  Connection,
  type ConnectionLike,
  defaultGrpcRetryOptions,
  makeGrpcRetryInterceptor,
  ServiceError,
} from '@temporalio/client';
import { IllegalStateError } from '@temporalio/common';
import { NativeConnection, Runtime } from '@temporalio/worker';
import type { Logger } from '../kube/logger.ts';
import { toSdkLogger } from './sdk-logger.ts';

/** Where the Temporal server is and how to log in to it. */
export interface TemporalServer {
  /** `host:port` */
  readonly address: string;
  readonly namespace: string;
  /** false for a connection in the clear. */
  readonly tls: TemporalTls | false;
  readonly apiKey?: string;
}

/** All PEM; each part is optional. */
export interface TemporalTls {
  /** Certificates that the server's is checked against. Default: those of the system. */
  readonly ca?: Buffer;
  /** Our own certificate, with its key. */
  readonly client?: { readonly crt: Buffer; readonly key: Buffer };
  /** Name that the server's certificate has to have, where it is not the host of the address. */
  readonly serverName?: string;
}

/** How long a server may take to answer when a process starts, ms. */
const timeoutMs = 5_000;

/** Connects for a client. Throws an Error that names the address, or the namespace when there is none of that name. */
export async function connectClient(server: TemporalServer): Promise<Connection> {
  return connect(server, async () => {
    const connection = Connection.lazy({
      ...common(server),
      connectTimeout: timeoutMs,
      // By default the pauses grow to two minutes, in which a server that is back is not noticed.
      channelArgs: { 'grpc.max_reconnect_backoff_ms': 5_000 },
      // The default tries in silence for 20 s. Callers try again by themselves, with what is true by then.
      interceptors: [makeGrpcRetryInterceptor(defaultGrpcRetryOptions({ maxAttempts: 4 }))],
    });
    try {
      await connection.ensureConnected();
      return connection;
    } catch (error) {
      await connection.close(); // else it would go on trying
      throw error;
    }
  });
}

/**
 * Connects for workers. What the SDK logs goes to `logger` from the first such connection on; signals are left to the
 * process. Throws as `connectClient` does.
 */
export async function connectWorkers(server: TemporalServer, logger: Logger): Promise<NativeConnection> {
  installRuntime(logger);
  // gzip costs a tenth of the CPU of a machine's life, and brings nothing where there is no network.
  const grpcCompression = { codec: isLoopback(server.address) ? 'none' : 'gzip' } as const;
  return connect(server, () => NativeConnection.connect({ ...common(server), grpcCompression }));
}

function common({ address, tls, apiKey }: TemporalServer) {
  return {
    address,
    ...(apiKey !== undefined && { apiKey }),
    tls: tls && {
      ...(tls.ca && { serverRootCACertificate: tls.ca }),
      ...(tls.client && { clientCertPair: tls.client }),
      ...(tls.serverName !== undefined && { serverNameOverride: tls.serverName }),
    },
  };
}

async function connect<C extends ConnectionLike>(server: TemporalServer, open: () => Promise<C>): Promise<C> {
  const { address, namespace } = server;
  const opening = open();
  let connection: C;
  try {
    connection = await within(timeoutMs, opening);
  } catch (cause) {
    void opening.then((late) => late.close()).catch(() => undefined);
    const problem = `Temporal does not answer at ${address} (${reasonOf(cause)})`;
    throw new Error(`${problem}: start it, or correct --temporal-address and the TLS flags`, { cause });
  }
  try {
    await connection.withDeadline(Date.now() + timeoutMs, () =>
      connection.workflowService.describeNamespace({ namespace }),
    );
    return connection;
  } catch (cause) {
    await connection.close();
    throw new Error(refusalOf(server, cause), { cause });
  }
}

function refusalOf({ address, namespace }: TemporalServer, cause: unknown): string {
  switch (grpcCodeOf(cause)) {
    case grpcCodes.notFound:
      return `Temporal at ${address} has no namespace '${namespace}': create it, or correct --temporal-namespace`;
    case grpcCodes.permissionDenied:
    case grpcCodes.unauthenticated:
      return `Temporal at ${address} refuses us (${reasonOf(cause)}): correct the API key or the client certificate`;
    default:
      return `Temporal at ${address} cannot tell of its namespace '${namespace}' (${reasonOf(cause)})`;
  }
}

/** The status codes of gRPC that we tell apart. */
export const grpcCodes = {
  cancelled: 1,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  alreadyExists: 6,
  permissionDenied: 7,
  unimplemented: 12,
  unavailable: 14,
  unauthenticated: 16,
} as const;

/** gRPC status code of what a call to the server failed with. */
export function grpcCodeOf(error: unknown): number | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  if ('code' in error && typeof error.code === 'number') return error.code;
  return 'cause' in error ? grpcCodeOf(error.cause) : undefined;
}

/** The innermost words of what a call to the server failed with: the SDK wraps them in sentences that say nothing. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof ServiceError && error.cause !== undefined) return reasonOf(error.cause);
  return ('details' in error && typeof error.details === 'string' && error.details) || error.message;
}

function isLoopback(address: string): boolean {
  const host = address.replace(/:\d+$/, '').replace(/^\[|\]$/g, '');
  return host === 'localhost' || host.startsWith('127.') || host === '::1';
}

/** The SDK has one runtime a process, which also ends with the last connection. */
function installRuntime(logger: Logger): void {
  try {
    Runtime.install({
      logger: toSdkLogger(logger),
      telemetryOptions: { logging: { filter: { core: 'WARN', other: 'ERROR' }, forward: {} } },
      // The process itself decides in which order things end.
      shutdownSignals: [],
    });
  } catch (error) {
    if (!(error instanceof IllegalStateError)) throw error;
  }
}

async function within<T>(timeoutMs: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs / 1000} s`)), timeoutMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
