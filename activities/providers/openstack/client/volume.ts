/** cinder, version 3. */
import type { Query, Service, ServiceKind } from './service.ts';

export const volumeKind: ServiceKind = { types: ['block-storage', 'volumev3'] };

/** A volume, as far as it is used here. */
export interface Volume {
  readonly id: string;
  readonly name: string | null;
  /** `creating`, `downloading`, `available`, `in-use`, `deleting`, `error` and others. */
  readonly status: string;
  /** In UTC, without saying so. */
  readonly created_at: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly attachments: readonly { readonly server_id: string }[];
}

/** A server's claim to a volume. It can outlive the server. */
export interface Attachment {
  readonly id: string;
  /** ID of the server. */
  readonly instance: string | null;
  /** `reserved` until the server has the volume, `attached`, `detached` and others. */
  readonly status: string;
}

/** cinder has attachments since this microversion, which is of Ocata (2017). */
const withAttachments = { headers: { 'openstack-api-version': 'volume 3.27' } };

/** Body of the request that makes a volume. */
export interface NewVolume {
  readonly name: string;
  /** GiB. */
  readonly size: number;
  readonly imageRef: string;
  readonly volume_type?: string | undefined;
  readonly availability_zone?: string | undefined;
  readonly metadata: Readonly<Record<string, string>>;
}

/** Volumes. */
export function createVolumes(cinder: Service) {
  return {
    /** Whether the cloud has cinder. */
    exists: cinder.exists,
    /** With all details. `name` is exact; `metadata` is an object in JSON, all of which must be there. */
    volumes: (query: Query, signal: AbortSignal) => cinder.page<Volume>('/volumes/detail', 'volumes', query, signal),
    async volume(id: string, signal: AbortSignal): Promise<Volume> {
      return (await cinder.send<{ volume: Volume }>({ path: `/volumes/${encodeURIComponent(id)}` }, signal)).volume;
    },
    async createVolume(volume: NewVolume, signal: AbortSignal): Promise<Volume> {
      const ask = { method: 'POST', path: '/volumes', json: { volume } } as const;
      return (await cinder.send<{ volume: Volume }>(ask, signal)).volume;
    },
    deleteVolume: (id: string, signal: AbortSignal) =>
      cinder.send<void>({ method: 'DELETE', path: `/volumes/${encodeURIComponent(id)}` }, signal),
    async attachmentsOf(id: string, signal: AbortSignal): Promise<readonly Attachment[]> {
      const ask = { path: '/attachments', query: { volume_id: id }, ...withAttachments };
      return (await cinder.send<{ attachments: readonly Attachment[] }>(ask, signal)).attachments;
    },
    /** Not every release of cinder refuses it while the server has the volume. */
    deleteAttachment: (id: string, signal: AbortSignal) =>
      cinder.send<unknown>(
        { method: 'DELETE', path: `/attachments/${encodeURIComponent(id)}`, ...withAttachments },
        signal,
      ),
    /** Adds metadata and replaces what it has of them. */
    setMetadata: (id: string, metadata: Readonly<Record<string, string>>, signal: AbortSignal) =>
      cinder.send<unknown>(
        { method: 'POST', path: `/volumes/${encodeURIComponent(id)}/metadata`, json: { metadata } },
        signal,
      ),
    deleteMetadata: (id: string, key: string, signal: AbortSignal) =>
      cinder.send<void>(
        { method: 'DELETE', path: `/volumes/${encodeURIComponent(id)}/metadata/${encodeURIComponent(key)}` },
        signal,
      ),
  };
}
