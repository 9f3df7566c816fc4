/** Sends requests over connections with the credentials' TLS settings. */
import { Agent, request } from 'undici';
import { NoAnswerError, OpenstackError } from './errors.ts';

/** TLS of all services. */
export interface TlsOptions {
  /** PEM. Replaces the certificate authorities that Node knows. */
  readonly ca?: string | undefined;
  /** PEM. Goes with `key`. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  /** Accepts any certificate. Default: false. */
  readonly insecure?: boolean | undefined;
}

/** A request to a service. */
export interface HttpRequest {
  readonly service: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly json?: unknown;
  readonly signal: AbortSignal;
}

export interface HttpAnswer {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** undefined where the body is empty. */
  readonly json: unknown;
}

export type Http = ReturnType<typeof createHttp>;

/** Makes the connections. @param timeoutMs how long one request may take, with its answer */
export function createHttp({ ca, cert, key, insecure = false }: TlsOptions, timeoutMs: number) {
  const tls = { rejectUnauthorized: !insecure, ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) };
  // The signal of each request has its deadline.
  const limits = { headersTimeout: 0, bodyTimeout: 0 };
  const dispatcher = new Agent({ allowH2: false, connect: { ...tls, timeout: timeoutMs }, ...limits });

  return {
    /** Throws OpenstackError for an answer above 299, NoAnswerError where none came, and what `signal` aborts with. */
    async send({ service, method, url, headers, json, signal }: HttpRequest): Promise<HttpAnswer> {
      const text = json === undefined ? undefined : JSON.stringify(json);
      try {
        const answer = await request(url, {
          dispatcher,
          method,
          headers: { accept: 'application/json', ...(text && { 'content-type': 'application/json' }), ...headers },
          ...(text !== undefined && { body: text }),
          signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
        });
        const body = await answer.body.text();
        if (answer.statusCode >= 300) throw toError(service, answer.statusCode, answer.headers, body);
        return { headers: answer.headers, json: body === '' ? undefined : JSON.parse(body) };
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof OpenstackError) throw error;
        throw noAnswer(service, url, error);
      }
    },
  };
}

function toError(service: string, status: number, headers: HttpAnswer['headers'], body: string): OpenstackError {
  const requestId = textOf(headers['x-openstack-request-id'] ?? headers['x-compute-request-id']);
  const retryAfterMs = pauseOf(textOf(headers['retry-after']));
  const { code, message } = readBody(body);
  return new OpenstackError(message ?? `no reason given (${body.slice(0, 100)})`, {
    ...{ service, status, code, requestId, retryAfterMs },
  });
}

/**
 * `{"badRequest": {"message"}}` of nova and cinder, `{"NeutronError": {"type"}}`, `{"error": {"title"}}` of keystone,
 * flat of glance.
 */
function readBody(body: string): { code?: string | undefined; message?: string } {
  let json: unknown;
  try {
    json = JSON.parse(body);
  } catch {
    return {};
  }
  if (typeof json !== 'object' || json === null) return {};
  const [key = '', inner] = Object.entries(json)[0] ?? [];
  const isWrapped = typeof inner === 'object' && inner !== null;
  const fields: Record<string, unknown> = isWrapped ? inner : { ...json };
  const { type, title, message, detail } = fields;
  const named = typeof type === 'string' ? type : typeof title === 'string' ? title.replaceAll(' ', '') : undefined;
  const code = named ?? (isWrapped ? key : undefined);
  const words = typeof message === 'string' ? message : typeof inner === 'string' ? inner : undefined;
  if (words === undefined) return { code };
  return { code, message: typeof detail === 'string' && detail !== '' ? `${words} ${detail}` : words };
}

/** Seconds, or a date. */
function pauseOf(header: string | undefined): number | undefined {
  if (header === undefined) return undefined;
  const ms = /^\d+$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}

function textOf(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}

function noAnswer(service: string, url: string, cause: unknown): NoAnswerError {
  const { name, code } = cause as { name?: string; code?: unknown };
  const known = name === 'TimeoutError' ? undefined : typeof code === 'string' ? code : (name ?? 'unknown');
  return new NoAnswerError(service, new URL(url).origin, { code: known, cause });
}
