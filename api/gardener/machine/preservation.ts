/**
 * Preservation of a Machine, as MCM does it: a Machine that has failed, or any other, is kept for people to look at.
 */
import type { MaintainedNode, MaintenanceMoment, MaintenancePlan } from '../../dialect.ts';
import { cordoners, names } from '../../names.ts';
import { toKubernetesTime } from '../../time.ts';
import {
  annotations,
  labels,
  type nodeConditionTypes,
  preservedMessages,
  preservedReasons,
  preserveValues,
  taints,
} from '../names.ts';
import type { Machine } from '../schema/machine.ts';
import { secondsOr } from './snapshot.ts';

type Changes = Readonly<Record<string, string | null>>;

/** What the annotation `preserve` says of a Machine. */
interface Decision {
  /** '' where nothing does. */
  readonly value: string;
  /** A value that nobody knows changes nothing. */
  readonly isKnown: boolean;
  /** Whose annotation decides. */
  readonly by: 'Node' | 'Machine';
}

const conditionType: keyof typeof nodeConditionTypes = 'Preserved';

/** Whether the annotation `preserve` may have this value. */
export function isPreserveValue(value: string | undefined): value is keyof typeof preserveValues {
  return value !== undefined && Object.hasOwn(preserveValues, value);
}

/** Whether a Node is that of a Machine that has failed and is preserved: it is drained, or about to be. */
export function isKept(node: MaintainedNode): boolean {
  return isTainted(node) || cordonerOf(node) === cordoners.preservation || hasDrainMessage(node);
}

/**
 * Plans the next writes. The annotation of the Node decides where there is one, also an empty one, or was one before;
 * then that of the Machine is deleted. The expiry is written first and cleared last, and a change of the timeout does
 * not move it.
 */
export function planPreservation(
  machine: Machine,
  node: MaintainedNode | undefined,
  moment: MaintenanceMoment,
): MaintenancePlan | undefined {
  const { currentStatus } = machine.status ?? {};
  const isLeaving = machine.metadata.deletionTimestamp !== undefined || currentStatus?.phase === 'Terminating';
  if (isLeaving) return undefined;
  const decision = decide(machine, node);
  const expiry = currentStatus?.preserveExpiryTime ?? undefined;
  const isExpired = expiry !== undefined && moment.nowMs >= Date.parse(expiry);
  const hasFailed = currentStatus?.phase === 'Failed';
  const isWanted = !isExpired && isAsked(decision, hasFailed, expiry !== undefined);
  const cordon = node && toCordon(node, { isCordoned: isWanted && hasFailed, hasBegun: expiry !== undefined });
  if (cordon !== undefined) return toPlan({ isEnd: true, machine: {}, node: cordon });
  if (isWanted) return planKeeping(machine, node, decision, moment);

  const isOver = decision.value === 'auto-preserved' && !hasFailed;
  const isReleased = isOver || (isExpired && decision.value !== 'false');
  const notes = noteChanges(machine, node, decision, isReleased);
  if (expiry === undefined) return toPlan({ isEnd: true, machine: notes });
  const wasLast = isReleased && hasFailed && { [names.preservedUntil]: expiry };
  const why = isExpired ? `its time was over at ${expiry}` : endReason(decision);
  return toPlan({
    isEnd: true,
    machine: { ...notes, ...wasLast },
    status: { preserveExpiryTime: null },
    ...(node && toEndOnNode(node, isReleased, moment)),
    event: { reason: 'PreservationEnded', note: `The Machine is not preserved any more: ${why}` },
  });
}

function decide({ metadata }: Machine, node: MaintainedNode | undefined): Decision {
  const { [annotations.preserve]: own = '', [annotations.lastAppliedNodePreserveValue]: noted } =
    metadata.annotations ?? {};
  const onNode = node?.metadata.annotations?.[annotations.preserve];
  const isOfNode = node !== undefined && (onNode !== undefined || Boolean(noted));
  const value = isOfNode ? (onNode ?? '') : own;
  return { value, isKnown: value === '' || isPreserveValue(value), by: isOfNode ? 'Node' : 'Machine' };
}

function isAsked({ value, isKnown }: Decision, hasFailed: boolean, isActive: boolean): boolean {
  if (!isKnown) return isActive;
  return value === 'now' || (hasFailed && (value === 'when-failed' || value === 'auto-preserved'));
}

function endReason({ value, by }: Decision): string {
  if (value === '') return 'no annotation asks for it any more';
  return value === 'false' ? `the annotation of the ${by} is "false"` : 'it has recovered';
}

/**
 * Annotations of the Machine. What the Node says is noted there, so that its owner knows it without the Node; the note
 * says that the Node decides, and goes with the Node's annotation. A Machine that has recovered may be preserved by its
 * set again.
 */
