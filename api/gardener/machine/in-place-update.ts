/**
 * In-place update of a Machine, as MCM does it: its VM stays, and an agent on its Node updates that. Labels of the Node
 * say whose turn it is and how it ended. The condition InPlaceUpdate of the Node says how far it is: the agent begins
 * with ReadyForUpdate, when the Node is drained.
 */
import type { MaintainedNode, MaintenanceMoment, MaintenancePlan } from '../../dialect.ts';
import { countedOrderOf, isVoid, orderOf, toOrder } from '../../in-place-order.ts';
import { cordoners, inPlaceOrders, names } from '../../names.ts';
import type { Change } from '../../node-template.ts';
import { controllerOf } from '../../owner/ownership.ts';
import { toKubernetesTime } from '../../time.ts';
import {
  annotations,
  type InPlaceReason,
  inPlaceMessages,
  labels,
  type nodeConditionTypes,
  type OperationState,
  type OperationType,
  taints,
  updateResults,
} from '../names.ts';
import type { Machine } from '../schema/machine.ts';
import { updateDeadlineMs, updateTimeoutSeconds } from './snapshot.ts';

const conditionType: keyof typeof nodeConditionTypes = 'InPlaceUpdate';

/** What a Machine and its Node say of the update. */
interface Update {
  readonly machine: Machine;
  readonly node: MaintainedNode;
  readonly moment: MaintenanceMoment;
  /** By which its owner takes part, one of `inPlaceOrders`. */
  readonly order: string | undefined;
  readonly isCandidate: boolean;
  readonly isSelected: boolean;
  /** What the agent has said, one of `updateResults`. */
  readonly result: string | undefined;
  /** Of the condition, where the Node has it. */
  readonly reason: string | undefined;
  /** Somebody had cordoned the Node before it was selected. */
  readonly wasCordoned: boolean;
  readonly phase: string;
}

/**
 * Plans the next writes. The condition goes one step at a time, as Gardener's controllers watch the steps. A Machine
 * that was handed over to another set, or released, gets its Node back as it was. Without its Node an update can only
 * be late.
 */
export function planUpdateInPlace(
  machine: Machine,
  node: MaintainedNode | undefined,
  moment: MaintenanceMoment,
): MaintenancePlan | undefined {
  const { metadata, status } = machine;
  const phase = status?.currentStatus?.phase ?? '';
  const isLeaving = metadata.deletionTimestamp !== undefined || phase === 'Terminating';
  if (isLeaving) return undefined;
  if (node === undefined) {
    const { status: late, event } = lateUpdate(machine, moment) ?? {};
    return late && { isEnd: false, status: { status: late }, ...(event && { event }) };
  }
  const onNode = node.metadata.labels ?? {};
  const update = {
    ...{ machine, node, moment, phase },
    order: orderOf(machine),
    isCandidate: onNode[labels.candidateForUpdate] !== undefined,
    isSelected: onNode[labels.selectedForUpdate] !== undefined,
    result: onNode[labels.updateResult],
    reason: conditionOf(node)?.reason,
    wasCordoned: node.metadata.annotations?.[names.cordonedBy] === cordoners.others,
  };
  const isHandedOver = metadata.labels?.[labels.updateResult] !== undefined;
  return isHandedOver || update.order === inPlaceOrders.released ? planEnd(update, isHandedOver) : planNext(update);
}

function planNext(update: Update): MaintenancePlan | undefined {
  const { machine, node, moment, reason, isSelected, wasCordoned } = update;
  if (wasCordoned && !isSelected && isVoid(machine)) return withoutNote; // of the update that somebody else has completed
  const wanted = { ...wantedLabels(update), ...wantedNote(update) };
  const order = nextOrder(update);
  const condition = nextCondition(update);
  const next = nextPhase(update);
  const isMirrored = machine.status?.conditions?.find(({ type }) => type === conditionType)?.reason === reason;
  const mustDrain = reason === 'SelectedForUpdate' && moment.isDrained !== true;
  const since = conditionOf(node)?.lastTransitionTime;
  const plan = {
    ...(order !== undefined && { machine: { metadata: { annotations: { [names.inPlaceUpdate]: order } } } }),
    ...((next || !isMirrored) && {
      status: { status: { ...next?.status, ...(!isMirrored && { conditions: node.status?.conditions ?? [] }) } },
    }),
    ...(next?.event && { event: next.event }),
    ...(Object.keys(wanted).length > 0 && { node: { metadata: wanted } }),
    ...(condition && { condition: toCondition(condition, moment) }),
    ...(mustDrain && { mustDrain: true as const, ...(since !== undefined && { drainSince: since }) }),
  };
  return Object.keys(plan).length === 0 ? undefined : { isEnd: false, ...plan };
}

const withoutNote: MaintenancePlan = { isEnd: true, node: { metadata: { annotations: { [names.cordonedBy]: null } } } };

