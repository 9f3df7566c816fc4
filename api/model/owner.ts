/** What the engine knows of an owner of machines and plans for it. Plain types: the values are in histories. */
import type { Blocker } from '../names.ts';

/** A MachineSet with the counts of its machines. */
export interface SetView {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** Whether it has the template that its MachineDeployment asks for. Always true for a set without a deployment. */
  readonly current: boolean;
  /** metadata.generation: another one is another spec, or a deletion. */
  readonly generation: number;
  readonly managed: boolean;
  readonly deleting: boolean;
  /** It is deleted, and its machines are to stay; left out where that is not so. */
  readonly orphans?: true;
  /** Whether its status says what the owner's workflow has to say of it: the generation, and no problem. */
  readonly observed: boolean;
  /**
   * Whether its annotations are as they should be: the present set tells `replicasToAnnounce`, one of an older template that
   * is not empty what its deployment asks for; and none names a creation that is over, but while a rollout goes on.
   */
  readonly annotated: boolean;
  /** Replicas that it was told its deployment asks for; left out where it never was. */
  readonly told?: number;
  /** Whether no machine may be created in it: it or its deployment is frozen, or it is an old one of an update in place. */
  readonly closed: boolean;
  /** spec.replicas */
  readonly replicas: number;
  /** All Machine objects it owns, terminating ones included. */
  readonly total: number;
  /** Those that are not on their way out: no deletionTimestamp and not Terminating. */
  readonly active: number;
  /** Active ones that are Running or Available. */
  readonly available: number;
  /** Active ones that have not been available yet: nobody counts on them. */
  readonly starting: number;
  /** Active ones that are Failed and to be replaced. */
  readonly failed: number;
  /** Active ones beside those that somebody wants gone first; left out where there are none. */
  readonly marked?: number;
  /** Available ones beside those; left out where there are none of those. */
  readonly unmarked?: number;
  /** Those that were deleted because they had Failed, and are not gone yet. */
  readonly replacing: number;
}

/** How machines of older templates make way for those of the present one. */
export type UpdateStrategy = 'RollingUpdate' | 'Recreate' | 'InPlaceUpdate';

/** A MachineDeployment with its sets, or a MachineSet without a deployment with itself as its only set. */
export interface OwnerView {
  readonly kind: 'MachineDeployment' | 'MachineSet';
  readonly uid: string;
  readonly resourceVersion: string;
  /** metadata.generation: another one is another spec, or a deletion. */
  readonly generation: number;
  readonly managed: boolean;
  readonly deleting: boolean;
  /** It is deleted, and what it owns is to stay; left out where that is not so. */
  readonly orphans?: true;
  /** Whether it says what its workflow has to say of it: the generation, the revision, the problem if there is one. */
  readonly observed: boolean;
  /** Whether a change of the template has to wait. */
  readonly paused: boolean;
  /** Why nothing may be done for it but to delete it: what is wrong with its spec, with the field and the fix. */
  readonly problem?: string;
  readonly replicas: number;
  /** How machines of older templates make way; a set has none. */
  readonly strategy: UpdateStrategy;
  /** Machines that may exist above replicas; 0 for a set. */
  readonly maxSurge: number;
  /** Machines below replicas that may be available while others make way; 0 for a set. */
  readonly maxUnavailable: number;
  /** Reason of the condition Progressing; a set has none. */
  readonly progress?: string;
  /** Seconds without progress after which a rollout has failed. Left out: it never does. */
  readonly progressDeadlineSeconds?: number;
  /** Name and template hash that the set of the present template has or would get. */
  readonly template: { readonly setName: string; readonly hash: string };
  /** Oldest first. */
  readonly sets: readonly SetView[];
}

/** A machine that is to go. */
export interface Candidate {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** Name of its MachineSet. */
  readonly set: string;
  readonly failed: boolean;
}

/**
 * An owner as read by quorum, with those of its machines that are to go, at most 100: Failed ones first, then the surplus
 * of each set in the order in which it goes.
 */
export interface OwnerSnapshot {
  readonly view: OwnerView;
  readonly candidates: readonly Candidate[];
  readonly pendingCreations: readonly PendingCreation[];
}

/** Machines that somebody has begun to create in a set, and may still be creating. */
export interface PendingCreation {
  readonly set: string;
  /** All their names as the set's annotation has them, with commas. */
  readonly text: string;
  /** Those of them that no machine has. */
  readonly left: readonly string[];
}

/** What a rollout waits for, as read live. */
export interface RolloutBlockers {
  /** All machines that it waits for; `machines` are those of them that were made first, at most 20. */
  readonly count: number;
  /** Each with what it says of itself, at most 200 characters. */
  readonly machines: readonly { readonly name: string; readonly reason: string }[];
  /** Why a set does not get its machines, or may have no more. */
  readonly problem?: string;
  /** What most of the machines wait for. */
  readonly blockedOn: Blocker;
}

/** What to do for an owner in one step. */
export interface OwnerPlan {
  /** metadata.generation of the owner that it was made for: it holds for no other. */
  readonly generation: number;
  /** The sets that it was made for, with the replicas that they have once `scale` is done. */
  readonly sets: readonly PlannedSet[];
  /** Put our finalizer on the owner and its sets. */
  readonly addFinalizers: boolean;
  /** Make the set of the present template. */
  readonly createSet?: { readonly name: string; readonly hash: string; readonly replicas: number };
  /**
   * Change spec.replicas and annotations of sets. `told`: see `replicasToAnnounce`; left out where it is what the owner asks
   * for. `finished`: text of a creation that is over.
   */
  readonly scale: readonly {
    readonly set: string;
    readonly replicas: number;
    readonly told?: number;
    readonly finished?: string;
  }[];
  /**
   * Machines to create, by name, so that a repeated step creates the same. `after`: the text of the creation that this
   * one goes on with. Where another has begun since, nothing is created.
   */
  readonly create: readonly {
    readonly set: string;
    readonly uid: string;
    readonly names: readonly string[];
    readonly after?: string;
  }[];
  /** Machines to delete. */
  readonly remove: readonly Candidate[];
  /** Sets that somebody deleted and whose machines are gone: take our finalizer off. */
  readonly releaseSets: readonly { readonly name: string; readonly uid: string }[];
  /** Everything of the owner is gone: delete its sets, if it has any, and let the owner go. */
  readonly release: boolean;
  /** Take note of the generation, and of how the rollout goes. `late`: what holds up one that has just become late. */
  readonly report?: { readonly progress?: string; readonly problem?: string; readonly late?: string };
}

/** A set as a step expects it, from its first change of a machine to its last. */
export interface PlannedSet {
  readonly name: string;
  readonly uid: string;
  readonly generation: number;
  readonly replicas: number;
}