function noteChanges(
  { metadata, status }: Machine,
  node: MaintainedNode | undefined,
  { by, isKnown }: Decision,
  isReleased: boolean,
): Changes {
  const { [annotations.preserve]: own, [annotations.lastAppliedNodePreserveValue]: noted } = metadata.annotations ?? {};
  const onNode = isReleased ? undefined : node?.metadata.annotations?.[annotations.preserve];
  const isOverruled = by === 'Node' && isKnown;
  const wasOver = metadata.annotations?.[names.preservedUntil] !== undefined;
  const hasRecovered = status?.currentStatus?.phase === 'Running';
  return {
    ...(wasOver && hasRecovered && { [names.preservedUntil]: null }),
    ...(noted !== onNode && { [annotations.lastAppliedNodePreserveValue]: onNode ?? null }),
    ...(own !== undefined && (isOverruled || isReleased) && { [annotations.preserve]: null }),
  };
}

function planKeeping(
  machine: Machine,
  node: MaintainedNode | undefined,
  decision: Decision,
  moment: MaintenanceMoment,
): MaintenancePlan | undefined {
  const { currentStatus } = machine.status ?? {};
  const hasFailed = currentStatus?.phase === 'Failed';
  const now = toKubernetesTime(new Date(moment.nowMs));
  const known = currentStatus?.preserveExpiryTime ?? undefined;
  const expiry = known ?? toKubernetesTime(new Date(moment.nowMs + timeoutSeconds(machine, moment) * 1_000));
  const isDrained = moment.isDrained ?? messageOf(node).includes(preservedMessages.drained);
  const mustDrain = node !== undefined && hasFailed && !isDrained;
  const whose = decision.value === 'auto-preserved' ? 'its MachineSet' : `the annotation of the ${decision.by}`;
  const start = `The Machine is preserved until ${expiry}: ${whose} says "${decision.value}"`;
  const condition = node && toKeptCondition(node, { decision, hasFailed, isDrained, expiry, moment });
  const plan = toPlan({
    isEnd: false,
    machine: noteChanges(machine, node, decision, false),
    // The drain of a Machine that has failed has its whole timeout from here on.
    ...(known === undefined && {
      status: { preserveExpiryTime: expiry, ...(hasFailed && { lastUpdateTime: now }) },
      event: { reason: 'Preserved' as const, note: start },
    }),
    ...(node && { node: toKeptNode(node, { hasFailed, isDrained }) }),
    ...(condition && { condition }),
    ...(condition &&
      hasFailed &&
      isDrained && {
        event: { reason: 'PreservedDrained' as const, note: 'The Node of the preserved Machine is drained' },
      }),
  });
  if (!mustDrain) return plan;
  return { ...(plan ?? { isEnd: false }), mustDrain: true };
}

/** Of the autoscaler's annotation, what somebody else has written stays his. Before its drain the Node is cordoned. */
function toKeptNode(
  node: MaintainedNode,
  { hasFailed, isDrained }: { readonly hasFailed: boolean; readonly isDrained: boolean },
): MaintenancePlan['node'] {
  const { metadata, spec } = node;
  const isAnnotated = metadata.annotations?.[annotations.scaleDownDisabled] === 'true';
  const kept = { [annotations.scaleDownDisabled]: 'true', [annotations.scaleDownDisabledByMcm]: 'true' };
  if (!hasFailed) return withoutMarks(node, isAnnotated ? {} : kept);
  const isOpen = !spec?.unschedulable && !isTainted(node);
  const mustCordon = isOpen && !isDrained;
  const changes = { ...(!isAnnotated && kept), ...(mustCordon && { [names.cordonedBy]: cordoners.preservation }) };
  return { metadata: { annotations: changes }, ...(mustCordon && { spec: { unschedulable: true } }) };
}

/**
 * What is to be written of a cordon, by itself, as the condition says whose it may be: a preservation that ends, or
 * whose machine has recovered, undoes its own, and one that is about to drain notes that the Node is cordoned.
 * undefined: nothing.
 * @param hasBegun whether the expiry is set. MCM cordons after that, and no Node that was preserved before its failure
 */
function toCordon(
  node: MaintainedNode,
  { isCordoned, hasBegun }: { readonly isCordoned: boolean; readonly hasBegun: boolean },
): MaintenancePlan['node'] {
  if (!node.spec?.unschedulable) return undefined;
  const { preservation, others } = cordoners;
  const known = cordonerOf(node);
  const hasDrained = hasBegun && hasDrainMessage(node);
  const to = (by: string | null) => ({ metadata: { annotations: { [names.cordonedBy]: by } } });
  if (isCordoned) {
    if (hasDrained || (hasBegun && known !== undefined) || isTainted(node)) return undefined;
    const by = hasBegun && conditionOf(node)?.status !== 'True' ? preservation : others;
    return by === known ? undefined : to(by);
  }
  const isOurs = hasBegun && known === preservation;
  const isOfMcm = hasDrained && known === undefined && !isTainted(node);
  if (!isOurs && !isOfMcm) return undefined;
  return { ...(isOurs && to(null)), spec: { unschedulable: null } };
}

/**
 * The Node without a taint of the preservation and its note, which may also be of an in-place update, and with these
 * other changes of its annotations.
 */
