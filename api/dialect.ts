/**
 * The door between the engine and an API of machines. A dialect is one folder (`api/gardener`) that implements this
 * interface; api/dialects.ts lists them. Nothing else imports such a folder, and nothing else spells its words.
 *
 * Workflow code imports no dialect: everything that depends on it is in the snapshots that activities and watchers
 * make.
 */
import type { MachineEvent } from './events.ts';
import type { MachineMetric, ObjectMetric, ToLive } from './metrics.ts';
import type {
  MachineLimits,
  MachineReport,
  MachineSnapshot,
  MachineStage,
  ReplacementRequest,
} from './model/machine.ts';
import type { RolloutProgress, UpdateStrategy } from './model/owner.ts';
import type { DialectName, ObjectRef } from './model/ref.ts';
import type { SourceSnapshot } from './model/source.ts';
import type { SweptSource } from './model/sweep.ts';
import type { Change, NodePatch, Taint, TemplatedNode } from './node-template.ts';
import type { KubeObject, ObjectKey, Resource } from './objects.ts';
import type { OwnerDeployment, OwnerSet } from './owner/objects.ts';

export interface Dialect {
  readonly name: DialectName;
  readonly kinds: Kinds;
  readonly marks: Marks;
  readonly machine: MachineDialect;
  readonly source: SourceDialect;
  readonly owner: OwnerDialect;
  readonly describe?: DescribeDialect;
  /** Metrics under the names of the system that is replaced. Left out: none. */
  readonly metrics?: {
    readonly ofObjects: readonly ObjectMetric[];
    readonly ofMachines: readonly MachineMetric[];
    readonly toLive: ToLive;
  };
  readonly policy: Policy;
}

/** The resources of a dialect, all of them namespaced. */
export interface Kinds {
  readonly machine: Resource<KubeObject>;
  readonly set: Resource<KubeObject>;
  readonly deployment: Resource<KubeObject>;
  /** What Machines name as their source, such as a class. Left out: a Machine carries its source itself. */
  readonly source?: Resource<KubeObject>;
}

/** What is written on objects so that others know whose they are. */
export interface Marks {
  /** Finalizer on Machines, their owners and their sources. */
  readonly finalizer: string;
  /** Finalizer on Secrets that source objects refer to. Left out: they get none. */
  readonly secretFinalizer?: string;
  /** Finalizer on the Node of a Machine. */
  readonly nodeFinalizer: string;
  /** Label on a Node: name of its Machine. */
  readonly nodeMachineLabel: string;
  /** Annotation on a Node that no Machine has. Left out: such Nodes are left alone. */
  readonly notManaged?: { readonly key: string; readonly value: string };
  /** Keys of taints with which a Node has not joined yet. */
  readonly startupTaints: readonly string[];
  /**
   * Condition on a Node whose Machine is being deleted, and its reasons. Who sees it knows whose cordon the Node has.
   */
  readonly terminating: { readonly type: string; readonly unhealthy: string; readonly otherwise: string };
  /** Conditions on Nodes whose reason and message plans read, see `planPreservation`. Left out: none. */
  readonly ownConditions?: readonly string[];
  /** Whether a Node is that of a Machine that has failed and is preserved. Left out: no Machine is preserved. */
  isKept?(node: MaintainedNode): boolean;
}

