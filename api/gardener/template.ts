/** When two machine templates are the same, and what a set made from one is called: pure. */
import type { MachineTemplate } from './machine.ts';
import { labels } from './names.ts';

/**
 * Whether two templates make the same machines. As machine-controller-manager sees it: the hash label, nodeTemplate, the
 * timeouts and other knobs, and class.kind do not count; a change of anything else is a rollout.
 */
export function templatesEqual(a: MachineTemplate | undefined, b: MachineTemplate | undefined): boolean {
  return canonical(essence(a)) === canonical(essence(b));
}

/**
 * Hash of a template: FNV-1a of 32 bits in decimal. `collisionCount` makes another one when the first was taken. Sets
 * are found by their template, never by this hash: those that MCM made have another.
 */
export function templateHash(template: MachineTemplate | undefined, collisionCount = 0): string {
  const text = canonical(essence(template)) + (collisionCount > 0 ? String(collisionCount) : '');
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return String(hash);
}

/** The alphabet of generated names in Kubernetes: nothing that could spell a word. */
const safeAlphabet = 'bcdfghjklmnpqrstvwxz2456789';

/** `<deployment>-<5 characters>`, the characters being Kubernetes' safe encoding of the hash. */
export function newSetName(deployment: string, hash: string): string {
  const encoded = Array.from(hash, (digit) => safeAlphabet[digit.charCodeAt(0) % safeAlphabet.length]).join('');
  return `${deployment}-${encoded.slice(0, 5)}`;
}

function essence(template: MachineTemplate | undefined): unknown {
  const { labels: ownLabels = {}, annotations, ...metadata } = template?.metadata ?? {};
  const { [labels.templateHash]: _, ...counted } = ownLabels;
  const { class: machineClass, providerID } = template?.spec ?? {};
  return {
    // As lists, in which an empty value counts.
    labels: Object.entries(counted).toSorted(byKey),
    annotations: Object.entries(annotations ?? {}).toSorted(byKey),
    metadata: { ...metadata, creationTimestamp: undefined },
    class: { apiGroup: machineClass?.apiGroup, name: machineClass?.name },
    providerID,
  };
}

/** JSON with sorted keys, without fields that are empty: how an object was written does not matter. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) => {
    if (part === null || part === '' || typeof part !== 'object') return part || undefined;
    if (Array.isArray(part)) return part.length === 0 ? undefined : part;
    return Object.fromEntries(Object.entries(part).toSorted(byKey));
  });
}

function byKey([a]: [string, unknown], [b]: [string, unknown]): number {
  return a < b ? -1 : 1;
}
