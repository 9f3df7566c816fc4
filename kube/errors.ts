/** `Status` of the Kubernetes API, as far as we read it. */
export interface Status {
  code?: number;
  reason?: string;
  message?: string;
  details?: {
    name?: string;
    kind?: string;
    retryAfterSeconds?: number;
    causes?: { reason?: string; message?: string; field?: string }[];
  };
}

/** The API server answered and refused, or a watch ended with an ERROR event. */
export class StatusError extends Error {
  override readonly name = 'StatusError';
  /** HTTP status, for example 404. */
  readonly code: number;
  /** Machine-readable reason, for example `NotFound`; '' when the server gave none. */
  readonly reason: string;
  readonly status: Status;
  /** How long the server asks to wait before another attempt. */
  readonly retryAfterMs: number | undefined;

  constructor(request: string, code: number, status: Status, retryAfterMs?: number) {
    super(`${request}: ${[code, status.reason].filter(Boolean).join(' ')}: ${status.message ?? 'no message'}`);
    this.code = code;
    this.reason = status.reason ?? '';
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }
}

/** No complete answer of the API server: not connected, connection lost, or timed out. `cause` has the details. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError';
  /** Whether the request cannot have reached the server, so that even a write may be repeated blindly. */
  readonly notSent: boolean;

  constructor(message: string, options: { cause: unknown; notSent: boolean }) {
    super(message, { cause: options.cause });
    this.notSent = options.notSent;
  }
}

/** Our own rate limit would have held a `failFast` request for more than a second. */
export class RateLimitError extends Error {
  override readonly name = 'RateLimitError';
  readonly retryAfterMs: number;

  constructor(retryAfterMs: number) {
    super(`client-side rate limit: the next request could start in ${Math.ceil(retryAfterMs)} ms`);
    this.retryAfterMs = retryAfterMs;
  }
}

function hasCode(error: unknown, code: number): error is StatusError {
  return error instanceof StatusError && error.code === code;
}

/** The object does not exist (404). Not true for a path that the server does not serve, as of a missing CRD. */
export function isNotFound(error: unknown): error is StatusError {
  return hasCode(error, 404) && error.reason === 'NotFound';
}

/** A create found the name taken (409 AlreadyExists). */
export function isAlreadyExists(error: unknown): error is StatusError {
  return hasCode(error, 409) && error.reason === 'AlreadyExists';
}

/** A precondition (uid, resourceVersion, field ownership) does not hold (409, but not AlreadyExists). */
export function isConflict(error: unknown): error is StatusError {
  return hasCode(error, 409) && error.reason !== 'AlreadyExists';
}

/** A create was refused because the namespace is being deleted (403): it takes no objects any more. */
export function isNamespaceTerminating(error: unknown): error is StatusError {
  const causes = hasCode(error, 403) ? (error.status.details?.causes ?? []) : [];
  return causes.some(({ reason }) => reason === 'NamespaceTerminating');
}

/** The object breaks the schema, a CEL rule or a `test` operation (422). */
export function isInvalid(error: unknown): error is StatusError {
  return hasCode(error, 422);
}

/** The server or our own rate limit asks to try again later; for an eviction also a PodDisruptionBudget (429). */
export function isTooManyRequests(error: unknown): error is StatusError | RateLimitError {
  return hasCode(error, 429) || error instanceof RateLimitError;
}

/** Refused, such as for a missing right, and not just now: by a busy or broken server, or for expired credentials. */
export function isRefused(error: unknown): error is StatusError {
  return error instanceof StatusError && error.code < 500 && ![401, 429].includes(error.code);
}

/** The resourceVersion or continue token is too old: list again (410). */
export function isGone(error: unknown): error is StatusError {
  return hasCode(error, 410);
}

/**
 * The state of the object is unknown: no answer, or that of a broken or starting server (502-504), or of one without
 * its etcd.
 */
export function isUnreachable(error: unknown): error is ConnectionError | StatusError {
  if (error instanceof ConnectionError) return true;
  return error instanceof StatusError && ([502, 503, 504].includes(error.code) || isWithoutEtcd(error));
}

/**
 * Whether an API server cannot reach its etcd (500). It hands on most errors of etcd as they are, without a reason. A
 * webhook that does not answer is no outage: it may refuse forever.
 */
function isWithoutEtcd({ code, reason, status: { message = '' } }: StatusError): boolean {
  if (code !== 500 || message.includes('webhook')) return false;
  return reason === '' || reason === 'ServerTimeout' || /etcdserver: |rpc error: code = Unavailable/.test(message);
}