/** A Machine object in the engine's model, and back. */
export interface MachineDialect {
  /** The API's own word for a Machine whose VM is being made: what its workflow shows while the status says nothing. */
  readonly creationPhase: string;
  /** `defaults` apply where the spec says nothing, or nothing that can be read. */
  toSnapshot(machine: KubeObject, defaults: MachineLimits): MachineSnapshot;
  /**
   * Merge patch of a Machine that makes its status say what is reported. Law: a snapshot of the patched object has the
   * stage of the report.
   * @param nodeConditions the Node's conditions as they are, where they are to be copied
   */
  toStatusPatch(machine: ReportedMachine, report: MachineReport, now: Date, nodeConditions?: readonly object[]): object;
  /** Note of the Event that goes with a report: what the status says of the step. */
  toEventNote(machine: ReportedMachine, report: MachineReport): string;
  /**
   * Merge patch of a Machine that stores the identity of its VM; null removes it. Law: a snapshot of the patched object
   * has this identity.
   */
  toIdentityPatch(
    machine: Pick<MachineSnapshot, 'hasPriority'>,
    identity: MachineIdentityChange,
  ): { readonly metadata?: object; readonly spec?: object };
  /**
   * Merge patch of the Machine's Node that gives it what the Machine and its source object say of it; undefined: it is
   * so already. Without the source its part stays as it is.
   */
  toNodePatch(machine: KubeObject, node: TemplatedNode, source?: KubeObject): NodePatch | undefined;
  /**
   * The same of the taints that the Machine says alone, for an API server that refuses the rest. Left out: it says
   * none.
   */
  toTaintsPatch?(machine: KubeObject, node: TemplatedNode): NodePatch | undefined;
  /**
   * What the preservation of a Machine needs next; undefined: nothing. Left out: the API knows no preservation.
   * @param node undefined: it does not exist. One that cannot be read is no reason to ask.
   */
  planPreservation?(
    machine: KubeObject,
    node: MaintainedNode | undefined,
    moment: MaintenanceMoment,
  ): MaintenancePlan | undefined;
  /** The same of an in-place update. Left out: the API knows none. */
  planUpdateInPlace?(
    machine: KubeObject,
    node: MaintainedNode | undefined,
    moment: MaintenanceMoment,
  ): MaintenancePlan | undefined;
}

/** The parts of a Node that preservation and in-place updates read. */
export interface MaintainedNode {
  readonly metadata: Pick<KubeObject['metadata'], 'deletionTimestamp' | 'labels' | 'annotations'>;
  readonly spec?: { readonly taints?: readonly Taint[]; readonly unschedulable?: boolean };
  readonly status?: {
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly reason?: string;
      readonly message?: string;
      readonly lastTransitionTime?: string;
    }[];
  };
}

/** When a preservation is planned, and what is known besides the objects. */
export interface MaintenanceMoment {
  /** ms since the epoch. */
  readonly nowMs: number;
  /** How long a Machine is preserved whose spec says nothing, s. Left out: as the API has it. */
  readonly defaultSeconds?: number;
  /** How long an in-place update may take of a Machine whose spec says nothing, s. Left out: as the API has it. */
  readonly updateSeconds?: number;
  /** Whether the drain that was due has succeeded; left out where none has ended. */
  readonly isDrained?: boolean;
}

/** Merge patches and what follows them. What has to stay as it is is left out. */
export interface MaintenancePlan {
  /** The Node is written before the Machine, so that a step that was interrupted is known to be unfinished. */
  readonly isEnd: boolean;
  readonly machine?: { readonly metadata: { readonly annotations: Change; readonly labels?: Change } };
  readonly status?: { readonly status: object };
  /** Its taints are a whole list, so it has to be sent with a resourceVersion. */
  readonly node?: NodePatch;
  /** A condition of the Node. */
  readonly condition?:
    | { readonly type: string; readonly status: string }
    | { readonly type: string; readonly $patch: 'delete' };
  /** Nothing is left to write before the Node has been drained. */
  readonly mustDrain?: true;
  /** From when on the drain timeout counts, RFC 3339; left out: since the Machine is in its stage. */
  readonly drainSince?: string;
  readonly event?: { readonly reason: MachineEvent; readonly note: string };
}

/** The Machine that a report is about, as its workflow knows it. */
export type ReportedMachine = Pick<MachineSnapshot, 'phase' | 'createdAt'> & Pick<ObjectRef, 'name'>;

/** The identity of the VM that backs a Machine. */
export interface MachineIdentityChange {
  readonly providerID: string | null;
  readonly nodeName?: string | null;
}

/** Reads one object, undefined where there is none. */
export type Find = <T extends KubeObject>(resource: Resource<T>, key: ObjectKey) => Promise<T | undefined>;

/** Reads the objects of one namespace, live. */
export type List = <T extends KubeObject>(resource: Resource<T>) => Promise<readonly T[]>;

