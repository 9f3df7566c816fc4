/** What the engine knows of an owner of machines and plans for it. Plain types: the values are in histories. */
import type { Blocker } from '../names.ts';
import type { Limits } from './limits.ts';

/** Something of an object that differs from what its workflow would write there. */
export type Outdated = 'annotations' | 'status';

/** A MachineSet with the counts of its machines. */
export interface SetView {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** Whether it has the current template of its MachineDeployment. Always true for a set without a deployment. */
  readonly isNew: boolean;
  /** metadata.generation: another one is another spec, or a deletion. */
  readonly generation: number;
  readonly hasOurFinalizer: boolean;
  readonly deleting: boolean;
  /** It was deleted with `--cascade=orphan` and its machines stay; left out otherwise. */
  readonly orphans?: true;
  /**
   * status: the generation is not recorded, or it reports a failure that is over. annotations: the new set has to
   * announce other replicas (`replicasToAnnounce`), an old set that is not empty those of its deployment, or a
   * completed creation is still recorded and no rollout is under way, or attempts that count no more are.
   */
  readonly outdated: readonly Outdated[];
  /** Replicas of its deployment as its annotation has them; left out where it has none. */
  readonly announcedReplicas?: number;
  /** Whether no machine may be created in it, see `OwnerDialect.isClosed`. */
  readonly closed: boolean;
  /** spec.replicas */
  readonly replicas: number;
  /** All Machine objects that it owns, those being deleted included. */
  readonly total: number;
  /** Machines that are not being deleted. */
  readonly active: number;
  /**
   * Active machines that are Running, or Available without a target cluster, and that the autoscaler has not scaled
   * down; where `minReadySeconds` is set only those that are so for as long.
   */
  readonly available: number;
  /** Left out where it does not count. */
  readonly minReadySeconds?: number;
  /**
   * Active machines that have not been available yet, and that are neither scaled down by the autoscaler nor preserved.
   */
  readonly starting: number;
  /** Active machines that are Failed and will be replaced. */
  readonly failed: number;
  /** The others of the active machines that are marked to be deleted first; left out where there are none. */
  readonly marked?: number;
  /** Available machines without a mark; left out where no machine is marked. */
  readonly unmarked?: number;
  /** Active machines, besides the Failed ones, that the autoscaler has scaled down; left out where there are none. */
  readonly unneeded?: number;
  /** Machines that it adopts or releases; left out where there are none. */
  readonly ownerChanges?: number;
  /** Machines that were deleted because they had Failed, and still exist. */
  readonly replacing: number;
  /** The set of the current template lacks annotations, fields or settings of its deployment; left out otherwise. */
  readonly isBehind?: true;
  /** Active machines that have Failed and are preserved; left out where there are none. */
  readonly preserved?: number;
  /** Active machines that are preserved and not available; left out where there are none. */
  readonly setAside?: number;
  /** Available machines that are preserved, besides those that are updated in place; left out where there are none. */
  readonly preservedAvailable?: number;
  /** Machines whose preservation by their set begins or ends now; left out where there are none. */
  readonly preservations?: number;
  /** Machines that lack settings of the template, see `machinesBehind`; left out where there are none. */
  readonly machinesBehind?: number;
  /** Machines that are updated in place; left out where there are none. */
  readonly updates?: UpdateCounts;
  /** Attempts in a row to make machines of it of which none has joined; left out where there are none. */
  readonly failedAttempts?: {
    readonly count: number;
    /** Why one has failed. */
    readonly reason: string;
    /** When the next attempt may begin, RFC 3339; left out while it is under way. */
    readonly until?: string;
    /** No machine is created in it before. */
    readonly isPaused?: true;
  };
  /** Its record of such attempts counts no more; left out otherwise. */
  readonly hasOldAttempts?: true;
}

/** What the annotation `failedAttempts` of a set says. Times are RFC 3339. */
export interface FailedAttempts {
  readonly count: number;
  /** When the first machine that failed was created: another one that is as young and joins ends the row. */
  readonly since: string;
  /** Until when no machine is created, on Temporal's clock; left out while the next attempt is under way. */
  readonly until?: string;
  /** Why a machine has failed, for people. */
  readonly reason: string;
  /** Template and replicas: a change of either starts a new count. */
  readonly about: string;
}

/**
 * Active machines of a set that are updated in place. The first three are 0 but for an old set of an in-place update.
 */
