/** The tags of VMs after those of their source were edited: which have to be changed, and what the source says of it. */
import { isDeepStrictEqual } from 'node:util';
import { dialectOf } from '../api/dialects.ts';
import { type SourceEvent, sourceEvents } from '../api/events.ts';
import type { MachineLimits } from '../api/model/machine.ts';
import type { ObjectRef } from '../api/model/ref.ts';
import type { Place } from '../api/model/source.ts';
import { names } from '../api/names.ts';
import { type KubeObject, referenceTo } from '../api/objects.ts';
import { tagChangeOf, verdictOf, vmTagsDuring } from '../api/verdict.ts';
import type { KubeClient } from '../kube/client.ts';
import type { EventRecorder } from '../kube/events.ts';
import { update } from '../kube/update.ts';
import { localRequest } from './local-request.ts';

export interface VmTagsDeps {
  /** Cluster of the Machines and their sources. */
  readonly control: KubeClient;
  readonly events: EventRecorder;
  readonly defaults: MachineLimits;
}

export type VmTagsActivities = ReturnType<typeof createVmTagsActivities>;

/** Tags to change, on the VMs of some Machines. */
export interface TagUpdate {
  readonly place: Place;
  readonly tags: Readonly<Record<string, string>>;
  readonly removedTags: readonly string[];
  /** In the order of their names. */
  readonly machines: readonly { readonly uid: string; readonly name: string; readonly providerID?: string }[];
  /** There are more Machines than these. */
  readonly hasMore: boolean;
}

/** Machines of one answer: the histories of their updates are as long as a run should have. */
const machinesAtOnce = 200;

export function createVmTagsActivities({ control, events, defaults }: VmTagsDeps) {
  return {
    /**
     * How to tag the VMs of a source anew, for its Machines whose names come after `after`. null: they are tagged. Where
     * that begins, the source says first which tags its VMs may have from then on.
     */
    async readTagUpdate(ref: ObjectRef, after: string): Promise<TagUpdate | null> {
      const { kinds, machine, source } = dialectOf(ref.dialect);
      const { namespace, name } = ref;
      const find: typeof control.find = (resource, key) => control.find(resource, key, localRequest());
      if (kinds.source === undefined) return null;
      const object = await find(kinds.source, { namespace, name });
      const change = object && tagChangeOf(object);
      if (object === undefined || change === undefined) return null;
      const { cloud, version } = await source.read(find, ref, name);
      if (cloud === undefined || verdictOf(object)?.version !== version) return null;
      if (after === '') {
        const annotations = (live: KubeObject) => ({ metadata: { annotations: vmTagsDuring(live, change.tags) } });
        await update(control, kinds.source, ref, annotations, localRequest());
      }
      const { items } = await control.list(kinds.machine, { namespace });
      const own = items
        .filter((each) => source.nameOf(each) === name && each.metadata.name > after)
        .toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
      const toMachine = (each: KubeObject) => {
        const { providerID } = machine.toSnapshot(each, defaults);
        const { uid, name: own } = each.metadata;
        return { uid, name: own, ...(providerID !== undefined && { providerID }) };
      };
      const machines = own.slice(0, machinesAtOnce).map(toMachine);
      return { place: cloud, ...change, machines, hasMore: own.length > machines.length };
    },

    /** Notes on a source that all its VMs have these tags. Answers whether it still says so, and notes nothing if not. */
    async writeVmTags(ref: ObjectRef, tags: Readonly<Record<string, string>>): Promise<boolean> {
      const { kinds } = dialectOf(ref.dialect);
      if (kinds.source === undefined) return true;
      let isStill = true;
      const change = (live: KubeObject) => {
        isStill = isDeepStrictEqual(verdictOf(live)?.tags, tags);
        return isStill ? { metadata: { annotations: { [names.vmTags]: JSON.stringify(tags) } } } : undefined;
      };
      await update(control, kinds.source, ref, change, localRequest());
      return isStill;
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