/** Where the provider, providerSpec, credentials and user data of a Machine come from. */
export interface SourceDialect {
  /** Name of the source object that a Machine, or the template of an owner, refers to; undefined where it is inline. */
  nameOf(object: KubeObject): string | undefined;
  /** Secrets of its namespace that a source object refers to; of the Machine itself where it is its own source. */
  secretsOf(source: KubeObject): readonly { readonly namespace: string; readonly name: string }[];
  /**
   * Text that differs whenever the source or one of its Secrets (undefined: missing) was changed, created or deleted.
   */
  versionOf(source: KubeObject | undefined, secrets: readonly (KubeObject | undefined)[]): string;
  /**
   * Reads the source of a Machine. What is wrong with it is in the answer, not an error. Where sources are objects, so
   * is the refusal by the verdict on the object: see api/verdict.ts.
   * @param source as in the snapshot of the Machine
   */
  read(find: Find, ref: ObjectRef, source: MachineSnapshot['source']): Promise<SourceSnapshot>;
  /** Zone of the VMs that are made from a source object. Left out: no source says it. */
  zoneOf?(source: KubeObject): string | undefined;
  /** All sources of a namespace, for the orphan sweep: what was made from an unlisted source is never found. */
  list(list: List): Promise<readonly SweptSource[]>;
  /** User data of one Machine. Only called where the source says that user data is personal. */
  renderUserData(template: string, values: UserDataValues): Promise<string>;
}

/** What user data may ask for. */
export interface UserDataValues {
  readonly machineName: string;
  /** Makes the bootstrap token of the Machine unless there is one. */
  bootstrapToken(): Promise<string>;
}

/**
 * What the owner engine (api/owner) cannot know of sets, deployments and their machines. It reads the fields of
 * Kubernetes' Deployment itself, see api/owner/objects.ts. All functions are pure.
 */
export interface OwnerDialect {
  readonly keys: OwnerKeys;
  /** Annotations of a deployment that its sets do not get, besides those in `keys`. */
  readonly annotationsNotCopied: readonly string[];
  /** Fields of a deployment's spec that its sets get, besides replicas, selector and template. */
  readonly copiedSpecFields: readonly string[];
  /** Values of spec.strategy.type, each with the block of spec.strategy that has its maxSurge and maxUnavailable. */
  readonly strategies: Readonly<Record<string, { readonly strategy: UpdateStrategy; readonly bounds?: string }>>;
  /** Name of the list of conditions in the status of a set. */
  readonly setConditions: string;
  readonly template: TemplateDialect;
  readonly machines: OwnedMachineDialect;
  /** What is wrong with spec.strategy besides type and bounds, with the field and the fix. */
  problemOfStrategy(strategy: object): string | undefined;
  /** Whether no machine may be created in a set. @param deployment the one that owns the set, if any */
  isClosed(set: OwnerSet, deployment?: OwnerDeployment): boolean;
  /** Left out: sets that have too many machines are not frozen. */
  readonly freeze?: FreezeDialect;
  /**
   * The condition Progressing; undefined for `other`.
   * @param setName name of the set of the current template, if any
   */
  toProgressCondition(
    progress: RolloutProgress,
    deploymentName: string,
    setName: string | undefined,
  ): ProgressCondition | undefined;
  /** What the reason of a condition Progressing says. */
  toProgress(reason: string): RolloutProgress;
  /** Left out: a rollout puts nothing on Nodes. */
  toRolloutPatch?(node: TemplatedNode, marks: RolloutMarks): NodePatch | undefined;
  /** Left out: no machine is updated in place. */
  readonly inPlaceUpdate?: InPlaceDialect;
  /** Left out: the autoscaler of the API marks machines by nothing but what `isMarked` reads. */
  readonly scaleDown?: ScaleDownDialect;
  /** Left out: a set keeps no Failed machines by itself. */
  readonly autoPreservation?: AutoPreservationDialect;
  /**
   * Fields of a status that count preserved machines: those that have Failed, and of a set those that it keeps by
   * itself.
   */
  readonly preservedCounts?: { readonly failed: string; readonly automatic: string };
  /** Fields of the status of a set or deployment that list failed machines. @param setNames by UID */
  toFailedMachines(
    machines: readonly KubeObject[],
    setNames: ReadonlyMap<string, string>,
    nowMs: number,
  ): Readonly<Record<string, object[]>>;
}

