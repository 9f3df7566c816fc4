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
    /**
     * Throws OpenstackError for an answer above 299 or without JSON, NoAnswerError where none came, and what `signal`
     * aborts with.
     */
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
        const parsed = parseJson(body);
        const isReadable = parsed !== undefined || body === '';
        if (answer.statusCode >= 300 || !isReadable) throw toError(service, answer.statusCode, answer.headers, body);
        return { headers: answer.headers, json: parsed };
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
  const { code, message = unreadable(body, textOf(headers['content-type'])) } = readBody(parseJson(body)) ?? {};
  return new OpenstackError(message, { service, status, code, requestId, retryAfterMs });
}

/** Nothing of the body: the credentials name the server, which may be any. */
function unreadable(body: string, contentType = ''): string {
  const [type = 'an unknown type'] = /^[\w.+-]{1,40}\/[\w.+-]{1,40}/.exec(contentType) ?? [];
  return `the answer is not in OpenStack's format (${Buffer.byteLength(body)} bytes of ${type})`;
}

/**
 * `{"badRequest": {"code": 400, "message"}}` of nova and cinder, `{"NeutronError": {"type", "message"}}`,
 * `{"error": {"title", "message"}}` of keystone, flat of glance; undefined for anything else.
 */
function readBody(json: unknown): { code: string | undefined; message: string } | undefined {
  const [[key, inner] = ['', undefined], ...more] = Object.entries<unknown>(Object(json));
  if (more.length > 0) {
    const { code: status, title, message } = fieldsOf(json);
    const isOfGlance = typeof status === 'string' && typeof title === 'string' && typeof message === 'string';
    return isOfGlance ? { code: title.replaceAll(' ', ''), message } : undefined;
  }
  if (key === 'NeutronError' && typeof inner === 'string') return { code: undefined, message: inner };
  const { code: status, type, title, message, detail } = fieldsOf(inner);
  if (typeof message !== 'string') return undefined;
  if (key === 'NeutronError' && typeof type === 'string') {
    return { code: type, message: typeof detail === 'string' && detail !== '' ? `${message} ${detail}` : message };
  }
  if (key === 'error') return typeof title === 'string' ? { code: title.replaceAll(' ', ''), message } : undefined;
  return typeof status === 'number' ? { code: key, message } : undefined;
}

function fieldsOf(value: unknown): Partial<Record<string, unknown>> {
  return Object(value);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
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
