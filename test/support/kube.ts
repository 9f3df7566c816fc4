import { defineResource, type KubeObject, type NewObject } from '../../api/objects.ts';
import { createKubeClient, type KubeClient, type KubeClientOptions } from '../../kube/client.ts';
import { type KubeconfigAccess, loadKubeconfig } from '../../kube/config.ts';
import { namespaces } from '../../kube/core.ts';
import type { Logger } from '../../kube/logger.ts';
import type { StoreEvent } from '../../kube/store.ts';
import { fromSetup } from './from-setup.ts';

/** Kubeconfig of the first or second API server of the test stack. */
export function testKubeconfig(cluster: 1 | 2 = 1): string {
  return fromSetup(cluster === 1 ? 'MILLWRIGHT_TEST_KUBECONFIG' : 'MILLWRIGHT_TEST_KUBECONFIG_2');
}

export function testClient(
  access: KubeconfigAccess = loadKubeconfig(testKubeconfig()),
  options: Partial<KubeClientOptions> = {},
): KubeClient {
  return createKubeClient({ access, userAgent: 'millwright-test/0', qps: 1000, burst: 1000, ...options });
}

/** A client that waits for its answers: activities give a request up after seconds, for their workflow repeats it. */
export function patient(client: KubeClient): KubeClient {
  const timeoutMs = 60_000;
  return {
    ...client,
    get: (resource, key, options) => client.get(resource, key, { ...options, timeoutMs }),
    find: (resource, key, options) => client.find(resource, key, { ...options, timeoutMs }),
    list: (resource, query) => client.list(resource, { ...query, timeoutMs }),
    create: (resource, object, options) => client.create(resource, object, { ...options, timeoutMs }),
    patch: (resource, key, patch, options) => client.patch(resource, key, patch, { ...options, timeoutMs }),
    delete: (resource, key, options) => client.delete(resource, key, { ...options, timeoutMs }),
  };
}

/** A new namespace; they stay, for without a controller manager none can be deleted. */
export async function newNamespace(client: KubeClient): Promise<string> {
  const namespace = await client.create(namespaces, { metadata: { generateName: 'kube-test-' } });
  return namespace.metadata.name;
}

/** An object as a manifest has it. */
export interface Manifest extends KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
}

const plurals: Readonly<Record<string, string>> = {
  NetworkPolicy: 'networkpolicies',
  ValidatingAdmissionPolicy: 'validatingadmissionpolicies',
};

/** Has the API server judge an object as if it were created; it refuses fields that it does not know. */
export async function judgeObject(client: KubeClient, { apiVersion, kind, ...object }: Manifest): Promise<void> {
  const [version = '', group = ''] = apiVersion.split('/').toReversed();
  const plural = plurals[kind] ?? `${kind.toLowerCase()}s`;
  const isNamespaced = object.metadata.namespace !== undefined;
  const resource = defineResource<KubeObject>({ group, version, plural, kind, namespaced: isNamespaced });
  await client.create(resource, object as NewObject<KubeObject>, { dryRun: 'All', fieldValidation: 'Strict' });
}

/** A logger that keeps its lines. */
export function recordingLogger(): Logger & { readonly lines: { level: string; fields: object; message: string }[] } {
  const lines: { level: string; fields: object; message: string }[] = [];
  const log = (level: string) => (fields: object, message: string) => {
    lines.push({ level, fields, message });
  };
  return { lines, debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') };
}

/** What happened, in words: `added a`, `synced`, `restored`. */
export function inWords<T extends KubeObject>(event: StoreEvent<T>): string {
  if (event.kind === 'synced') return event.isRestored ? 'restored' : 'synced';
  return `${event.kind} ${event.object.metadata.name}`;
}
