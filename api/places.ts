/** Where the VMs of a Machine are, as the Machine says it: its source may be changed while they exist. Pure. */
import { z } from 'zod';
import type { Place } from './model/source.ts';
import { names, providerKey } from './names.ts';
import type { KubeObject } from './objects.ts';
import { byKey } from './owner/canonical.ts';
import { Origin, SecretRef } from './provider.ts';

/** A place as the annotation has it. */
const StoredPlace = z
  .object({
    provider: z.string().min(1),
    origin: Origin.optional().catch(undefined),
    providerSpec: z.unknown(),
    credentials: z.array(SecretRef),
  })
  .transform(({ origin, ...place }) => ({ ...place, ...(origin !== undefined && { origin }) }));

/**
 * The places that a Machine says, which are no evidence yet. `places` is left out where there is no annotation; the
 * problem says what is wrong with it.
 */
export function storedPlaces({ metadata }: KubeObject): { places?: readonly Place[]; problem?: string } {
  const text = metadata.annotations?.[names.places];
  if (text === undefined) return {};
  const { data, error } = z.array(StoredPlace).safeParse(parseJson(text));
  if (data !== undefined) return { places: data };
  const { path, message } = error.issues[0] ?? { path: [], message: 'it cannot be read' };
  const at = path.length > 0 ? ` at ${path.join('.')}` : '';
  return { problem: `annotation ${names.places} is not valid${at} (${message})` };
}

/** Whether two places are one, whatever version of their sources they are from. */
export function isSamePlace(a: Place, b: Place): boolean {
  return essenceOf(a) === essenceOf(b);
}

/** Whether all of these places are what a source says now. */
export function areKnown(places: readonly Place[], sources: readonly Place[]): boolean {
  return places.every((place) => sources.some((source) => isSamePlace(place, source)));
}

/** Whether a Machine says places without any signature, as release 0.1.0 has written them. */
export function isUnsigned({ metadata: { annotations = {} } }: KubeObject): boolean {
  return annotations[names.places] !== undefined && annotations[names.placesSignature] === undefined;
}

/**
 * Answers whether such places of a Machine may be signed: sources say the same now. Machines that say the same are judged
 * once.
 */
export function signableBy(sources: readonly Place[]): (machine: KubeObject) => boolean {
  const known = new Set(sources.map(essenceOf));
  const answers = new Map<string, boolean>();
  return (machine) => {
    if (!isUnsigned(machine)) return false;
    const text = machine.metadata.annotations?.[names.places] ?? '';
    const { places = [] } = answers.has(text) ? {} : storedPlaces(machine);
    const answer = answers.get(text) ?? (places.length > 0 && places.every((place) => known.has(essenceOf(place))));
    answers.set(text, answer);
    return answer;
  };
}

/** All that decides where a VM is and with which Secrets it is reached, whatever the order of the fields. */
function essenceOf({ provider, providerSpec, credentials }: Place): string {
  return JSON.stringify([providerKey(provider), providerSpec, credentials], (_, part: unknown) => {
    const isMap = typeof part === 'object' && part !== null && !Array.isArray(part);
    return isMap ? Object.fromEntries(Object.entries(part).toSorted(byKey)) : part;
  });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