export interface UpdateCounts {
  /** They do not know yet that they are to be updated. */
  readonly unmarked: number;
  /** They are available, and it is not their turn yet. */
  readonly selectable: number;
  /** It is their turn, or their update has failed, or succeeded. */
  readonly selected: number;
  /** It is their turn, and they are available, so far or again. */
  readonly selectedAvailable: number;
  /**
   * Their agent has succeeded: they may be handed over, also to the set that they are in when the template went back.
   */
  readonly updated: number;
  /**
   * They are candidates, or selected and not drained yet, although they have the current template; 0 for an old set.
   */
  readonly unreleased: number;
  /** They are available and were handed over to this set, and their Nodes do not take pods yet. */
  readonly returning: number;
}

/** How the rollout of a deployment goes, as its status says. An API of machines has its own words for it. */
export type RolloutProgress =
  | 'created' // the set of the current template was created
  | 'found' // the set of the current template existed
  | 'updated' // machines are being replaced
  | 'complete'
  | 'late' // no progress within the deadline; stays while the deployment is paused
  | 'paused'
  | 'resumed'
  | 'other'; // a word of the API that the engine never writes

/**
 * How machines of old sets are replaced. RollingUpdate: within maxSurge and maxUnavailable. Recreate: all are deleted
 * before a new one is created. InPlace: an agent on their Nodes updates them, and they are handed over to the new set.
 */
export type UpdateStrategy = 'RollingUpdate' | 'Recreate' | 'InPlace';

/** A MachineDeployment with its sets, or a MachineSet without a deployment with itself as its only set. */
export interface OwnerView {
  readonly kind: 'MachineDeployment' | 'MachineSet';
  readonly uid: string;
  readonly resourceVersion: string;
  /** metadata.generation: another one is another spec, or a deletion. */
  readonly generation: number;
  readonly hasOurFinalizer: boolean;
  readonly deleting: boolean;
  /** It was deleted with `--cascade=orphan` and what it owns stays; left out otherwise. */
  readonly orphans?: true;
  /** status: generation, revision, or the problem if there is one, are not as they should be. */
  readonly outdated: readonly Outdated[];
  /** Whether a change of the template waits. */
  readonly paused: boolean;
  /** What is wrong with its spec, with the field and the fix. Such an owner is only deleted. */
  readonly problem?: string;
  readonly replicas: number;
  /** RollingUpdate for a set without a deployment. */
  readonly strategy: UpdateStrategy;
  /** People select the machines that are updated in place, by a label of the Node; left out otherwise. */
  readonly selectsManually?: true;
  /** Machines that may exist above replicas; 0 for a set. */
  readonly maxSurge: number;
  /** Available machines that may be missing during a rollout; 0 for a set. */
  readonly maxUnavailable: number;
  /**
   * When machines that are being deleted count against replicas + maxSurge. `always`: by the rules of release 0.1.0,
   * whose readings do not have this field.
   */
  readonly countsLeaving: 'never' | 'inRollouts' | 'always';
  /** What its status says of the rollout; left out for a set, and where the status says nothing. */
  readonly progress?: RolloutProgress;
  /** Seconds without progress after which a rollout has failed. Left out: never. */
  readonly progressDeadlineSeconds?: number;
  /** Old sets without machines that it keeps; left out: all. */
  readonly historyLimit?: number;
  /** Sets that it adopts; left out where there are none. */
  readonly adoptable?: readonly { readonly name: string; readonly uid: string }[];
  /** The machines that it lists to be deleted are not marked yet, or its list has others; left out otherwise. */
  readonly isMarking?: true;
  /** The limits of its namespace that it takes part in; left out where there are none. */
  readonly limits?: Limits;
  /** Its spec asks for an earlier template; left out otherwise. */
  readonly rollsBack?: true;
  /** A rollout that is late is taken back; left out otherwise. */
  readonly rollsBackWhenLate?: true;
  /**
   * It is to be recorded when the rollout of its template is complete; left out where that is not asked for, or is so
   * already.
   */
  readonly lacksCompletion?: true;
  /**
   * Left out where no machine is unhealthy for longer than its health timeout, and none is being replaced because of
   * that.
   */
  readonly health?: OwnerHealth;
  /**
   * Name, template hash and revision that the set of the current template has or would get. No revision: of a set, and
   * in readings of release 0.1.0.
   */
  readonly template: { readonly setName: string; readonly hash: string; readonly revision?: number };
  /** Oldest first. */
  readonly sets: readonly SetView[];
}

/** The unhealthy machines of an owner. */
export interface OwnerHealth {
  /** Machines that ask to be replaced. */
  readonly asking: number;
  /**
   * Replacements under way: from the decision until the unhealthy machine is gone and the one in its place is
   * available.
   */
  readonly replacing: number;
}

