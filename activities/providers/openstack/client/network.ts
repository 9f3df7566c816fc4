/** neutron. */
import type { Query, Service, ServiceKind } from './service.ts';

export const networkKind: ServiceKind = { types: ['network'], version: 'v2.0' };

/** A port, as far as it is used here. */
export interface Port {
  readonly id: string;
  readonly name: string;
  readonly description?: string;
  readonly network_id: string;
  /** ID of the server that has it; empty while none has. */
  readonly device_id: string;
  readonly tags?: readonly string[];
  /** RFC 3339. */
  readonly created_at?: string;
  readonly allowed_address_pairs?: readonly { readonly ip_address: string }[];
}

/** Body of the request that makes a port. */
export interface NewPort {
  readonly name: string;
  readonly description: string;
  readonly network_id: string;
  readonly fixed_ips?: readonly { readonly subnet_id: string }[] | undefined;
  readonly security_groups?: readonly string[] | undefined;
  readonly allowed_address_pairs?: readonly { readonly ip_address: string }[] | undefined;
}

/** A network or a security group. */
export interface Named {
  readonly id: string;
  readonly name: string;
  readonly project_id?: string;
}

/** Ports, and the IDs of names. */
export function createNetwork(neutron: Service) {
  return {
    /** `name` and `description` are exact; `tags` has several with commas between them, and all must be there. */
    ports: (query: Query, signal: AbortSignal) => neutron.page<Port>('/ports', 'ports', query, signal),
    async port(id: string, signal: AbortSignal): Promise<Port> {
      return (await neutron.send<{ port: Port }>({ path: `/ports/${encodeURIComponent(id)}` }, signal)).port;
    },
    async createPort(port: NewPort, signal: AbortSignal): Promise<Port> {
      return (await neutron.send<{ port: Port }>({ method: 'POST', path: '/ports', json: { port } }, signal)).port;
    },
    deletePort: (id: string, signal: AbortSignal) =>
      neutron.send<void>({ method: 'DELETE', path: `/ports/${encodeURIComponent(id)}` }, signal),
    addTag: (id: string, tag: string, signal: AbortSignal) =>
      neutron.send<void>({ method: 'PUT', path: tagPath(id, tag) }, signal),
    /** Replaces all tags of a port. */
    setTags: (id: string, tags: readonly string[], signal: AbortSignal) =>
      neutron.send<unknown>({ method: 'PUT', path: `/ports/${encodeURIComponent(id)}/tags`, json: { tags } }, signal),
    networks: (query: Query, signal: AbortSignal) => neutron.page<Named>('/networks', 'networks', query, signal),
    securityGroups: (query: Query, signal: AbortSignal) =>
      neutron.page<Named>('/security-groups', 'security_groups', query, signal),
  };
}

function tagPath(id: string, tag: string): string {
  return `/ports/${encodeURIComponent(id)}/tags/${encodeURIComponent(tag)}`;
}