/** Labels that the owner asks for. */
function wantedLabels({ order, isCandidate, isSelected }: Update): { readonly labels?: Change } {
  const isAsked = order === inPlaceOrders.candidate || order === inPlaceOrders.selected;
  const wanted = {
    ...(isAsked && !isCandidate && { [labels.candidateForUpdate]: 'true' }),
    ...(order === inPlaceOrders.selected && !isSelected && { [labels.selectedForUpdate]: 'true' }),
  };
  return Object.keys(wanted).length === 0 ? {} : { labels: wanted };
}

/**
 * A Node that is selected gets cordoned, and uncordoned in the end. Before, it is noted if somebody else has cordoned
 * it.
 */
function wantedNote(update: Update): { readonly annotations?: Change } {
  if (!isNoteDue(update)) return {};
  return { annotations: { [names.cordonedBy]: update.wasCordoned ? null : cordoners.others } };
}

function isNoteDue({ node, isSelected, reason, wasCordoned }: Update): boolean {
  const isNext = reason === 'CandidateForUpdate' && isSelected;
  return isNext && wasCordoned !== (node.spec?.unschedulable === true);
}

/**
 * What the owner, which reads no Nodes, has to know by now: somebody has selected the Node, or the agent has succeeded,
 * whoever has ordered that. A void order goes; one of release 0.1.0 is bound to the set if its update goes on.
 */
function nextOrder({ machine, order, isCandidate, isSelected, result, reason }: Update): string | null | undefined {
  const setUid = controllerOf(machine);
  const isUpdated = isCandidate && result === updateResults.successful && reason === 'UpdateSuccessful';
  const isTurn = order !== undefined && isCandidate && isSelected;
  const reached = isUpdated ? inPlaceOrders.updated : isTurn ? inPlaceOrders.selected : order;
  if (setUid !== undefined && reached !== undefined && reached !== order) return toOrder(reached, setUid);
  if (!isVoid(machine)) return undefined;
  const unbound = countedOrderOf(machine);
  return isCandidate && setUid !== undefined && unbound !== undefined ? toOrder(unbound, setUid) : null;
}

interface ConditionChange {
  readonly reason: InPlaceReason;
  readonly message: string;
}

function nextCondition(update: Update): ConditionChange | undefined {
  const { node, moment, isCandidate, isSelected, result, reason } = update;
  const to = (next: InPlaceReason, message: string = inPlaceMessages[next]) =>
    next === reason ? undefined : { reason: next, message };
  if (!isCandidate) return undefined;
  if (reason === undefined || (reason === 'UpdateSuccessful' && result === undefined)) return to('CandidateForUpdate');
  if (reason === 'CandidateForUpdate' && isSelected && !isNoteDue(update)) return to('SelectedForUpdate');
  if (reason === 'SelectedForUpdate') return moment.isDrained ? to('DrainSuccessful') : undefined;
  if (reason === 'DrainSuccessful') return to('ReadyForUpdate');
  if (result === updateResults.successful) return to('UpdateSuccessful');
  if (result !== updateResults.failed) return undefined;
  return to('UpdateFailed', `${inPlaceMessages.UpdateFailed}: ${failureOf(node)}`);
}

interface PhaseChange {
  readonly status: object;
  readonly event?: MaintenancePlan['event'];
}

function nextPhase(update: Update): PhaseChange | undefined {
  const { machine, node, moment, order, result, reason, phase } = update;
  const { name } = machine.metadata;
  const isUnderWay = phase === 'InPlaceUpdating';
  if (reason === 'SelectedForUpdate' && moment.isDrained && !isUnderWay) {
    const text = `Machine ${name} is undergoing an in-place update`;
    return to(moment, 'InPlaceUpdating', 'InPlaceUpdate', 'Processing', text);
  }
  if (result === updateResults.successful && (isUnderWay || phase === 'InPlaceUpdateFailed')) {
    const text = `Machine ${name} successfully updated dependencies`;
    return to(moment, 'InPlaceUpdateSuccessful', 'InPlaceUpdate', 'Successful', text);
  }
  if (result === updateResults.failed && isUnderWay) {
    const text = `Machine ${name} failed to update dependencies: ${failureOf(node)}`;
    return to(moment, 'InPlaceUpdateFailed', 'InPlaceUpdate', 'Failed', text);
  }
  const late = lateUpdate(machine, moment);
  if (late !== undefined) return late;
  const isReady = node.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True');
  // Its owner takes a selected one that runs for one that is not drained yet.
  const isKnown = order !== inPlaceOrders.selected || reason === 'UpdateSuccessful';
  if (phase !== 'InPlaceUpdateSuccessful' || !isReady || !isKnown) return undefined;
  return to(moment, 'Running', 'HealthCheck', 'Successful', `Machine ${name} successfully re-joined the cluster`);
}

