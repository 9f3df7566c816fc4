/** Where the VMs of a Machine are: kept on the Machine, as its source may be changed while they exist. */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { annotationBytes, maxAnnotationBytes } from '../../api/metadata-rules.ts';
import type { MachineSnapshot } from '../../api/model/machine.ts';
import type { Place, SourceSnapshot } from '../../api/model/source.ts';
import { names, providerKey } from '../../api/names.ts';
import type { KubeObject } from '../../api/objects.ts';
import { Origin, SecretRef } from '../../api/provider.ts';

/** A place as the annotation has it. */
const StoredPlace = z
  .object({
    provider: z.string().min(1),
    origin: Origin.optional().catch(undefined),
    providerSpec: z.unknown(),
    credentials: z.array(SecretRef),
  })
  .transform(({ origin, ...place }) => ({ ...place, ...(origin !== undefined && { origin }) }));

/** The places where a Machine may have VMs, and its source as it is now. */
export interface PlacesReading {
  /** The last one is that of the latest creation. One that the source still describes has its present generation. */
  readonly places: readonly Place[];
  /** Nodes whose VMs may be gone already; left out where there are none. */
  readonly nodeNames?: readonly string[];
  /** How many VMs of the Machine were replaced; left out for none. */
  readonly replacements?: number;
  /** Another system has begun the creation of the Machine, which is deleted before it has a provider ID. */
  readonly mayBeUntagged?: true;
  readonly reading: SourceSnapshot;
  /** Why the places are not known: names the object, the field and the fix. */
  readonly problem?: string;
}

/** The annotation of a Machine that has, or is about to have, VMs in these places and in no other. */
export function onlyPlaces(places: readonly Place[]): Readonly<Record<string, string>> {
  return { [names.places]: JSON.stringify(places) };
}

/**
 * The annotation once there may be a VM in this place as well, which is then the last; undefined where it says so
 * already. Where it says nothing yet, another system has begun the creation, and that is noted, too.
 */
export function withPlace(machine: KubeObject, place: Place): Readonly<Record<string, string>> | undefined {
  const { places = [] } = readAnnotation(machine);
  const last = places.at(-1);
  if (last !== undefined && isSamePlace(last, place)) return undefined;
  const isFirst = machine.metadata.annotations?.[names.places] === undefined;
  const changed = onlyPlaces([...places.filter((known) => !isSamePlace(known, place)), place]);
  return { ...changed, ...(isFirst && { [names.begunElsewhere]: 'true' }) };
}

/** Why a Machine cannot get more annotations, for people; undefined: it can. */
export function annotationsProblem(
  { metadata }: KubeObject,
  more: Readonly<Record<string, string>> | undefined,
): string | undefined {
  const bytes = annotationBytes({ ...metadata.annotations, ...more });
  if (bytes <= maxAnnotationBytes) return undefined;
  const would = `with ${names.places}, which has the providerSpec, the Machine would have ${bytes} bytes of annotations`;
  return `${would}, and ${maxAnnotationBytes} is the most: make the providerSpec of its class or its own annotations smaller`;
}

/** The annotation with more names of Nodes that go with the Machine. */
export function withNodes(machine: KubeObject, nodeNames: readonly string[]): Readonly<Record<string, string>> {
  return { [names.nodes]: [...new Set([...nodesOf(machine), ...nodeNames])].join() };
}

/**
 * All places of a Machine: none where nothing was asked of any cloud. A Machine that another system made says nothing
 * of them: its source does.
 * @param sourceKind for people: the kind of the object that the source is read from
 */
export function placesOf(
  machine: KubeObject,
  { providerID }: Pick<MachineSnapshot, 'providerID'>,
  reading: SourceSnapshot,
  sourceKind: string,
): PlacesReading {
  const nodeNames = nodesOf(machine);
  const replacements = Number(machine.metadata.annotations?.[names.replacements]) || 0;
  const { annotations = {}, deletionTimestamp } = machine.metadata;
  const isBegunElsewhere = annotations[names.places] === undefined || annotations[names.begunElsewhere] !== undefined;
  const mayBeUntagged = isBegunElsewhere && providerID === undefined && deletionTimestamp !== undefined;
  const known = {
    reading,
    ...(nodeNames.length > 0 && { nodeNames }),
    ...(replacements > 0 && { replacements }),
    ...(mayBeUntagged && { mayBeUntagged }),
  };
  const { places, problem } = readAnnotation(machine);
  if (problem !== undefined) {
    const fix = `Correct it, or remove it if the ${sourceKind} still describes that place; then run \`millwright retry ${machine.metadata.name} -n ${machine.metadata.namespace}\``;
    return { ...known, places: [], problem: `${problem}: it says where the VM was made. ${fix}` };
  }
  const { cloud } = reading;
  if (places !== undefined && (places.length > 0 || providerID === undefined)) {
    const present = places.map((place) => (cloud !== undefined && isSamePlace(place, cloud) ? cloud : place));
    return { ...known, places: present };
  }
  if (cloud !== undefined) return { ...known, places: [cloud] };
  const missing = reading.problem ?? `the ${sourceKind} is missing`;
  const fix = `without it Millwright cannot find the VM. Create or correct the ${sourceKind}`;
  return { ...known, places: [], problem: `${missing}: ${fix}` };
}

function nodesOf({ metadata }: KubeObject): string[] {
  return metadata.annotations?.[names.nodes]?.split(',').filter(Boolean) ?? [];
}

function isSamePlace(a: Place, b: Place): boolean {
  const essence = ({ provider, providerSpec, credentials }: Place) => [
    providerKey(provider),
    providerSpec,
    credentials,
  ];
  return isDeepStrictEqual(essence(a), essence(b));
}

/** `places` is left out where there is no annotation. */
function readAnnotation({ metadata }: KubeObject): { places?: readonly Place[]; problem?: string } {
  const text = metadata.annotations?.[names.places];
  if (text === undefined) return {};
  const { data, error } = z.array(StoredPlace).safeParse(parseJson(text));
  if (data !== undefined) return { places: data };
  const { path, message } = error.issues[0] ?? { path: [], message: 'it cannot be read' };
  const at = path.length > 0 ? ` at ${path.join('.')}` : '';
  const problem = `annotation ${names.places} is not valid${at} (${message})`;
  return { problem };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
