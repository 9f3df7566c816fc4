/** The names of OpenStack's API calls. */
import type { ServiceName } from './config.ts';

/** First segment of a path in a front, for each service. */
export const prefixes = {
  identity: 'keystone',
  image: 'glance',
  placement: 'placement',
  network: 'neutron',
  compute: 'nova',
  volume: 'cinder',
} as const satisfies Record<string, ServiceName>;
export type Prefix = keyof typeof prefixes;

const id = /^[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}$/i;
/** What follows them is a name that somebody has chosen. */
const named = new Set(['flavors', 'os-keypairs', 'tags', 'metadata', 'os-extra_specs']);
const notNamed = new Set(['detail']);

/**
 * `POST /compute/servers` or `GET /volume/volumes/{id}`: without version and project, and with `{id}` for what is
 * named.
 */
export function operationOf(method: string, prefix: Prefix, path: string): string {
  const segments = path.split('/').filter((each) => each !== '');
  if (/^v\d/.test(segments[0] ?? '')) segments.shift();
  if (prefix === 'volume' && id.test(segments[0] ?? '')) segments.shift();
  const generic = segments.map((each, at) =>
    id.test(each) || (named.has(segments[at - 1] ?? '') && !notNamed.has(each)) ? '{id}' : each,
  );
  return `${method} ${['', prefix, ...generic].join('/')}`;
}
