/** How requests to OpenStack fail. */

/** What is known of an answer that is no success. */
interface Answered {
  /** Name of the service in the catalogue, as `compute`. */
  readonly service: string;
  /** HTTP status. */
  readonly status: number;
  /** What the service calls the error: `badRequest` of nova, `OverQuota` of neutron. Left out where it says none. */
  readonly code?: string | undefined;
  readonly requestId?: string | undefined;
  readonly retryAfterMs?: number | undefined;
}

/** An answer that is no success, or not in OpenStack's format. Its message is the service's, and holds no secret. */
export class OpenstackError extends Error {
  override readonly name = 'OpenstackError';
  readonly service: string;
  readonly status: number;
  readonly code: string | undefined;
  readonly requestId: string | undefined;
  readonly retryAfterMs: number | undefined;
  constructor(message: string, { service, status, code, requestId, retryAfterMs }: Answered) {
    super(message);
    this.service = service;
    this.status = status;
    this.code = code;
    this.requestId = requestId;
    this.retryAfterMs = retryAfterMs;
  }
}

/** No answer came: the connection failed, or it took too long. The request may have had its effect. */
export class NoAnswerError extends Error {
  override readonly name = 'NoAnswerError';
  readonly service: string;
  /** Scheme, host and port. */
  readonly origin: string;
  /** As Node and undici name it, `ECONNREFUSED`. Left out when it took too long. */
  readonly code: string | undefined;
  constructor(service: string, origin: string, { code, cause }: { code?: string | undefined; cause: unknown }) {
    super(`${service} at ${origin} ${code === undefined ? 'did not answer in time' : `cannot be reached (${code})`}`, {
      cause,
    });
    this.service = service;
    this.origin = origin;
    this.code = code;
  }
}

/** The service catalogue of the project lacks a service in the region, or the region. */
export class NotInCatalogueError extends Error {
  override readonly name = 'NotInCatalogueError';
  readonly service: string;
  /** Those that have the service. */
  readonly regions: readonly string[];
  constructor(service: string, region: string, regions: readonly string[]) {
    const where = regions.length > 0 ? `it is in ${regions.join(', ')}` : 'no region has it';
    super(`the service catalogue has no ${service} in the region ${region}: ${where}`);
    this.service = service;
    this.regions = regions;
  }
}
