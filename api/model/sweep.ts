/**
 * What the orphan sweep passes between its workflow and the Kubernetes side. Plain types: workflow code imports this
 * file, and the values live in histories.
 */
import type { ClassEvent } from '../events.ts';
import type { ClassRef, CloudResource, SecretRef } from '../provider.ts';
import type { DialectName } from './ref.ts';

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

/** A MachineClass as a sweep needs it. */
export interface SweptClass {
  readonly uid: string;
  /** Whether it was deleted and our finalizer keeps it. */
  readonly leaving: boolean;
  readonly provider: string;
  readonly class: ClassRef;
  readonly providerSpec: unknown;
  readonly credentials: readonly SecretRef[];
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
  readonly classes: readonly SweptClass[];
  readonly limits: SweepLimits;
  readonly past: PastSweeps;
}

/** What a sweep keeps of a listed resource. */
export interface ListedResource extends Pick<CloudResource, 'kind' | 'id' | 'uid' | 'name' | 'createdAt' | 'alive'> {
  /** Name of the Machine whose UID a surplus VM carries. */
  readonly excessOf?: string;
}

/** What it takes to tell whose a resource is. */
export type ResourceKey = Omit<ListedResource, 'createdAt' | 'alive' | 'surplusOf'>;

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

/** A class that may go as far as the cloud is concerned. */
export interface ReleasableClass {
  readonly name: string;
  readonly uid: string;
  /** metadata.generation that was swept. */
  readonly generation: number;
}

/** What a sweep did to something that had no Machine, or why a deleted class stays: to be told on the class. */
export interface SweepNotice {
  readonly class: { readonly name: string; readonly uid: string };
  readonly reason: Exclude<ClassEvent, 'ClassInUse'>;
  readonly note: string;
}
