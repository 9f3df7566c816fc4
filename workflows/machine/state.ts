/** What the workflow of a machine knows while it runs. */
import type { Refusals } from '../../activities/machine/drain/evictions.ts';
import type { DrainOutcome } from '../../activities/machine/drain/index.ts';
import type { KnownVolumes } from '../../activities/machine/drain/volumes.ts';
import type { FailureCode } from '../../api/failures.ts';
import {
  isPastCreation,
  type MachineObservation,
  type MachineSnapshot,
  type MaintenanceDue,
} from '../../api/model/machine.ts';
import type { NodeView } from '../../api/model/node.ts';
import type { FailedRun, ObjectRef } from '../../api/model/ref.ts';
import type { SourceSnapshot } from '../../api/model/source.ts';
import type { NodeClaim } from '../../api/node.ts';
import type { Interruption } from '../../api/provider.ts';
import type { Repeat } from '../../api/repeats.ts';
import type { Failure } from '../calls/failure.ts';
import type { MachineDescription } from './messages.ts';
import { type Creation, notAsked, recoverCreation } from './phases/creation.ts';

/**
 * The part of the state that a run hands to the next one. A few KB of JSON during the creation, else less than 2 KB.
 */
export interface PersistedState {
  machine: MachineSnapshot;
  node: NodeView;
  creation: Creation;
  /** How many VMs of this Machine were deleted because somebody deleted their Nodes: part of tokens. */
  replacements: number;
  /** Whether Secrets may exist that were made for this machine alone. */
  mayHaveUserData: boolean;
  drained: boolean;
  /**
   * Since when the cloud has accepted to delete the VM, which it has not finished, ms since the epoch on Temporal's
   * clock.
   */
  vmDeletedMs?: number;
  /**
   * When the workflow first knew of the deletion, ms since the epoch on Temporal's clock: the drain timeout counts from
   * here.
   */
  deletionSeenMs?: number;
  /** A deletion that was aborted may have left the node cordoned. */
  mayBeCordoned: boolean;
  /** Whether it was unhealthy when its deletion began; left out before that, and when a lost run knew it. */
  wasUnhealthy?: boolean;
  /** How often the drain was refused each pod, for its next call. */
  refusals?: Refusals;
  /** When it is called again, because budgets refuse, ms since the epoch. */
  nextEvictionMs?: number;
  /** What blocks the drain. */
  blocked?: BlockedDrain;
  /** What it has waited for so long that people have to know. */
  stuck?: StuckDrain;
  /** What the provider has said of the volumes on the Node. */
  volumes?: KnownVolumes;
  /** What the preservation or the in-place update of the machine needs, as it was read or seen last. */
  maintenance?: MaintenanceDue;
  /** Nodes of VMs that were deleted before the Machine named them: they are deleted with the Machine. */
  leftNodes: readonly string[];
  /**
   * Provider ID of the last VM whose Node has joined: it is there, also where the Machine is restored from before that.
   */
  joinedVm?: string;
  /** The VM of the Machine and its Node, as the cloud has named them last. Left out: it was not asked. */
  namedByCloud?: NonNullable<NodeClaim['namedByCloud']>;
  /** What came of asking the cloud whose the Node is, which is left alone until then. */
  nodeQuestion?: NodeQuestion;
  /** Provider ID of the VM of a deleted Node: it was about to be deleted and may be gone. */
  replacing?: string;
  /** UID of the Node of the last VM that was replaced: watchers may see it for a while. */
  replacedNodeUid?: string;
  /**
   * The last Node that was deleted while it was not ready, and whether it has been ready since. Its Machine stays,
   * whatever the Node says later.
   */
  keptNode?: { readonly uid: string; readonly hasRecovered: boolean };
  /**
   * End of the last outage that was noticed, or when the Machine was first read, ms since the epoch on Temporal's
   * clock. The creation timeout counts from here.
   */
  outageEndMs: number;
  /** `askedAt` of the request to be replaced that a watcher has seen, and with it how long the Nodes were watched. */
  heardAskedAt?: string;
  /** The last order in the annotation `retry`. */
  heardRetry?: string;
  /** What operators have asked of the deletion under way. */
  forceDeletion: boolean;
  skipDrain: boolean;
  /** What is known may be wrong: the objects have to be read again. */
  stale: boolean;
  /** Whether it is certain what the Machine is like. Before that nothing is known of what a lost run has done. */
  wasRead: boolean;
  /** The last run that has failed, for `describe`. */
  failedRun?: FailedRun;
  /** Name of its MachineDeployment, as a watcher has seen it. */
  deployment?: string;
  /** What the API server has refused last of what the Machine wants its Node to have. */
  nodeRefusal?: string;
  /** What the status says that the Node lacks. */
  reportedLack?: string;
}

