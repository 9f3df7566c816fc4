/**
 * Signatures of what Millwright notes on a Machine and acts on later: whoever may edit Machines, but reads no Secret,
 * cannot make them.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { ObjectRef } from '../api/model/ref.ts';
import { signingKeySecret } from '../api/names.ts';
import type { KubeClient } from '../kube/client.ts';
import { type Secret, secrets } from '../kube/core.ts';
import { isAlreadyExists, isNamespaceTerminating } from '../kube/errors.ts';
import { mergePatch } from '../kube/patch.ts';
import { localRequestOptions } from './local-request.ts';
import { ProviderError } from './providers/provider.ts';

/** A Machine whose annotations are signed: by its name, as an object that is restored from a backup has another UID. */
type Signed = Pick<ObjectRef, 'namespace' | 'name'>;

/** Signs for the Machines of one namespace. */
export interface Signer {
  /** HMAC-SHA256 of the value of this annotation of this Machine, base64url. */
  sign(machine: Signed, annotation: string, value: string): string;
  /** Whether a signature is that of this value. */
  isSigned(machine: Signed, annotation: string, value: string, signature: string | undefined): boolean;
}

/**
 * The signer of a namespace. Its key is in a Secret of that namespace, which is made unless it is there; one that is
 * being deleted takes none, and the key is that of this process.
 * @throws {ProviderError} Unavailable: the Secret keeps no key
 */
export type FindSigner = (namespace: string) => Promise<Signer>;

/** How long a key is used before it is read again, ms: its Secret may have been restored from a backup. */
const keyMs = 60_000;

/** @param control holds the Machines and the Secrets with the keys */
export function createSigners(control: KubeClient): FindSigner {
  const known = new Map<string, { readonly signer: Promise<Signer>; readonly readAtMs: number }>();
  return (namespace) => {
    const last = known.get(namespace);
    if (last !== undefined && performance.now() < last.readAtMs + keyMs) return last.signer;
    const signer = ensureKey(control, namespace).then(signerWith);
    known.set(namespace, { signer, readAtMs: performance.now() });
    signer.catch(() => known.delete(namespace));
    return signer;
  };
}

async function ensureKey(control: KubeClient, namespace: string): Promise<Buffer> {
  const place = { namespace, name: signingKeySecret };
  const secret = await control.find(secrets, place, localRequestOptions);
  const data = secret === undefined ? await createKey(control, place) : await fillKey(control, secret);
  const key = Buffer.from(data?.['key'] ?? '', 'base64');
  if (key.length > 0) return key; // with an empty one everybody could sign
  throw new ProviderError(
    'Unavailable',
    `Secret "${namespace}/${signingKeySecret}" has no key \`key\`: it is filled again`,
  );
}

async function createKey(control: KubeClient, place: Signed): Promise<Secret['data']> {
  const data = newKey();
  try {
    return (await control.create(secrets, { metadata: place, type: 'Opaque', data }, localRequestOptions)).data;
  } catch (error) {
    // Nothing new is made there any more, and what exists is deleted: a key of this process is enough to go on.
    if (isNamespaceTerminating(error)) return data;
    if (!isAlreadyExists(error)) throw error;
    return (await control.get(secrets, place, localRequestOptions)).data;
  }
}

/** The data of a Secret that gets a key if it has none: while there is a class, our finalizer keeps it in any case. */
async function fillKey(control: KubeClient, { metadata, data }: Secret): Promise<Secret['data']> {
  if (data?.['key']) return data;
  const { namespace = '', name, uid, resourceVersion } = metadata;
  const filled = mergePatch({ metadata: { uid, resourceVersion }, data: newKey() });
  return (await control.patch(secrets, { namespace, name }, filled, localRequestOptions)).data;
}

function newKey(): { readonly key: string } {
  return { key: randomBytes(32).toString('base64') };
}

function signerWith(key: Buffer): Signer {
  const hash = ({ namespace, name }: Signed, annotation: string, value: string) =>
    createHmac('sha256', key)
      .update(JSON.stringify([namespace, name, annotation, value]))
      .digest();
  return {
    sign: (...signed) => hash(...signed).toString('base64url'),
    isSigned(machine, annotation, value, signature = '') {
      const [expected, found] = [hash(machine, annotation, value), Buffer.from(signature, 'base64url')];
      return expected.length === found.length && timingSafeEqual(expected, found);
    },
  };
}
