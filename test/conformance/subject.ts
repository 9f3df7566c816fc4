import { randomUUID } from 'node:crypto';
import type { ProviderDeps } from '../../activities/providers/provider.ts';
import type { EnsureVmRequest, SecretRef } from '../../api/provider.ts';
import { secrets } from '../../api/secret.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { ClassFile } from './class-file.ts';

/** What the requests of a run have in common, and the Secrets that they name. */
export interface Subject {
  /** Namespace of the class; the Machines are said to be in it, too. */
  readonly namespace: string;
  readonly providerSpec: object;
  readonly credentials: readonly SecretRef[];
  readonly userData: EnsureVmRequest['userData'];
  /** Texts that no payload and no log may have. */
  readonly canaries: ReadonlySet<string>;
  /** Reads those that were made, for a provider in this process. */
  readonly readSecret: ProviderDeps['readSecret'];
  /** Makes a Secret with credentials that the cloud refuses; undefined where the class has no credentials. */
  makeWrongCredentials(): Promise<SecretRef | undefined>;
  /** Deletes the Secrets that were made. */
  remove(): Promise<void>;
}

/** Shorter values of a Secret may be in a payload by chance. */
const shortestCanary = 8;
/** Keys that say who asks and where, and prove nothing: Azure has their values in its resource IDs and its messages. */
const identifiers = /^(azure)?(client|subscription|tenant)id$/i;
const userDataKey = 'userData';

/**
 * Makes the Secrets of a run. They are in the namespace of the class, which the rights of the provider's worker are
 * for, under names of their own.
 */
export async function createSubject(control: KubeClient, file: Omit<ClassFile, 'name' | 'provider'>): Promise<Subject> {
  const { namespace, providerSpec } = file;
  const run = `conformance-${randomUUID().slice(0, 8)}`;
  const canaries = new Set<string>();
  /** Their contents, by name. */
  const made = new Map<string, Readonly<Record<string, string>>>();
  const keys: Record<string, string> = {};

  async function make(name: string, data: Readonly<Record<string, string>>): Promise<SecretRef> {
    const ref = { namespace, name: `${run}-${name}` };
    await control.create(secrets, { metadata: ref, stringData: { ...data } });
    made.set(ref.name, data);
    watch(data);
    return ref;
  }

  function watch(data: Readonly<Record<string, string>>): void {
    for (const [key, value] of Object.entries(data)) {
      if (!identifiers.test(key) && value.trim().length >= shortestCanary) canaries.add(value.trim());
    }
  }

  /** The Secret that a class names: a document of its file, or one that exists. */
  async function resolve(ref: SecretRef): Promise<SecretRef> {
    const own = file.secrets.find(({ namespace: at, name }) => at === ref.namespace && name === ref.name);
    const data = own?.data ?? (await readSecret(control, ref));
    Object.assign(keys, data);
    if (own !== undefined) return make(own.name, own.data);
    watch(data);
    return ref;
  }

  const userData = `#!/bin/sh\necho canary-user-data-${randomUUID()}\n`;
  const credentials: SecretRef[] = [];
  for (const ref of file.credentials) credentials.push(await resolve(ref));
  return {
    namespace,
    providerSpec,
    credentials,
    userData: { ...(await make('user-data', { [userDataKey]: userData })), key: userDataKey },
    canaries,
    readSecret: async ({ name }) => made.get(name),
    async makeWrongCredentials() {
      const wrong = Object.entries(keys).filter(([key]) => key !== userDataKey);
      if (wrong.length === 0) return undefined;
      return make(`wrong-${made.size}`, Object.fromEntries(wrong.map(([key, value]) => [key, altered(value)])));
    },
    async remove() {
      await Promise.all([...made.keys()].map((name) => control.delete(secrets, { namespace, name })));
    },
  };
}

/** Decoded; empty where there is none. */
async function readSecret(control: KubeClient, ref: SecretRef): Promise<Record<string, string>> {
  const secret = await control.find(secrets, ref);
  const decoded = Object.entries(secret?.data ?? {}).map(([key, value]) => [
    key,
    Buffer.from(value, 'base64').toString(),
  ]);
  return Object.fromEntries(decoded);
}

/** Another value of the same form: each letter and digit is replaced by the next one. */
function altered(value: string): string {
  const next: Record<string, string> = { z: 'a', Z: 'A', '9': '0' };
  return value.replaceAll(/[a-z0-9]/gi, (each) => next[each] ?? String.fromCharCode(each.charCodeAt(0) + 1));
}
