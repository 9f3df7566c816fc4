/** Where the VMs of a Machine are: kept on the Machine, as its source may be changed while they exist. */
import { commandLineFor } from '../../api/command-line.ts';
import { dialectOf } from '../../api/dialects.ts';
import { annotationBytes, maxAnnotationBytes } from '../../api/metadata-rules.ts';
import type { MachineSnapshot } from '../../api/model/machine.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import type { Place, SourceSnapshot } from '../../api/model/source.ts';
import { names } from '../../api/names.ts';
import type { KubeObject, Resource } from '../../api/objects.ts';
import { areKnown, isSamePlace, storedPlaces } from '../../api/places.ts';
import type { KubeClient } from '../../kube/client.ts';
import { coalesce } from '../../kube/shared-finds.ts';
import { localRequestOptions } from '../local-request.ts';
import type { FindSigner } from '../signatures.ts';

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

export interface PlacesDeps {
  /** Cluster of the Machines and their sources. */
  readonly control: KubeClient;
  readonly findSigner: FindSigner;
  /** Name of the installation, for the commands in messages. */
  readonly installation: string;
}

/** A Machine by its name: one that is restored from a backup has another UID. */
type Named = Pick<ObjectRef, 'dialect' | 'namespace' | 'name'>;

type Annotations = Readonly<Record<string, string>>;

/** Places that count. Left out: the Machine says nothing of them, or what it says does not count. */
interface Evidence {
  readonly places?: readonly Place[];
  /** Why what it says does not count, with the fix. */
  readonly problem?: string;
}

/** Names of annotations with those of their signatures. */
const ofPlaces = [names.places, names.placesSignature] as const;
const ofNodes = [names.nodes, names.nodesSignature] as const;

/**
 * What Machines say of places and Nodes. Who may edit a Machine can write it as well, so it is evidence only with a
 * signature; places are, too, while sources of the namespace say the same.
 */