/** What an operator sees of the work on a machine: `describe` without what the Machine says itself. */
export type Progress = Pick<
  MachineDescription,
  'doing' | 'since' | 'waitingFor' | 'until' | 'blockedOn' | 'lastError' | 'unblock'
>;

/** A drain that only a change of a PodDisruptionBudget, or of its pods, can end. */
export type BlockedDrain = Omit<Extract<DrainOutcome, { kind: 'blocked' }>, 'kind' | 'refusals' | 'retryMs'>;

/** A drain that makes no progress. */
export type StuckDrain = Pick<Extract<DrainOutcome, { kind: 'stuck' }>, 'reported' | 'waitingFor'>;

/**
 * What is repeated: a write of the finalizer, of the Node, of what `maintain` writes, of the status, or else whatever a
 * phase does.
 */
export type Repeated = 'finalizer' | 'node' | 'maintenance' | 'drained' | 'status' | 'phase';

/** State of one machine's workflow, which its phases read and change. */
export interface MachineState extends PersistedState {
  readonly ref: ObjectRef;
  /** Whether a creation is in the history of this run. */
  hasCreation: boolean;
  /** When a run with a creation is followed by one with a short history, ms since the epoch. */
  shortRunAtMs?: number;
  /** The source as last read, and the version of it that a watcher saw last. */
  reading?: SourceSnapshot;
  sourceVersion?: string;
  /** Version of the attempt whose place is known to be on the Machine, see Attempt. */
  placeVersion?: string;
  /** Whether the cloud did not answer the last call. */
  isCloudDown: boolean;
  /** Whether the cloud says that the VM is not set up yet. */
  isUninitialized: boolean;
  /** Name of the Node as the cloud has given it, where the API server does not keep it. */
  unkeptNodeName?: string;
  /** When the cloud is asked about the VM again, ms since the epoch, and the pause before that. */
  nextPollMs: number;
  pollIntervalMs: number;
  /** The last pause before it was asked about a VM that is not set up, ms; 0: it is set up. */
  setUpPauseMs: number;
  /**
   * What the cloud has said last of a VM that it is about to take away. The Node says so as soon as that is written.
   */
  interruption?: Interruption;
  /**
   * Whether the API server has refused what the Node lacks. It is tried again when a watcher says anew that it lacks
   * it.
   */
  isTemplateRefused?: boolean;
  /** The last writes, by which those that have no effect are known. */
  repeats: Partial<Record<Repeated, Repeat>>;
  /** Whether the phase under way has written the status. */
  hasWritten: boolean;
  /** The other Machine that has the VM of this provider ID; without a name where that is this one's. */
  vmOwner?: { readonly of: string; readonly purpose: string; readonly name?: string };
  /** Whether the Machine's status says that its VM is being deleted. */
  deletionAnnounced: boolean;
  /** Grows with everything that a wait has to end for. */
  changes: number;
  /** Whether the Machine is being read. */
  isRefreshing: boolean;
  progress: Progress;
  /** The last wait that was shown, and in which stage of the Machine. */
  wait?: { readonly doing: string; readonly stageSince: string | undefined; readonly since: string };
  /** The refusal that the Machine's status reports, and when it was written, ms since the epoch. */
  refusal?: {
    readonly reason: string;
    readonly code: FailureCode;
    readonly message: string;
    readonly writtenMs: number;
  };
  /** Somebody asks for a try now: a drain waits for no pause after a refusal. */
  evictsNow?: boolean;
  /** Called at once on a change, whatever is being waited for. */
  onChange?: () => void;
}