function withoutMarks({ metadata, spec }: MaintainedNode, changes: Changes): NonNullable<MaintenancePlan['node']> {
  const present = spec?.taints ?? [];
  const others = present.filter(({ key }) => key !== taints.preserved.key);
  const isForUpdate = metadata.labels?.[labels.selectedForUpdate] !== undefined;
  const isNoted = metadata.annotations?.[names.cordonedBy] !== undefined && !isForUpdate;
  return {
    metadata: { annotations: { ...changes, ...(isNoted && { [names.cordonedBy]: null }) } },
    ...(others.length < present.length && { spec: { taints: others } }),
  };
}

interface KeptCondition {
  readonly moment: MaintenanceMoment;
  readonly decision: Decision;
  readonly hasFailed: boolean;
  readonly isDrained: boolean;
  readonly expiry: string;
}

/** For a Machine that has failed, what is there stays until the drain has ended. undefined: it is right. */
function toKeptCondition(node: MaintainedNode, kept: KeptCondition): MaintenancePlan['condition'] {
  const { decision, hasFailed, isDrained, expiry, moment } = kept;
  if (hasFailed && !isDrained && moment.isDrained === undefined) return undefined;
  const status = hasFailed && !isDrained ? 'False' : 'True';
  const { drained, notDrained, until } = preservedMessages;
  const drain = isDrained ? drained : notDrained;
  const message = `${hasFailed ? `${drain} ` : ''}${until} ${expiry}.`;
  const before = messageOf(node);
  // A text of MCM that says the same, in its own format of times, is left alone.
  const isSaid = hasFailed ? before.includes(drain) : !before.includes(drained) && !before.includes(notDrained);
  if (isSaid && conditionOf(node)?.status === status) return undefined;
  const reason = decision.value === 'auto-preserved' ? preservedReasons.byMcm : preservedReasons.byUser;
  return toCondition(node, status, reason, message, moment.nowMs);
}

/** The Node without what the preservation has put on it. */
function toEndOnNode(
  node: MaintainedNode,
  isReleased: boolean,
  { nowMs }: MaintenanceMoment,
): Pick<MaintenancePlan, 'node' | 'condition'> {
  const { annotations: present = {} } = node.metadata;
  const isOurs = present[annotations.scaleDownDisabledByMcm] !== undefined;
  const changes = {
    ...(isOurs && { [annotations.scaleDownDisabled]: null, [annotations.scaleDownDisabledByMcm]: null }),
    ...(isReleased && present[annotations.preserve] !== undefined && { [annotations.preserve]: null }),
  };
  const isShown = conditionOf(node) !== undefined && !messageOf(node).includes(preservedReasons.stopped);
  return {
    node: withoutMarks(node, changes),
    ...(isShown && {
      condition: toCondition(node, 'False', preservedReasons.stopped, preservedReasons.stopped, nowMs),
    }),
  };
}

function toCondition(node: MaintainedNode, status: string, reason: string, message: string, nowMs: number) {
  const time = toKubernetesTime(new Date(nowMs));
  const isSame = conditionOf(node)?.status === status;
  return {
    ...{ type: conditionType, status, reason, message, lastHeartbeatTime: time },
    ...(!isSame && { lastTransitionTime: time }),
  };
}

/** MCM from v0.63 on keeps pods away by a taint. */
function isTainted({ spec }: MaintainedNode): boolean {
  return spec?.taints?.some(({ key }) => key === taints.preserved.key) === true;
}

/** One of `cordoners`; undefined where nobody has noted it. */
function cordonerOf({ metadata }: MaintainedNode): string | undefined {
  return metadata.annotations?.[names.cordonedBy];
}

/** Whether the condition says how the drain of a preserved machine went. */
function hasDrainMessage(node: MaintainedNode): boolean {
  const message = messageOf(node);
  return message.includes(preservedMessages.drained) || message.includes(preservedMessages.notDrained);
}

function conditionOf(node: MaintainedNode | undefined) {
  return node?.status?.conditions?.find(({ type }) => type === conditionType);
}

function messageOf(node: MaintainedNode | undefined): string {
  return conditionOf(node)?.message ?? '';
}

const mcmDefaultSeconds = 96 * 3600;

function timeoutSeconds({ spec }: Machine, { defaultSeconds = mcmDefaultSeconds }: MaintenanceMoment): number {
  return secondsOr(defaultSeconds, spec?.machinePreserveTimeout ?? undefined);
}

/** What is to be written, without what is empty; undefined: nothing is. */
function toPlan(wanted: {
  readonly isEnd: boolean;
  readonly machine: Changes;
  readonly status?: object;
  readonly node?: MaintenancePlan['node'];
  readonly condition?: MaintenancePlan['condition'];
  readonly event?: MaintenancePlan['event'];
}): MaintenancePlan | undefined {
  const { isEnd, machine, status, node, condition, event } = wanted;
  const { metadata, spec } = node ?? {};
  const isNodeMoved = Object.keys(metadata?.annotations ?? {}).length > 0 || spec !== undefined;
  const writes = {
    ...(Object.keys(machine).length > 0 && { machine: { metadata: { annotations: machine } } }),
    ...(status && { status: { status: { currentStatus: status } } }),
    ...(node && isNodeMoved && { node }),
    ...(condition && { condition }),
  };
  return Object.keys(writes).length === 0 ? undefined : { isEnd, ...writes, ...(event && { event }) };
}
