/** The tags of VMs after those of their source were edited: which have to be changed, and what is noted of it. */
import { dialectOf } from '../api/dialects.ts';
import { type SourceEvent, sourceEvents } from '../api/events.ts';
import type { MachineLimits } from '../api/model/machine.ts';
import type { ObjectRef } from '../api/model/ref.ts';
import type { Place } from '../api/model/source.ts';
import { type KubeObject, referenceTo } from '../api/objects.ts';
import { verdictOf } from '../api/verdict.ts';
import { tagsToRemove, withUncertainVmTags, withVmTags } from '../api/vm-tags.ts';
import type { KubeClient } from '../kube/client.ts';
import type { EventRecorder } from '../kube/events.ts';
import { update } from '../kube/update.ts';
import { localRequest } from './local-request.ts';
import { placesOf } from './machine/places.ts';

export interface VmTagsDeps {
  /** Cluster of the Machines and their sources. */
  readonly control: KubeClient;
  readonly events: EventRecorder;
  readonly defaults: MachineLimits;
}

export type VmTagsActivities = ReturnType<typeof createVmTagsActivities>;

/** A Machine whose VM is to have other tags. */
export interface MachineToTag {
  readonly uid: string;
  readonly name: string;
  readonly providerID: string;
  /** Which of `places` its VM is in. */
  readonly place: number;
  /** Keys. Left out where nobody has noted which tags its VM has: it is taken to have them all. */
  readonly removedTags?: readonly string[];
}

/** Tags that some VMs are to have. */
export interface TagUpdate {
  readonly tags: Readonly<Record<string, string>>;
  readonly places: readonly Place[];
  /** In the order of their names. */
  readonly machines: readonly MachineToTag[];
}

/** Machines of one answer: the histories of their updates are as long as a run should have. */
const machinesAtOnce = 200;

export function createVmTagsActivities({ control, events, defaults }: VmTagsDeps) {
  return {
    /**
     * The next Machines of an accepted source whose VMs do not have its tags, of those whose names come after `after`. null:
     * there are none.
     */
    async readTagUpdate(ref: ObjectRef, after: string): Promise<TagUpdate | null> {
      const { kinds, machine, source } = dialectOf(ref.dialect);
      const { namespace, name } = ref;
      const find: typeof control.find = (resource, key) => control.find(resource, key, localRequest());
      if (kinds.source === undefined) return null;
      const object = await find(kinds.source, { namespace, name });
      const verdict = object && verdictOf(object);
      const reading = await source.read(find, ref, name);
      if (verdict?.tags === undefined || verdict.problems.length > 0 || verdict.version !== reading.version)
        return null;
      const { tags } = verdict;

      const { items } = await control.list(kinds.machine, { namespace });
      const places: Place[] = [];
      const machines: MachineToTag[] = [];
      const known = new Map<string, number>();
      const own = items.filter((each) => source.nameOf(each) === name && each.metadata.name > after);
      for (const each of own.toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))) {
        const snapshot = machine.toSnapshot(each, defaults);
        const { providerID, deletingSince } = snapshot;
        const removedTags = tagsToRemove(each, tags);
        if (providerID === undefined || deletingSince !== undefined || removedTags === undefined) continue;
        const place = placesOf(each, snapshot, reading, kinds.source.kind).places.at(-1);
        if (place === undefined) continue;
        const { uid, name: own } = each.metadata;
        machines.push({
          uid,
          name: own,
          providerID,
          place: indexOf(place),
          ...(removedTags !== 'unknown' && { removedTags }),
        });
        if (machines.length === machinesAtOnce) break;
      }
      return machines.length === 0 ? null : { tags, places, machines };

      function indexOf(place: Place): number {
        const text = JSON.stringify(place);
        const index = known.get(text) ?? places.push(place) - 1;
        known.set(text, index);
        return index;
      }
    },

    /**
     * Notes on a Machine that its VM has these tags of its source.
     * @param isCertain false: some parts of the VM may not have them, or may still have others
     */
    async noteVmTags(ref: ObjectRef, tags: TagUpdate['tags'], isCertain: boolean): Promise<void> {
      const annotations = (live: KubeObject) => (isCertain ? withVmTags(tags) : withUncertainVmTags(live, tags));
      const change = (live: KubeObject) => ({ metadata: { annotations: annotations(live) } });
      await update(control, dialectOf(ref.dialect).kinds.machine, ref, change, localRequest());
    },

    /** Records an Event on a source: some of its VMs do not have its tags. */
    async reportTagFailures(ref: ObjectRef, count: number, message: string): Promise<void> {
      const { kinds } = dialectOf(ref.dialect);
      const reason: SourceEvent = 'TagsNotUpdated';
      events.record({
        regarding: referenceTo(kinds.source ?? kinds.machine, ref),
        type: sourceEvents[reason].type,
        reason,
        note: `${count} of its VMs do not have its tags: ${message}`,
        action: 'Tag',
      });
    },
  };
}