/** How sets and deployments say that no machine is created because there are too many. */
export interface FreezeDialect {
  /** Label and its value: it is frozen. */
  readonly label: string;
  readonly value: string;
  /** Annotation by which a person asks that it is thawed; any value. */
  readonly thawAnnotation: string;
  /** Reasons of the condition Frozen. sync: of a deployment that follows its sets. */
  readonly reasons: { readonly overshoot: string; readonly sync: string };
}

/** The parts of a dialect that the owner engine works with. */
export type OwnerApi = Pick<Dialect, 'kinds' | 'marks' | 'owner'>;

/** The same at a moment, by which machines are available, marked or preserved. */
export interface OwnerApiAt extends OwnerApi {
  /** ms since the epoch: on Temporal's clock where something is decided. */
  readonly nowMs: number;
  /** UIDs of machines that have joined, whatever their status says. Left out: nobody has looked. */
  readonly joined?: ReadonlySet<string>;
}

/** Labels and annotations that the owner engine reads and writes. */
export interface OwnerKeys {
  /** Label of sets, machines and their selectors: hash of the template. */
  readonly templateHash: string;
  /** Annotation of deployments and sets: number of the template. */
  readonly revision: string;
  /** Annotation of sets: revisions that a set had before its template was used again, with commas. */
  readonly revisionHistory: string;
  /** Annotation of sets: replicas of the deployment, as the set was last scaled for. */
  readonly desiredReplicas: string;
  /** Annotation of sets: replicas of the deployment and its surge. */
  readonly maxReplicas: string;
}

/** The condition Progressing without its times. */
export interface ProgressCondition {
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
}

/** Templates of machines. */
export interface TemplateDialect {
  /** The part of spec.template.spec that makes different machines: a change of it is a rollout. */
  identityOf(spec: object | undefined): object;
  /**
   * The part of the spec of a machine, or of a template, that machines get while they exist: what `identityOf` leaves
   * out.
   * @param machine with what it says itself in place of the template
   */
  settingsOf(spec: object | undefined, machine?: KubeObject): object;
  /**
   * Whether two values of a setting, or of a field in `copiedSpecFields`, mean the same: others who write the object,
   * or an API server, may store it in another form. undefined: it is left out.
   */
  isSameSetting(field: string, a: unknown, b: unknown): boolean;
  /**
   * What is wrong with spec.template.spec, with the field and the fix.
   * @param existing those of the sets that exist. What is wrong there already and keeps no machine from being made is
   * left
   *   out: the owner goes on with it.
   */
  problemOf(spec: object | undefined, existing: readonly (object | undefined)[]): string | undefined;
  /** Creation timeout of a new machine of a set, s; undefined: the default. */
  creationSecondsOf(set: OwnerSet): number | undefined;
  /** Annotations and spec of a new machine of a set. */
  toMachine(set: OwnerSet): { readonly annotations: Readonly<Record<string, string>>; readonly spec: object };
}

/** What the Node of a machine has to show of the rollout of its deployment. */
export interface RolloutMarks {
  /** Machines of old sets are left. */
  readonly isRolling: boolean;
  /** None are, and its status says that all new machines are available. */
  readonly isComplete: boolean;
  /** The machine is one of them, and its pods should go elsewhere. */
  readonly isOld: boolean;
  readonly isPreserved: boolean;
  /** Whether rollouts keep the autoscaler from removing Nodes. */
  readonly isKeptFromAutoscaler: boolean;
}

/** In-place updates as the owner of the machines sees them. */
export interface InPlaceDialect {
  /** Whether people say whose turn it is. Called for deployments with that strategy. */
  selectsManually(deployment: OwnerDeployment): boolean;
  /**
   * Whether the update of a machine has begun and not ended, by its status: also one that nobody has told this owner
   * of.
   */
  isUnderWay(machine: KubeObject): boolean;
  /** Labels that a machine gets when it is handed over to another set, until its Node is as before. */
  readonly handedOver: Readonly<Record<string, string>>;
}

