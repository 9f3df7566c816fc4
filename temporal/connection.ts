/** Connections to the Temporal server. Loads no worker: commands have to answer soon. */
import {
  Connection,
  type ConnectionLike,
  type ConnectionOptions,
  defaultGrpcRetryOptions,
  makeGrpcRetryInterceptor,
  ServiceError,
} from '@temporalio/client';

/** Where the Temporal server is and how to log in to it. */
export interface TemporalServer {
  /** `host:port` */
  readonly address: string;
  readonly namespace: string;
  /** false: the connection is not encrypted. */
  readonly tls: TemporalTls | false;
  readonly apiKey?: string;
  /** Headers of every call. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** All PEM; each part is optional. */
export interface TemporalTls {
  /** CA certificates for the server's certificate. Default: those of the system. */
  readonly ca?: Buffer;
  /** Our own certificate, with its key. */
  readonly client?: { readonly crt: Buffer; readonly key: Buffer };
  /** Name in the server's certificate, where it is not the host of the address. */
  readonly serverName?: string;
}

/** How long the server may take to answer when a process starts, ms. */
const timeoutMs = 10_000;

/**
 * Connects for a client. Throws an Error that names the address, or the namespace when there is none of that name:
 * TemporalAwayError where the server does not answer.
 */
export async function connectClient(server: TemporalServer): Promise<Connection> {
  let isOpen = false;
  // The default retries silently for 20 s. Callers retry themselves, with the state of that moment.
  const retries = defaultGrpcRetryOptions({ maxAttempts: 4 });
  const retryableDecider: typeof retries.retryableDecider = (attempt, status) =>
    (isOpen || !neverConnected.test(status.details)) && retries.retryableDecider(attempt, status);
  const connection = await openChecked(server, async () =>
    Connection.lazy({
      ...sdkOptions(server),
      // By default the pauses between reconnects grow to two minutes.
      channelArgs: { 'grpc.max_reconnect_backoff_ms': 5_000 },
      interceptors: [makeGrpcRetryInterceptor({ ...retries, retryableDecider }), rejectOnceClosed],
    }),
  );
  isOpen = true;
  return connection;
}

/** What gRPC says of an address at which it has found nobody. */
const neverConnected = /^(No connection established|Name resolution failed)/;

type Interceptor = NonNullable<ConnectionOptions['interceptors']>[number];

/**
 * Rejects a call on a closed connection. gRPC throws: where the SDK repeats a call, in a timer, which ends the process.
 */
const rejectOnceClosed: Interceptor = (options, nextCall) => {
  try {
    return nextCall(options) as ReturnType<Interceptor>;
  } catch (error) {
    if (!(error as Error).message.includes('Channel has been shut down')) throw error;
    const rejected: Pick<ReturnType<Interceptor>, 'start' | 'sendMessageWithContext' | 'sendMessage' | 'halfClose'> = {
      start(sent, listener) {
        // Not what was sent: the metadata of a status is in its error, and ours has the API key.
        const metadata = new (sent.constructor as new () => typeof sent)();
        listener?.onReceiveMessage?.(null); // as of every call without an answer
        listener?.onReceiveStatus?.({ code: grpcCodes.cancelled, details: 'the connection is closed', metadata });
      },
      sendMessageWithContext: () => undefined,
      sendMessage: () => undefined,
      halfClose: () => undefined,
    };
    return rejected as ReturnType<Interceptor>;
  }
};

/** The options that both kinds of connections take. */
export function sdkOptions({ address, tls, apiKey, metadata }: TemporalServer) {
  return {
    address,
    ...(apiKey !== undefined && { apiKey }),
    ...(metadata !== undefined && { metadata }),
    tls: tls && {
      ...(tls.ca && { serverRootCACertificate: tls.ca }),
      ...(tls.client && { clientCertPair: tls.client }),
      ...(tls.serverName !== undefined && { serverNameOverride: tls.serverName }),
    },
  };
}

/** The server does not answer now. */
export class TemporalAwayError extends Error {}

/** Whether an error says that the server does not answer now, and may later. */
export function isAway(error: unknown): boolean {
  const code = grpcCodeOf(error);
  return error instanceof TemporalAwayError || code === grpcCodes.unavailable || code === grpcCodes.deadlineExceeded;
}

/** Opens a connection and asks for the namespace. Throws as `connectClient` does. */
export async function openChecked<C extends ConnectionLike>(
  server: TemporalServer,
  open: () => Promise<C>,
): Promise<C> {
  const { namespace } = server;
  const opening = open();
  let connection: C;
  try {
    connection = await within(timeoutMs, opening);
  } catch (cause) {
    void opening.then((late) => late.close()).catch(() => undefined);
    throw awayError(server, cause);
  }
  try {
    await connection.withDeadline(Date.now() + timeoutMs, () =>
      connection.workflowService.describeNamespace({ namespace }),
    );
    return connection;
  } catch (cause) {
    await connection.close();
    throw isAway(cause) ? awayError(server, cause) : new Error(refusalOf(server, cause), { cause });
  }
}

function awayError({ address }: TemporalServer, cause: unknown): TemporalAwayError {
  const [, reason = reasonOf(cause)] = /Last error: (?:Error: )?(.+)\. Resolution note/.exec(reasonOf(cause)) ?? [];
  const problem = `Temporal does not answer at ${address} (${reason})`;
  return new TemporalAwayError(`${problem}: start it, or correct --temporal-address and the TLS flags`, { cause });
}

function refusalOf({ address, namespace }: TemporalServer, cause: unknown): string {
  switch (grpcCodeOf(cause)) {
    case grpcCodes.notFound:
      return `Temporal at ${address} has no namespace '${namespace}': create it, or correct --temporal-namespace`;
    case grpcCodes.permissionDenied:
    case grpcCodes.unauthenticated:
      return `Temporal at ${address} refuses us (${reasonOf(cause)}): correct the API key or the client certificate`;
    default:
      return `Temporal at ${address} cannot describe its namespace '${namespace}' (${reasonOf(cause)})`;
  }
}

/** The gRPC status codes that are handled. */
export const grpcCodes = {
  cancelled: 1,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  alreadyExists: 6,
  permissionDenied: 7,
  failedPrecondition: 9,
  unimplemented: 12,
  unavailable: 14,
  unauthenticated: 16,
} as const;

/** gRPC status code of the error of a call to the server. */
export function grpcCodeOf(error: unknown): number | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  if ('code' in error && typeof error.code === 'number') return error.code;
  return 'cause' in error ? grpcCodeOf(error.cause) : undefined;
}

/** The innermost message of the error of a call to the server: the SDK wraps it in general ones. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof ServiceError && error.cause !== undefined) return reasonOf(error.cause);
  return ('details' in error && typeof error.details === 'string' && error.details) || error.message;
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
