/** When two machine templates are the same, and what a set made from one is called: pure. */

import { labels } from '../gardener/names.ts';
import type { MachineTemplate } from '../gardener/schema/machine.ts';
import { safeAlphabet } from '../names.ts';
import { byKey, canonical } from './canonical.ts';

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
