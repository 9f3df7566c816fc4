/** nova. */
import type { Query, Service, ServiceKind } from './service.ts';

/**
 * The first microversion, which every nova since Kilo has: all that is used here is in it. It is asked for by name, so
 * that no release may choose another.
 */
export const microversion = '2.1';

export const computeKind: ServiceKind = {
  types: ['compute'],
  version: 'v2.1',
  headers: { 'openstack-api-version': `compute ${microversion}` },
};

/** A server, as far as it is used here. */
export interface Server {
  readonly id: string;
  readonly name: string;
  /** `BUILD`, `ACTIVE`, `ERROR` and others. */
  readonly status: string;
  /** RFC 3339. */
  readonly created: string;
  readonly metadata: Readonly<Record<string, string>>;
  /** By the name of the network. */
  readonly addresses?: Readonly<Record<string, readonly ServerAddress[]>>;
  /** Why it is in `ERROR`. */
  readonly fault?: { readonly code: number; readonly message: string };
  /** What is being done: `scheduling`, `spawning`, `deleting`; null when nothing is. */
  readonly 'OS-EXT-STS:task_state'?: string | null;
  readonly 'os-extended-volumes:volumes_attached'?: readonly { readonly id: string }[];
}

export interface ServerAddress {
  readonly addr: string;
  readonly 'OS-EXT-IPS:type'?: 'fixed' | 'floating';
}

/** Body of the request that makes a server. */
export interface NewServer {
  readonly name: string;
  readonly flavorRef: string;
  /** Left out for a server that boots from a volume. */
  readonly imageRef?: string | undefined;
  readonly key_name?: string | undefined;
  readonly availability_zone?: string | undefined;
  readonly config_drive?: boolean | undefined;
  /** Base64, at most 65,535 bytes of it. */
  readonly user_data?: string | undefined;
  readonly metadata: Readonly<Record<string, string>>;
  readonly networks: readonly { readonly port: string }[];
  readonly block_device_mapping_v2?: readonly BlockDevice[] | undefined;
}

export interface BlockDevice {
  readonly boot_index: number;
  readonly uuid: string;
  readonly source_type: 'volume' | 'image';
  readonly destination_type: 'volume';
  readonly delete_on_termination: boolean;
}

export interface Flavor {
  readonly id: string;
  readonly name: string;
}

/** Servers and flavors. */
export function createCompute(nova: Service) {
  return {
    /** With all details. `name` is a regular expression; nova ignores `metadata` of a member. */
    servers: (query: Query, signal: AbortSignal) => nova.page<Server>('/servers/detail', 'servers', query, signal),
    async server(id: string, signal: AbortSignal): Promise<Server> {
      return (await nova.send<{ server: Server }>({ path: `/servers/${encodeURIComponent(id)}` }, signal)).server;
    },
    /** Answers its ID: nova has accepted the request, and may still fail with it. */
    async createServer(server: NewServer, group: string | undefined, signal: AbortSignal): Promise<{ id: string }> {
      const json = { server, ...(group !== undefined && { 'os:scheduler_hints': { group } }) };
      return (await nova.send<{ server: { id: string } }>({ method: 'POST', path: '/servers', json }, signal)).server;
    },
    deleteServer: (id: string, signal: AbortSignal) =>
      nova.send<void>({ method: 'DELETE', path: `/servers/${encodeURIComponent(id)}` }, signal),
    /** Adds metadata and replaces what it has of them. */
    setMetadata: (id: string, metadata: Readonly<Record<string, string>>, signal: AbortSignal) =>
      nova.send<unknown>(
        { method: 'POST', path: `/servers/${encodeURIComponent(id)}/metadata`, json: { metadata } },
        signal,
      ),
    deleteMetadata: (id: string, key: string, signal: AbortSignal) =>
      nova.send<void>(
        { method: 'DELETE', path: `/servers/${encodeURIComponent(id)}/metadata/${encodeURIComponent(key)}` },
        signal,
      ),
    flavors: (query: Query, signal: AbortSignal) => nova.page<Flavor>('/flavors', 'flavors', query, signal),
  };
}
