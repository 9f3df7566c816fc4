/** When two machine templates are the same, and the name of a set made from one: pure. */
import type { OwnerApi } from '../dialect.ts';
import { safeAlphabet } from '../names.ts';
import { byKey, canonical } from './canonical.ts';
import type { OwnerTemplate } from './objects.ts';

/**
 * Whether two templates make the same machines. The hash label does not count, nor what the dialect leaves out of the
 * spec; a change of anything else is a rollout.
 */
export function templatesEqual(api: OwnerApi, a: OwnerTemplate | undefined, b: OwnerTemplate | undefined): boolean {
  return canonical(identityOf(api, a)) === canonical(identityOf(api, b));
}

/**
 * Hash of a template: FNV-1a of 32 bits in decimal. `collisionCount` gives another hash when the name was taken. Sets
 * are found by their template, never by this hash: other controllers hash differently.
 */
export function templateHash(api: OwnerApi, template: OwnerTemplate | undefined, collisionCount = 0): string {
  const text = canonical(identityOf(api, template)) + (collisionCount > 0 ? String(collisionCount) : '');
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return String(hash);
}

/** `<deployment>-<5 characters>`, the characters being Kubernetes' safe encoding of the hash. */
export function newSetName(deployment: string, hash: string): string {
  const encoded = Array.from(hash, (digit) => safeAlphabet[digit.charCodeAt(0) % safeAlphabet.length]).join('');
  return `${deployment}-${encoded.slice(0, 5)}`;
}

/** Finalizers of the machines of a template. */
export function finalizersOf(template: OwnerTemplate | undefined): string[] {
  const finalizers: unknown[] = Array.isArray(template?.metadata?.['finalizers'])
    ? template.metadata['finalizers']
    : [];
  return finalizers.filter((one) => typeof one === 'string');
}

/** The template of a set as its deployment had it. */
export function withoutHash({ owner }: OwnerApi, template: OwnerTemplate): OwnerTemplate {
  const { [owner.keys.templateHash]: _, ...own } = template.metadata?.labels ?? {};
  return { ...template, metadata: { ...template.metadata, labels: own } };
}

function identityOf({ owner }: OwnerApi, template: OwnerTemplate | undefined): unknown {
  const { labels = {}, annotations, ...metadata } = template?.metadata ?? {};
  const { [owner.keys.templateHash]: _, ...counted } = labels;
  return {
    // As lists, in which an empty value counts.
    labels: Object.entries(counted).toSorted(byKey),
    annotations: Object.entries(annotations ?? {}).toSorted(byKey),
    metadata: { ...metadata, creationTimestamp: undefined },
    ...owner.template.identityOf(template?.spec),
  };
}