export function createPlaceRecords({ control, findSigner, installation }: PlacesDeps) {
  const share = coalesce<readonly Place[]>();

  /** What all sources of a namespace say, read once for all that ask at the same moment. */
  function listSources({ dialect, namespace }: Pick<Named, 'dialect' | 'namespace'>): Promise<readonly Place[]> {
    const list = async <T extends KubeObject>(resource: Resource<T>) =>
      (await control.list(resource, { namespace, ...localRequestOptions })).items;
    return share(`${dialect}/${namespace}`, () => dialectOf(dialect).source.list(list));
  }

  async function sign(
    machine: Named,
    [annotation, signature]: typeof ofPlaces | typeof ofNodes,
    value: string,
    text = value,
  ) {
    const signer = await findSigner(machine.namespace);
    return { [annotation]: value, [signature]: signer.sign(machine, annotation, text) };
  }

  async function isSigned(
    machine: Named,
    { metadata: { annotations = {} } }: KubeObject,
    [annotation, signature]: typeof ofPlaces | typeof ofNodes,
    toText = (value: string) => value,
  ): Promise<boolean> {
    const [value, given] = [annotations[annotation], annotations[signature]];
    if (value === undefined || given === undefined) return false;
    return (await findSigner(machine.namespace)).isSigned(machine, annotation, toText(value), given);
  }

  /** @param present what the source of the Machine says now */
  async function evidenceOf(machine: Named, object: KubeObject, present?: Place): Promise<Evidence> {
    const { places = [], problem } = storedPlaces(object);
    const sourceKind = kindOfSource(machine);
    const retry = `run \`${commandLineFor(installation, 'retry', machine)}\``;
    if (problem !== undefined) {
      const fix = `Correct it, or remove it if the ${sourceKind} still describes that place; then ${retry}`;
      return { problem: `${problem}: it says where the VM was made. ${fix}` };
    }
    const isKnown =
      places.length === 0 ||
      (present !== undefined && areKnown(places, [present])) ||
      (await isSigned(machine, object, ofPlaces)) ||
      areKnown(places, await listSources(machine));
    if (isKnown) return object.metadata.annotations?.[names.places] === undefined ? {} : { places };
    const what = `annotation ${names.places} says where the VM was made, has no valid signature, and no ${sourceKind} says the same`;
    const restore = `If the ${sourceKind} was changed, restore it as it was, or create another one with its former content`;
    const putBack = `If somebody has edited the annotation, put it back, or remove it if the ${sourceKind} still describes the place`;
    return { problem: `${what}. ${restore}. ${putBack}. Then ${retry}` };
  }

  async function nodesOf(machine: Named, object: KubeObject): Promise<string[]> {
    const text = object.metadata.annotations?.[names.nodes];
    const isOwn = text && (await isSigned(machine, object, ofNodes, (value) => ofObject(object, value)));
    return isOwn ? text.split(',').filter(Boolean) : [];
  }

  /** The annotations of a Machine that has, or is about to have, VMs in these places and in no other. */
  function onlyPlaces(machine: Named, places: readonly Place[]): Promise<Annotations> {
    return sign(machine, ofPlaces, JSON.stringify(places));
  }

  return {
    listSources,
    onlyPlaces,

    /**
     * The annotations once there may be a VM in this place as well, which is then the last; undefined where the Machine
     * says so already. Where it says nothing yet, another system has begun the creation, which is recorded, too.
     */
    async withPlace(
      machine: Named,
      object: KubeObject,
      place: Place,
    ): Promise<{ readonly annotations?: Annotations | undefined; readonly problem?: string }> {
      const { places = [], problem } = await evidenceOf(machine, object);
      if (problem !== undefined) return { problem };
      const text = object.metadata.annotations?.[names.places];
      const last = places.at(-1);
      if (last !== undefined && isSamePlace(last, place)) {
        if (await isSigned(machine, object, ofPlaces)) return {};
        return { annotations: await sign(machine, ofPlaces, text ?? '') };
      }
      const changed = await onlyPlaces(machine, [...places.filter((known) => !isSamePlace(known, place)), place]);
      return { annotations: { ...changed, ...(text === undefined && { [names.begunElsewhere]: 'true' }) } };
    },

    /** The annotations with more names of Nodes that go with the Machine. */
    async withNodes(machine: Named, object: KubeObject, nodeNames: readonly string[]): Promise<Annotations> {
      const known = await nodesOf(machine, object);
      const text = [...new Set([...known, ...nodeNames])].join();
      return sign(machine, ofNodes, text, ofObject(object, text));
    },

    /**
     * All places of a Machine: none where nothing was asked of any cloud. A Machine that another system made says
     * nothing of them: its source does.
     */
    async placesOf(
      machine: Named,
      object: KubeObject,
      { providerID }: Pick<MachineSnapshot, 'providerID'>,
      reading: SourceSnapshot,
    ): Promise<PlacesReading> {
      const { annotations = {}, deletionTimestamp } = object.metadata;
      const { cloud } = reading;
      const nodeNames = await nodesOf(machine, object);
      const replacements = Number(annotations[names.replacements]) || 0;
      const isBegunElsewhere =
        annotations[names.places] === undefined || annotations[names.begunElsewhere] !== undefined;
      const mayBeUntagged = isBegunElsewhere && providerID === undefined && deletionTimestamp !== undefined;
      const known = {
        reading,
        ...(nodeNames.length > 0 && { nodeNames }),
        ...(replacements > 0 && { replacements }),
        ...(mayBeUntagged && { mayBeUntagged }),
      };
      const { places, problem } = await evidenceOf(machine, object, cloud);
      if (problem !== undefined) return { ...known, places: [], problem };
      if (places !== undefined && (places.length > 0 || providerID === undefined)) {
        const present = places.map((place) => (cloud !== undefined && isSamePlace(place, cloud) ? cloud : place));
        return { ...known, places: present };
      }
      if (cloud !== undefined) return { ...known, places: [cloud] };
      const sourceKind = kindOfSource(machine);
      const missing = reading.problem ?? `the ${sourceKind} is missing`;
      const fix = `without it Millwright cannot find the VM. Create or correct the ${sourceKind}`;
      return { ...known, places: [], problem: `${missing}: ${fix}` };
    },
  };
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

/** Names of Nodes count for this object alone: another one of its name never had their VMs. */
function ofObject({ metadata: { uid } }: KubeObject, text: string): string {
  return `${uid} ${text}`;
}

/** Kind of the objects that say where VMs are made, for people. */
function kindOfSource({ dialect }: Pick<Named, 'dialect'>): string {
  const { kinds } = dialectOf(dialect);
  return (kinds.source ?? kinds.machine).kind;
}