/** Failed machines that a set keeps by itself instead of replacing them. */
export interface AutoPreservationDialect {
  /** How many of its machines a set keeps at most. */
  most(set: OwnerSet): number;
  /** Whether a machine is kept so. */
  isKept(machine: KubeObject): boolean;
  /** Whether nobody has said whether the machine is to be kept. */
  isUndecided(machine: KubeObject): boolean;
  /** Merge patch of a machine that is kept so from now on, or no more. */
  toPatch(isKept: boolean): { readonly metadata: object };
}

/** How an autoscaler lists the machines that a scale-down takes, on their deployment. */
export interface ScaleDownDialect {
  /** Names of the machines that a deployment lists, existing or not. */
  listedBy(deployment: KubeObject): readonly string[];
  /**
   * What is to be written so that the listed machines are marked, and nothing else is listed; undefined: nothing.
   * @param machines those of the deployment
   */
  planMarks(deployment: KubeObject, machines: readonly KubeObject[], now: Date): MarkPlan | undefined;
  /**
   * Whether a machine was marked no later than the autoscaler has changed the replicas.
   * @param owner its deployment, or else its set
   */
  isUnneeded(machine: KubeObject, owner: KubeObject): boolean;
}

/** Annotations that are to be written. */
export interface MarkPlan {
  /** Of the deployment; left out: they are right. */
  readonly deployment?: Change;
  readonly machines: readonly { readonly name: string; readonly uid: string; readonly annotations: Change }[];
}

/** Machines as their owner sees them. */
export interface OwnedMachineDialect {
  stageOf(machine: KubeObject): MachineStage;
  /** The API's own word for where the machine is, a deletion included, for people; empty for a new machine. */
  phaseOf(machine: KubeObject): string;
  hasVm(machine: KubeObject): boolean;
  /** Whether a machine has failed without having joined. */
  failedToJoin(machine: KubeObject): boolean;
  /** Since when a machine that works has done so without a break, ms since the epoch. */
  readySinceMs(machine: KubeObject): number;
  /**
   * What the machine says of its last operation, on one line; the code if it was refused; and what it waits for while
   * it is under way, as far as the API has a word for that.
   */
  operationOf(machine: KubeObject): { readonly code?: string; readonly text: string; readonly waitsFor?: string };
  /** What an unhealthy machine asks of its owner; undefined: nothing. */
  requestOf(machine: KubeObject): ReplacementRequest | undefined;
  /** Whether a failed machine is kept instead of replaced. */
  isPreserved(machine: KubeObject, nowMs: number): boolean;
  /** Whether a machine is preserved at this moment, failed or not: it is deleted last. */
  isSpared(machine: KubeObject, nowMs: number): boolean;
  /** Whether the autoscaler or a person wants the machine deleted before others of its set. */
  isMarked(machine: KubeObject, nowMs: number): boolean;
  /** Lists of equal length, compared number by number: the lowest is deleted first. The engine adds age and name. */
  deletionRank(machine: KubeObject, nowMs: number): readonly number[];
}

/** What `millwright describe` prints of the status of objects, in the words of their API. */
export interface DescribeDialect {
  /** Rows about a Machine whose workflow does not answer. @param sinceText says since when something is so */
  machineRows(
    machine: KubeObject,
    sinceText: (time: string) => string,
  ): readonly (readonly [name: string, value: string | undefined])[];
  /** The failed machines that the status of a set or deployment lists. */
  failedMachinesOf(owner: KubeObject): readonly { readonly name: string; readonly reason: string }[];
}

/** What the engine does that APIs decide differently. */
export interface Policy {
  /** How the Node of a Machine is found: it has the name that the Machine stores, or its VM's provider ID. */
  readonly nodeMatch: 'name' | 'providerID';
  /** Leases by which the system that is replaced elects its leader: workers pause while it holds one. */
  readonly leases: readonly string[];
}