/** The agent has not answered in time. It may have lost its Node. */
function lateUpdate(machine: Machine, moment: MaintenanceMoment): PhaseChange | undefined {
  const { nowMs, updateSeconds } = moment;
  const isUnderWay = machine.status?.currentStatus?.phase === 'InPlaceUpdating';
  if (!isUnderWay || !(nowMs >= updateDeadlineMs(machine, updateSeconds))) return undefined;
  const seconds = updateTimeoutSeconds(machine, updateSeconds);
  const text = `Machine ${machine.metadata.name} failed to in-place update in ${seconds} s`;
  return to(moment, 'InPlaceUpdateFailed', 'InPlaceUpdate', 'Failed', text);
}

const eventReasons = {
  InPlaceUpdating: 'UpdatingInPlace',
  InPlaceUpdateSuccessful: 'UpdatedInPlace',
  InPlaceUpdateFailed: 'UpdateInPlaceFailed',
  Running: 'NodeHealthy',
} as const;

function to(
  { nowMs }: MaintenanceMoment,
  phase: keyof typeof eventReasons,
  type: OperationType,
  state: OperationState,
  description: string,
): PhaseChange {
  const lastUpdateTime = toKubernetesTime(new Date(nowMs));
  return {
    status: {
      currentStatus: { phase, timeoutActive: phase === 'InPlaceUpdating', lastUpdateTime },
      lastOperation: { type, state, description, lastUpdateTime, errorCode: null },
    },
    event: { reason: eventReasons[phase], note: description },
  };
}

/**
 * The Node without what the update has put on it. After an update its critical components have to be ready again before
 * pods may come; until then the Machine keeps its marks, by which its owner knows that this one is not back yet.
 */
function planEnd(update: Update, isUpdated: boolean): MaintenancePlan | undefined {
  const { node, wasCordoned, reason } = update;
  const next = isUpdated ? nextPhase({ ...update, result: updateResults.successful }) : undefined;
  if (next) return { isEnd: true, status: { status: next.status }, ...(next.event && { event: next.event }) };
  const { labels: onNode = {}, annotations: noted = {} } = node.metadata;
  const ofUpdate = [labels.candidateForUpdate, labels.selectedForUpdate, labels.updateResult];
  const left = ofUpdate.filter((key) => onNode[key] !== undefined);
  const hasFailure = noted[annotations.updateFailedReason] !== undefined;
  if (left.length > 0) {
    const notes = [...(hasFailure ? [annotations.updateFailedReason] : []), ...(wasCordoned ? [names.cordonedBy] : [])];
    const metadata = { labels: toNulls(left), ...(notes.length > 0 && { annotations: toNulls(notes) }) };
    const mustUncordon = (isUpdated || hasBegun(update)) && !wasCordoned;
    const spec = { ...(mustUncordon && { unschedulable: null }), ...(isUpdated && { taints: taintsAfter(node) }) };
    return { isEnd: true, node: { metadata, ...((isUpdated || mustUncordon) && { spec }) } };
  }
  if (!isUpdated && reason !== undefined && reason !== 'UpdateSuccessful')
    return { isEnd: true, condition: { type: conditionType, $patch: 'delete' } };
  if (wasCordoned) return withoutNote;
  if (node.spec?.taints?.some(({ key }) => key === taints.criticalComponentsNotReady.key)) return undefined;
  const marks = { labels: { [labels.updateResult]: null }, annotations: { [names.inPlaceUpdate]: null } };
  return { isEnd: true, machine: { metadata: marks } };
}

/**
 * Whether the Node was drained for this update, or its drain has begun. The reason may be that of the update before.
 */
function hasBegun({ isSelected, reason, result }: Update): boolean {
  const isOfBefore = reason === 'UpdateSuccessful' && result === undefined;
  return isSelected && reason !== undefined && reason !== 'CandidateForUpdate' && !isOfBefore;
}

function toNulls(keys: readonly string[]): Change {
  return Object.fromEntries(keys.map((key) => [key, null]));
}

function taintsAfter({ spec }: MaintainedNode) {
  const keys: readonly string[] = [taints.preferNoSchedule.key, taints.criticalComponentsNotReady.key];
  const others = (spec?.taints ?? []).filter(({ key }) => !keys.includes(key));
  return [...others, taints.criticalComponentsNotReady];
}

function toCondition(change: ConditionChange, { nowMs }: MaintenanceMoment) {
  const time = toKubernetesTime(new Date(nowMs));
  return { type: conditionType, status: 'True', ...change, lastHeartbeatTime: time, lastTransitionTime: time };
}

function conditionOf({ status }: MaintainedNode) {
  return status?.conditions?.find(({ type }) => type === conditionType);
}

function failureOf({ metadata }: MaintainedNode): string {
  return metadata.annotations?.[annotations.updateFailedReason] ?? 'the agent gives no reason';
}
