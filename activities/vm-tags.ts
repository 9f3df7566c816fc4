/** The tags of VMs after those of their source were edited: which have to be changed, and what is noted of it. */
import { dialectOf } from '../api/dialects.ts';
import { type SourceEvent, sourceEvents } from '../api/events.ts';
import type { MachineLimits } from '../api/model/machine.ts';
import type { ObjectRef } from '../api/model/ref.ts';
import type { Place } from '../api/model/source.ts';
import { type KubeObject, referenceTo } from '../api/objects.ts';
import { inPortions } from '../api/payloads.ts';
import { verdictOf } from '../api/verdict.ts';
import { isTagged, toTagChange, vmTagsOf, withUncertainVmTags, withVmTags } from '../api/vm-tags.ts';
import type { EventRecorder } from '../kube/events.ts';
import { update } from '../kube/update.ts';
import { localRequest } from './local-request.ts';
import { createPlaceRecords, type PlacesDeps } from './machine/places.ts';

export interface VmTagsDeps extends PlacesDeps {
  readonly events: EventRecorder;
  readonly defaults: MachineLimits;
}

export type VmTagsActivities = ReturnType<typeof createVmTagsActivities>;

/** A Machine whose VM is to have other tags. */
export interface MachineToTag {
  readonly uid: string;
  readonly name: string;
  readonly providerID: string;
  /** Which of `places` its VM is in; -1 where nobody can say. */
  readonly place: number;
  /** Why nobody can say where its VM is. */
  readonly problem?: string;
  /** What the Machine says of the tags of its VM. */
  readonly noted?: string;
  /** Keys. Left out where nobody has noted which tags its VM has: it is taken to have them all. */
  readonly removedTags?: readonly string[];
}

/** Tags that some VMs are to have. */
export interface TagUpdate {
  readonly tags: Readonly<Record<string, string>>;
  readonly places: readonly Place[];
  /** Those that an earlier update may have failed on come last. */
  readonly machines: readonly MachineToTag[];
  /** The last of their names. */
  readonly last: string;
}

/** Machines of one answer: the histories of their updates are as long as a run should have. */
const machinesAtOnce = 200;

export function createVmTagsActivities(deps: VmTagsDeps) {
  const { control, events, defaults } = deps;
  const { placesOf } = createPlaceRecords(deps);

  return {
    /**
     * The next Machines of an accepted source whose VMs do not have its tags, of those whose names come after `after`.
     * null: there are none, or the source is gone.
     */
    async readTagUpdate(ref: ObjectRef, after: string): Promise<TagUpdate | null> {
      const { kinds, machine, source } = dialectOf(ref.dialect);
      const { namespace, name } = ref;
      const find: typeof control.find = (resource, key) => control.find(resource, key, localRequest());
      if (kinds.source === undefined) return null;
      const object = await find(kinds.source, { namespace, name });
      const verdict = object?.metadata.uid === ref.uid ? verdictOf(object) : undefined;
      const reading = await source.read(find, ref, name);
      if (verdict?.tags === undefined || verdict.problems.length > 0 || verdict.version !== reading.version)
        return null;
      const { tags } = verdict;

      const { items } = await control.list(kinds.machine, { namespace, ...localRequest() });
      const changeOf = toTagChange(tags);
      const own = items.filter((each) => source.nameOf(each) === name && each.metadata.name > after);
      const due = own
        .toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
        .flatMap((each) => {
          const snapshot = machine.toSnapshot(each, defaults);
          const { providerID } = snapshot;
          const change = changeOf(each);
          if (providerID === undefined || !isTagged(snapshot) || change === undefined) return [];
          return [{ each, snapshot, providerID, change }];
        })
        .slice(0, machinesAtOnce);
      const places: Place[] = [];
      const known = new Map<string, number>();
      const all = await Promise.all(due.map(findPlaces));
      const counted = new Set<string>();
      const toPassed = ({ each, found }: (typeof all)[number]) => {
        const place = JSON.stringify(found.at(-1) ?? null);
        const isKnown = counted.has(place);
        counted.add(place);
        return [each.metadata.name, each.metadata.uid, vmTagsOf(each), isKnown ? undefined : place];
      };
      const [first = []] = inPortions(all, undefined, toPassed);
      const machines = first.map(({ each, providerID, change, found, problem }): MachineToTag => {
        const place = found.at(-1);
        const noted = vmTagsOf(each);
        return {
          ...{ uid: each.metadata.uid, name: each.metadata.name, providerID },
          place: place === undefined ? -1 : indexOf(place),
          ...(place === undefined && { problem: problem ?? 'nothing says where its VM was made' }),
          ...(noted !== undefined && { noted }),
          ...(change.removed !== undefined && { removedTags: change.removed }),
        };
      });
      const last = machines.at(-1)?.name;
      if (last === undefined) return null;
      const isUncertain = ({ noted = '' }: MachineToTag) => noted.includes(':null');
      const inOrder = machines.toSorted((a, b) => Number(isUncertain(a)) - Number(isUncertain(b)));
      return { tags, places, machines: inOrder, last };

      async function findPlaces(of: (typeof due)[number]) {
        const key = { dialect: ref.dialect, namespace, name: of.each.metadata.name };
        const { places: found, problem } = await placesOf(key, of.each, of.snapshot, reading);
        return { ...of, found, problem };
      }

      function indexOf(place: Place): number {
        const text = JSON.stringify(place);
        const index = known.get(text) ?? places.push(place) - 1;
        known.set(text, index);
        return index;
      }
    },

    /**
     * Notes on a Machine that its VM has these tags of its source. Answers what it says then; null: it names another VM
     * or says something else than was `seen`, and nothing was written.
     * @param isCertain false: some parts of the VM may not have them, or may still have others
     */
    async noteVmTags(
      ref: ObjectRef,
      seen: Pick<MachineToTag, 'providerID' | 'noted'>,
      tags: TagUpdate['tags'],
      isCertain: boolean,
    ): Promise<string | null> {
      const { kinds, machine } = dialectOf(ref.dialect);
      let isAsSeen = false;
      const change = (live: KubeObject) => {
        isAsSeen = machine.toSnapshot(live, defaults).providerID === seen.providerID && vmTagsOf(live) === seen.noted;
        const annotations = isCertain ? withVmTags(tags) : withUncertainVmTags(live, tags);
        return isAsSeen ? { metadata: { annotations } } : undefined;
      };
      const written = await update(control, kinds.machine, ref, change, localRequest());
      return (isAsSeen && written && vmTagsOf(written)) || null;
    },

    /** Records an Event on a source: some of its VMs do not have its tags. */
    async reportTagFailures(ref: ObjectRef, count: number, message: string): Promise<void> {
      const { kinds } = dialectOf(ref.dialect);
      const reason: SourceEvent = 'TagsNotUpdated';
      events.record({
        regarding: referenceTo(kinds.source ?? kinds.machine, ref),
        type: sourceEvents[reason].type,
        reason,
        note: `at least ${count} of its VMs do not have its tags: ${message}`,
        action: 'Tag',
      });
    },
  };
}
