import { defineResource, type KubeObject } from './objects.ts';

export interface Secret extends KubeObject {
  type?: string;
  /** Values in base64. */
  data?: Record<string, string>;
  /** Only for writing: plain values, which the server merges into `data`. */
  stringData?: Record<string, string>;
  immutable?: boolean;
}
export const secrets = defineResource<Secret>({
  group: '',
  version: 'v1',
  plural: 'secrets',
  kind: 'Secret',
  namespaced: true,
});

/** Folder below which Gardener mounts the tokens that Secrets name. */
export const standardTokenFolder = '/var/run/secrets/gardener.cloud';