/** A machine that asks its owner to be replaced. */
export interface Asking {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** Name of its MachineSet. */
  readonly set: string;
  /** As in its status, RFC 3339. */
  readonly askedAt: string;
}

/** A machine that may be deleted. */
export interface Candidate {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** Name of its MachineSet. */
  readonly set: string;
  readonly failed: boolean;
  /** The autoscaler has scaled it down; left out otherwise. */
  readonly unneeded?: true;
  /**
   * It is replaced because it was unhealthy, or was made in place of such a machine and has failed; left out otherwise.
   */
  readonly isOfReplacement?: true;
  /** Why it has Failed without having joined, and its creationTimestamp; left out otherwise. */
  readonly failedToJoin?: { readonly createdAt: string; readonly reason: string };
}

/** A machine that its set keeps from now on although it has failed, or no more. */
export interface PreservationChange {
  readonly name: string;
  readonly uid: string;
  /** Name of its MachineSet. */
  readonly set: string;
  readonly isKept: boolean;
}

/** A machine that a set adopts or releases. */
export interface OwnerChange {
  readonly name: string;
  readonly uid: string;
  /** Name of the MachineSet. */
  readonly set: string;
  readonly isAdopted: boolean;
}

/** A machine that lacks settings which the template of its set has by now. */
export interface MachineBehind {
  readonly name: string;
  readonly uid: string;
  /** Name of its MachineSet. */
  readonly set: string;
}

/**
 * An owner as read by quorum, with at most 100 machines that may be deleted: Failed and unneeded ones first, then the
 * excess of each set in the order of deletion.
 */
export interface OwnerSnapshot {
  readonly view: OwnerView;
  readonly candidates: readonly Candidate[];
  readonly pendingCreations: readonly PendingCreation[];
  /** At most 100; left out where there are none. */
  readonly ownerChanges?: readonly OwnerChange[];
  /** At most 100; left out where there are none. */
  readonly machinesBehind?: readonly MachineBehind[];
  /** At most 100; left out where there are none. */
  readonly preservations?: readonly PreservationChange[];
  /** Left out where the view has no `health`. */
  readonly health?: HealthReading;
  /** Left out where no set has `updates`. */
  readonly updates?: InPlaceReading;
}

/** Machines that are updated in place, at most 100 in each list. */
export interface InPlaceReading {
  /** Machines of old sets that do not know yet that they are to be updated. */
  readonly candidates: readonly UpdatedMachine[];
  /** Available machines whose turn may come, in the order of deletion. */
  readonly selectable: readonly UpdatedMachine[];
  /** Machines whose agent has succeeded. */
  readonly updated: readonly UpdatedMachine[];
  /** Machines of the current template that are candidates, or selected and not drained yet. */
  readonly released: readonly UpdatedMachine[];
}

/** A machine that is updated in place. */
export interface UpdatedMachine {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** Name of its MachineSet. */
  readonly set: string;
}

/**
 * What a step does for in-place updates: the machines that become candidates, are selected, handed over, or released.
 */
export interface InPlacePlan {
  readonly mark: readonly UpdatedMachine[];
  readonly select: readonly UpdatedMachine[];
  readonly handOver: readonly UpdatedMachine[];
  readonly release: readonly UpdatedMachine[];
  /** To which they are handed over. */
  readonly newSet?: { readonly name: string; readonly uid: string };
}

/** The unhealthy machines of an owner by name. */
export interface HealthReading {
  /** How many replacements may be under way at once. */
  readonly most: number;
  /**
   * Machines that ask to be replaced, the longest unhealthy first, at most 100. Without those of sets that may get no
   * other.
   */
  readonly asking: readonly Asking[];
  /** Names of machines that are being replaced, and in whose place none was made yet. */
  readonly unfilled: readonly string[];
}

/** What a run knows of what an owner has, for its next reading. */
export interface LastSeen {
  /** Who has made the last reading of the run; left out before its first. */
  readonly reader?: string;
  /** How many a watcher has seen since, if it has. From a cache: it may be too much or too little. */
  readonly sets?: number;
  readonly machines?: number;
  /** Failed attempts of sets, by name, as it has had them recorded. */
  readonly attempts?: Readonly<Record<string, FailedAttempts>>;
}

/** What a run plans with, and who has read it. */
export interface OwnerReading extends OwnerSnapshot {
  readonly reader: string;
}

