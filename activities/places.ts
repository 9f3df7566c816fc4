/** Where the VMs of a Machine are: kept on the Machine, as its class may be changed while they exist. */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { Machine } from '../api/gardener/machine.ts';
import type { ClassReading, Place } from '../api/model.ts';
import { names } from '../api/names.ts';
import { ClassRef, SecretRef } from '../api/provider.ts';

const Places = z
  .array(
    z.object({
      provider: z.string().min(1),
      class: ClassRef,
      providerSpec: z.unknown(),
      credentials: z.array(SecretRef),
    }),
  )
  .min(1);

/** The places where a Machine may have VMs, and its class as it is now. */
export interface PlacesReading {
  readonly places: readonly Place[];
  readonly reading: ClassReading;
  /** Why there are none: names the object, the field and the fix. */
  readonly problem?: string;
}

/** The annotation of a Machine that has, or is about to have, a VM in this place and in no other. */
export function onlyPlace(place: Place): Readonly<Record<string, string>> {
  return { [names.places]: JSON.stringify([place]) };
}

/** The annotation once there may be a VM in this place as well; undefined where it says so already. */
export function withPlace(machine: Machine, place: Place): Readonly<Record<string, string>> | undefined {
  const { places } = readAnnotation(machine);
  const isKnown = places.some((known) => isSamePlace(known, place));
  return isKnown ? undefined : { [names.places]: JSON.stringify([...places, place]) };
}

/** All places of a Machine. One that machine-controller-manager made says nothing of them: its class does. */
export function placesOf(machine: Machine, reading: ClassReading): PlacesReading {
  const { places, problem } = readAnnotation(machine);
  if (problem !== undefined) return { places: [], reading, problem };
  if (places.length > 0) return { places, reading };
  if (reading.cloud !== undefined) return { places: [reading.cloud], reading };
  return {
    places: [],
    reading,
    problem: `${reading.problem ?? 'the MachineClass is missing'}: the VM cannot be found without it`,
  };
}

function isSamePlace(a: Place, b: Place): boolean {
  const essence = ({ provider, providerSpec, credentials }: Place) => [provider, providerSpec, credentials];
  return isDeepStrictEqual(essence(a), essence(b));
}

function readAnnotation({ metadata }: Machine): { places: readonly Place[]; problem?: string } {
  const text = metadata.annotations?.[names.places];
  if (text === undefined) return { places: [] };
  const { data, error } = Places.safeParse(parseJson(text));
  if (data !== undefined) return { places: data };
  const { path, message } = error.issues[0] ?? { path: [], message: 'it cannot be read' };
  const problem =
    `annotation ${names.places} is not valid${path.length > 0 ? ` at ${path.join('.')}` : ''} (${message}), and it says ` +
    'where the VM is: correct it, or remove it where the MachineClass says so as well, then send the signal retryNow';
  return { places: [], problem };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