/** Whose a Node is that does not name the Machine. */
export interface NodeQuestion {
  /** What the answer depends on, as text to compare. */
  readonly about: string;
  /** Why nothing may be written to it. */
  readonly objection: string;
  /** Why it is not that of the Machine's VM, as the cloud says. */
  readonly denial?: string;
  /** Why the cloud does not say whose it is. */
  readonly failure?: Failure;
  /** When the cloud is asked again, ms since the epoch, and the pause before that. */
  readonly untilMs: number;
  readonly pauseMs: number;
}

/** Thrown when the Machine object is gone, or another object has its name: there is nothing left to do. */
export class MachineGoneError extends Error {}

/** Thrown when a phase has decided from facts that are not true: a backup was restored. Everything is read again. */
export class StaleStateError extends Error {}

/**
 * The state of a run. `persisted` may lack fields that an older release did not know; one without a stage says too
 * little, and everything is read again.
 * @param seen a new Machine as a watcher saw it
 */
export function newState(ref: ObjectRef, given?: Partial<PersistedState>, seen?: MachineObservation): MachineState {
  const persisted = given?.machine?.stage === undefined ? seenState(seen) : given;
  const unread = unreadState(ref);
  return {
    ...unread,
    ...persisted,
    machine: {
      ...unread.machine,
      ...persisted?.machine,
      limits: { ...unread.machine.limits, ...persisted?.machine?.limits },
    },
    ref,
    hasCreation: !isPastCreation(persisted?.machine?.stage ?? 'new'),
    ...(seen?.sourceVersion !== undefined && { sourceVersion: seen.sourceVersion }),
    ...(seen?.deployment !== undefined && { deployment: seen.deployment }),
    isCloudDown: false,
    isUninitialized: false,
    nextPollMs: 0,
    pollIntervalMs: 0,
    setUpPauseMs: 0,
    repeats: {},
    hasWritten: false,
    deletionAnnounced: false,
    changes: 0,
    isRefreshing: false,
    progress: { doing: 'starting', since: now() },
  };
}

/** Whether an operator or the Machine asks that the deletion waits for nothing but its VM. */
export function isForceWanted({ forceDeletion, machine }: MachineState): boolean {
  return forceDeletion || machine.forceDeletion;
}

/**
 * When the Node has to have joined, ms since the epoch. It counts from when the Machine was first read, or from the
 * last outage. Not from `createdAt`, which is another clock's.
 */
export function creationDeadlineMs({ machine, outageEndMs }: MachineState): number {
  return outageEndMs + machine.limits.creationSeconds * 1_000;
}

/** A new Machine is what it looks like if our finalizer can be put on the version that was seen. */
function seenState(seen: MachineObservation | undefined): Partial<PersistedState> | undefined {
  if (seen?.machine?.stage !== 'new') return undefined;
  const { machine, node, maintenance } = seen;
  if (machine.managed || machine.providerID !== undefined || machine.deletingSince !== undefined) return undefined;
  return {
    ...{ machine, node, creation: notAsked, mayHaveUserData: false, outageEndMs: Date.now(), stale: false },
    ...(maintenance !== undefined && { maintenance }),
    ...(machine.retry !== undefined && { heardRetry: machine.retry }),
  };
}

