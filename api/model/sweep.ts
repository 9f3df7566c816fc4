/**
 * What the orphan sweep passes between its workflow and the Kubernetes side. Plain types: workflow code imports this
 * file, and the values live in histories.
 */
import type { SourceEvent } from '../events.ts';
import type { CloudResource } from '../provider.ts';
import type { DialectName } from './ref.ts';
import type { Place } from './source.ts';

/** How sure a sweep has to be of what it deletes. */
export interface SweepLimits {
  /** Between the two looks that have to agree. */
  readonly confirmAfterSeconds: number;
  /** What the cloud made more recently is not judged. */
  readonly minimumAgeSeconds: number;
  /** How many orphans may go without approval. */
  readonly brakeCount: number;
  /** The same in percent of the listed VMs: the larger counts. 0: none may. */
  readonly brakeRate: number;
  /** How long a sweep waits for approval before it fails. */
  readonly approvalSeconds: number;
}

/** A source of Machines, with what a sweep needs to see everything that was made from it. */
export interface SweptSource extends Place {
  /** The object that it is read from: sweeps report about it. */
  readonly object: SourceObject;
  /**
   * The object was deleted, and our finalizer keeps it until nothing is left that was made from it. `hasLost`: a
   * Machine was gone before its VM was known to be.
   */
  readonly release?: { readonly generation: number; readonly hasLost?: true };
  /** When a Machine of it was last found gone although its VM was not known to be, RFC 3339. */
  readonly lostAt?: string;
  /** Why it says nothing of where its VMs are, with the fix: no cloud is asked, and a sweep gets no `providerSpec`. */
  readonly problem?: string;
}

export interface SourceObject {
  readonly name: string;
  readonly uid: string;
}

/** What one list of the Machines says of all. */
export interface MachineReading {
  readonly count: number;
  readonly resourceVersion: string;
}

/** The Machines as a sweep has seen them. */
export interface SeenMachines extends MachineReading {
  readonly at: string;
}

/** What earlier sweeps have left to this one. */
export interface PastSweeps {
  /** The Machines as the last sweep that completed has seen them. Left out where there is none. */
  readonly machines?: SeenMachines;
  /** Why one was held, or would have been, and no person has approved what goes. */
  readonly unanswered: readonly string[];
}

/** What a sweep works with. */
export interface SweepScope {
  readonly sources: readonly SweptSource[];
  readonly limits: SweepLimits;
  readonly past: PastSweeps;
  /** Name of the last source, where there are more: what the next call has to name. Left out where there are none. */
  readonly next?: string;
}

/** What a sweep keeps of a listed resource. */
export interface ListedResource
  extends Pick<CloudResource, 'kind' | 'id' | 'uid' | 'name' | 'createdAt' | 'alive' | 'attachedTo'> {
  /** Name of the Machine whose UID a surplus VM carries. */
  readonly excessOf?: string;
  /** Why this may be a healthy VM that has lost its Machine, for people. Left out where nothing says so. */
  readonly doubts?: readonly string[];
}

/** What it takes to tell whose a resource is. With a UID the name is empty, and so is the id of what is no VM. */
export type ResourceKey = Pick<ListedResource, 'kind' | 'id' | 'uid' | 'name' | 'attachedTo'>;

/** Of an orphan what it takes to tell whether it may be a healthy VM. */
export interface AskedOrphan {
  readonly uid?: string;
  /** How old the youngest of the VMs is by Temporal's clock, ms. */
  readonly ageMs: number;
  readonly vms: readonly Pick<ListedResource, 'id' | 'name'>[];
  /** The Machine of its UID exists, and names another VM. Left out otherwise. */
  readonly isSurplus?: true;
}

/**
 * A Machine that is gone, by what its VM says. Without a UID the last one that had the name; with one, whatever its
 * name.
 */
export interface LostMachine {
  readonly namespace: string;
  readonly name: string;
  readonly uid?: string;
  /** How old its VM is, ms: it was deleted since, if it was. */
  readonly ageMs: number;
}

/** Whose Machines a sweep asks for. */
export interface SweepNamespace {
  readonly dialect: DialectName;
  readonly namespace: string;
  /** As in ObjectRef. */
  readonly cluster?: string;
}

/** Which of the resources that were asked about have a Machine. */
export interface Ownership {
  readonly machines: MachineReading;
  /** Places in the list of those that have none. */
  readonly ownerless: readonly number[];
  /**
   * UIDs that no Machine has, of VMs whose provider ID a Machine has: it was restored, and has got a new UID. Whatever
   * carries such a UID belongs to that Machine.
   */
  readonly adopted: readonly string[];
  /** VMs that carry the UID of a Machine that has joined, and that neither a Machine nor its Node names. */
  readonly surplus: readonly SurplusPlace[];
}

/** A VM with the UID of a Machine that names another one. */
export interface SurplusPlace {
  /** Place in the list. */
  readonly place: number;
  /** Name of the Machine. */
  readonly machine: string;
  /** The VM of the Machine, as `vmOf` its provider ID. */
  readonly keeper: string;
}

/** A source object that may go as far as the cloud is concerned. */
export interface ReleasableSource extends SourceObject {
  /** metadata.generation that was swept. */
  readonly generation: number;
}

/** What a sweep did to something that had no Machine, or why a deleted source object stays: an Event on the object. */
export interface SweepNotice {
  readonly object: SourceObject;
  readonly reason: Exclude<SourceEvent, 'SourceInUse'>;
  readonly note: string;
}
