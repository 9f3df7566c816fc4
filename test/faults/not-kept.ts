/** An API server that confirms a write and does not keep it, as with a webhook or a policy. */
import type { SeenRequest } from './proxy.ts';

/** An object in JSON. */
export type Json = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The body without the field at a path, and what was there; undefined: it has no such field. */
export function without(
  body: Json,
  [field = '', ...rest]: readonly string[],
): { left: Json; value: unknown } | undefined {
  const { [field]: found, ...left } = body;
  if (found === undefined) return undefined;
  if (rest.length === 0) return { left, value: found };
  const inner = isObject(found) ? without(found, rest) : undefined;
  return inner && { left: { ...left, [field]: inner.left }, value: inner.value };
}

/** The body with which a write is confirmed and not executed. @param query of the request; it may be changed */
export function unexecuted({ method }: SeenRequest, body: Json, query: URLSearchParams): Json {
  query.set('dryRun', 'All'); // for the audit log, too
  return method === 'DELETE' ? { ...body, dryRun: ['All'] } : body; // it does not obey a query
}