/** Machines that a step creates or has created in a set, as the annotation of the set records them. */
export interface PendingCreation {
  readonly set: string;
  readonly id: string;
  readonly names: readonly string[];
  /** Names of the machines that do not exist. */
  readonly missing: readonly string[];
  /** This run has planned it: no step of a lost run goes on from it. */
  readonly isOwn?: true;
}

/** What a rollout waits for, as read live. */
export interface RolloutBlockers {
  /** Number of all machines that it waits for; `machines` are the 20 oldest of them. */
  readonly count: number;
  /** Each with its own words, at most 200 characters. */
  readonly machines: readonly { readonly name: string; readonly reason: string }[];
  /** Why a set does not get its machines, or may have no more. */
  readonly problem?: string;
  /** What most of the machines wait for. */
  readonly blockedOn: Blocker;
}

/** What to do for an owner in one step. */
export interface OwnerPlan {
  /** metadata.generation of the owner that the plan was made for: it holds for no other. */
  readonly generation: number;
  /** The sets that the plan was made for, with the replicas that they have once `scale` is done. */
  readonly sets: readonly PlannedSet[];
  /** Add our finalizer to the owner and its sets. */
  readonly addFinalizers: boolean;
  /** Create the set of the current template. */
  readonly createSet?: { readonly name: string; readonly hash: string; readonly replicas: number };
  /** Changes of spec.replicas and annotations of sets. */
  readonly scale: readonly PlannedScale[];
  readonly create: readonly PlannedCreation[];
  /** Machines to delete. */
  readonly remove: readonly Candidate[];
  /** Failed attempts of sets, by name, as the run has had them recorded; left out where there are none. */
  readonly attempts?: Readonly<Record<string, FailedAttempts>>;
  /** Unhealthy machines that are replaced from now on, unless that is an outage; left out where there are none. */
  readonly replace?: readonly Asking[];
  /** Machines that their sets keep from now on, or no more; left out where there are none. */
  readonly preserve?: readonly PreservationChange[];
  /** Go back to an earlier template, as the spec asks for or because the rollout is late. Nothing else is done then. */
  readonly rollback?: 'asked' | 'late';
  /** The set whose rollout is recorded as complete. */
  readonly completed?: { readonly name: string; readonly uid: string };
  /** Left out where there is nothing to do for in-place updates. */
  readonly update?: InPlacePlan;
  /** Machines that sets adopt or release; left out where there are none. */
  readonly ownerChanges?: readonly OwnerChange[];
  /** Sets that the deployment adopts; left out where there are none. */
  readonly adopt?: readonly { readonly name: string; readonly uid: string }[];
  /** Mark the machines that the owner lists to be deleted. */
  readonly mark?: true;
  /** Old sets without machines that are deleted, in this order; left out where there are none. */
  readonly forget?: readonly { readonly name: string; readonly uid: string; readonly resourceVersion: string }[];
  /** Machines that get the settings of their template; left out where there are none. */
  readonly settings?: readonly MachineBehind[];
  /** Deleted sets without machines: remove our finalizer. */
  readonly releaseSets: readonly { readonly name: string; readonly uid: string }[];
  /** The machines of a deleted owner are gone: delete its sets, and remove our finalizer from all. */
  readonly release: boolean;
  /** Record the generation, and how the rollout goes. `late`: what blocks a rollout that has just become late. */
  readonly report?: { readonly progress?: RolloutProgress; readonly problem?: string; readonly late?: string };
}

/** A set as a step expects it, from its first change of a machine to its last. */
export interface PlannedSet {
  readonly name: string;
  readonly uid: string;
  readonly generation: number;
  readonly replicas: number;
}

/** A change of spec.replicas and annotations of a set. */
export interface PlannedScale {
  readonly set: string;
  readonly replicas: number;
  /** See `replicasToAnnounce`; left out where it equals spec.replicas of the owner. */
  readonly announcedReplicas?: number;
  /** Id of a creation that is over: its record is removed. */
  readonly completed?: string;
  /** It gets what its deployment says by now; left out otherwise. */
  readonly settings?: true;
  /** Its record of failed attempts is removed; left out otherwise. */
  readonly forgetsAttempts?: true;
}

/** Machines to create in a set, by name: a repeated step creates the same machines. */
export interface PlannedCreation {
  readonly set: string;
  readonly uid: string;
  readonly id: string;
  readonly names: readonly string[];
  /** For some of the names, the unhealthy machine in whose place it is made; left out where there are none. */
  readonly replaces?: Readonly<Record<string, string>>;
  /** Id of the recorded creation that this one replaces. Where the set records another one, nothing is created. */
  readonly continues?: string;
}
