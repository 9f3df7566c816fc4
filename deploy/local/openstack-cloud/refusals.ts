/** Answers with which OpenStack refuses, each service in its own form. */
import type { Prefix } from './operation.ts';

/** An answer that the front gives instead of OpenStack. */
export interface Refusal {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly json: unknown;
}

export function throttled(status: number, retryAfterSeconds: number | undefined): Refusal {
  const message = 'This request was rate-limited.';
  const retryAfter = retryAfterSeconds === undefined ? undefined : String(retryAfterSeconds);
  return {
    status,
    headers: retryAfter === undefined ? {} : { 'retry-after': retryAfter },
    json: { overLimit: { code: status, message, ...(retryAfter !== undefined && { retryAfter }) } },
  };
}

export function unavailable(): Refusal {
  const message = 'The server is currently unavailable. Please try again at a later time.';
  return { status: 503, headers: {}, json: { message, code: '503 Service Unavailable', title: 'Service Unavailable' } };
}

/** As keystone's middleware in front of every other service. */
export function unauthorized(identityUrl: string): Refusal {
  const message = 'The request you have made requires authentication.';
  return {
    status: 401,
    headers: { 'www-authenticate': `Keystone uri="${identityUrl}"` },
    json: { error: { code: 401, title: 'Unauthorized', message } },
  };
}

/** A role that the policy asks for is missing. */
export function forbidden(prefix: Prefix, operation: string): Refusal {
  return { status: 403, headers: {}, json: forbiddenBody(prefix, operation) };
}

function forbiddenBody(prefix: Prefix, operation: string): unknown {
  const [, , collection = '', ...rest] = operation.split('/');
  const verb = operation.split(' ')[0]?.toLowerCase() ?? '';
  switch (prefix) {
    case 'network': {
      const names: Record<string, string> = { post: 'create', put: 'update', delete: 'delete', get: 'get' };
      const rule = `${names[verb]}_${rest.length > 0 ? collection.replace(/s$/, '') : collection}`;
      const message = `rule:${rule} is disallowed by policy`;
      return { NeutronError: { type: 'PolicyNotAuthorized', message, detail: '' } };
    }
    case 'identity': {
      const message = `You are not authorized to perform the requested action: identity:${verb}_${collection}.`;
      return { error: { code: 403, title: 'Forbidden', message } };
    }
    case 'image':
      return { message: 'You are not authorized to complete this action.', code: '403 Forbidden', title: 'Forbidden' };
    default: {
      const api = prefix === 'compute' ? 'os_compute_api' : 'volume';
      const message = `Policy doesn't allow ${api}:${collection}:${verb} to be performed.`;
      return { forbidden: { code: 403, message } };
    }
  }
}