function unreadState(ref: ObjectRef): PersistedState {
  return {
    machine: {
      uid: ref.uid,
      resourceVersion: '',
      createdAt: now(),
      managed: false,
      finalizers: [],
      hasPriority: false,
      stage: 'new',
      phase: '',
      source: '',
      onNodeDeleted: 'deleteMachine',
      forceDeletion: false,
      limits: { creationSeconds: 0, drainSeconds: 0, maxEvictRetries: 0, nodeConditions: [] },
      conditions: {},
    },
    node: { state: 'unknown' },
    creation: recoverCreation(true, false, false),
    replacements: 0,
    mayHaveUserData: true,
    drained: false,
    mayBeCordoned: false,
    leftNodes: [],
    outageEndMs: 0,
    forceDeletion: false,
    skipDrain: false,
    stale: true,
    wasRead: false,
  };
}

/** Text that is equal while nothing has happened to a machine, whatever the time is. */
export function textOf(state: MachineState): string {
  const { placeVersion, reading, isUninitialized, isTemplateRefused, deletionAnnounced } = state;
  const more = [placeVersion, reading?.version, isUninitialized, isTemplateRefused, deletionAnnounced];
  return JSON.stringify([toPersisted(state), ...more], (key, value: unknown) =>
    volatile.test(key) ? undefined : value,
  );
}

/** Times, versions and counts, and what the cloud has said, which changes nothing by itself. */
const volatile = /^(resourceVersion|namedByCloud|stageSince|askedAt|heardAskedAt|unhealthySince|replacements|\w+Ms)$/;

/** The part of a state that the next run is started with. */
export function toPersisted(state: MachineState): PersistedState {
  const { machine, node, creation, replacements, mayHaveUserData, drained, deletionSeenMs, mayBeCordoned } = state;
  const {
    wasUnhealthy,
    refusals,
    nextEvictionMs,
    blocked,
    stuck,
    vmDeletedMs,
    volumes,
    leftNodes,
    outageEndMs,
    forceDeletion,
    skipDrain,
    stale,
    wasRead,
  } = state;
  const { failedRun, deployment, nodeRefusal, reportedLack, replacing, replacedNodeUid, heardAskedAt, maintenance } =
    state;
  const { joinedVm, namedByCloud, nodeQuestion, heardRetry, keptNode } = state;
  return {
    machine,
    node,
    creation,
    replacements,
    mayHaveUserData,
    drained,
    mayBeCordoned,
    leftNodes,
    outageEndMs,
    forceDeletion,
    skipDrain,
    stale,
    wasRead,
    ...(deletionSeenMs !== undefined && { deletionSeenMs }),
    ...(wasUnhealthy !== undefined && { wasUnhealthy }),
    ...(refusals !== undefined && { refusals }),
    ...(nextEvictionMs !== undefined && { nextEvictionMs }),
    ...(blocked !== undefined && { blocked }),
    ...(stuck !== undefined && { stuck }),
    ...(vmDeletedMs !== undefined && { vmDeletedMs }),
    ...(volumes !== undefined && { volumes }),
    ...(maintenance !== undefined && { maintenance }),
    ...(joinedVm !== undefined && { joinedVm }),
    ...(namedByCloud !== undefined && { namedByCloud }),
    ...(nodeQuestion !== undefined && { nodeQuestion }),
    ...(heardRetry !== undefined && { heardRetry }),
    ...(replacing !== undefined && { replacing }),
    ...(replacedNodeUid !== undefined && { replacedNodeUid }),
    ...(keptNode !== undefined && { keptNode }),
    ...(heardAskedAt !== undefined && { heardAskedAt }),
    ...(failedRun !== undefined && { failedRun }),
    ...(deployment !== undefined && { deployment }),
    ...(nodeRefusal !== undefined && { nodeRefusal }),
    ...(reportedLack !== undefined && { reportedLack }),
  };
}

/** The time, RFC 3339. */
export function now(): string {
  return timeIn(0);
}

/** The time in this many ms, RFC 3339. */
export function timeIn(ms: number): string {
  return new Date(Date.now() + ms).toISOString();
}
