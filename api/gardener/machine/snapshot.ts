/** What a Machine means to the engine. */
import { durationPattern, parseDuration } from '../../duration.ts';
import type { MachineLimits, MachineSnapshot, MachineStage, ReplacementRequest } from '../../model/machine.ts';
import { maxLabelLength, names } from '../../names.ts';
import { toStatuses } from '../../node.ts';
import { annotations, finalizers, labels, type MachinePhase, phases } from '../names.ts';
import type { Machine, MachineSpec } from '../schema/machine.ts';
import { problemsOfNodeTemplate } from './node-template.ts';

/** What decisions need of a Machine. `defaults` apply where its spec says nothing, or nothing that can be read. */
export function toMachineSnapshot(machine: Machine, defaults: MachineLimits): MachineSnapshot {
  const { metadata, spec, status } = machine;
  const nodeName = metadata.labels?.[labels.node];
  const revision = metadata.labels?.[labels.templateHash];
  const own = metadata.finalizers ?? [];
  const request = requestOf(machine);
  return {
    uid: metadata.uid,
    resourceVersion: metadata.resourceVersion,
    createdAt: metadata.creationTimestamp,
    managed: own.includes(finalizers.machine),
    finalizers: own,
    hasPriority: metadata.annotations?.[annotations.priority] !== undefined,
    ...(metadata.deletionTimestamp !== undefined && { deletingSince: metadata.deletionTimestamp }),
    phase: toPhase(status?.currentStatus?.phase),
    stage: stages[toPhase(status?.currentStatus?.phase)],
    ...(status?.currentStatus?.lastUpdateTime && { stageSince: status.currentStatus.lastUpdateTime }),
    ...(request !== undefined && { request }),
    ...(metadata.annotations?.[names.createdInRollout] !== undefined && { createdInRollout: true as const }),
    ...(!isOwned(machine) && { alone: true as const }),
    ...(spec?.providerID && { providerID: spec.providerID }),
    ...(nodeName && { nodeName }),
    ...nodeNotBefore(machine, defaults),
    ...(revision && { revision }),
    forceDeletion: isGoTrue(metadata.labels?.[labels.forceDeletion]),
    ...(metadata.labels?.[labels.forceDrain] === 'True' && { forceDrain: true as const }),
    ...(defaults.ordersInAnnotations && ordersOf(metadata.annotations)),
    ...(status?.currentStatus?.preserveExpiryTime && { preservedUntil: status.currentStatus.preserveExpiryTime }),
    ...updateDueBy(machine, defaults),
    limits: {
      creationSeconds: secondsOr(defaults.creationSeconds, spec?.creationTimeout),
      drainSeconds: secondsOr(defaults.drainSeconds, spec?.drainTimeout),
      maxEvictRetries: Math.max(spec?.maxEvictRetries ?? defaults.maxEvictRetries, 0),
      ...(defaults.hasNoNode && { hasNoNode: true as const }),
      ...(defaults.noRoomSeconds !== undefined && { noRoomSeconds: defaults.noRoomSeconds }),
      ...healthTimeoutOf(machine, defaults),
      nodeConditions: spec?.nodeConditions?.split(',').map((type) => type.trim()) ?? defaults.nodeConditions,
    },
    conditions: toStatuses(status?.conditions),
    ...(status?.lastKnownState && { lastKnownState: status.lastKnownState }),
    source: spec?.class?.name ?? '',
    ...placementOf(spec?.nodeTemplate?.metadata?.annotations?.[annotations.awsPlacement]),
    ...problemOf(machine),
    ...nodeProblemOf(machine),
    onNodeDeleted: 'deleteMachine',
  };
}

function ordersOf(given: Machine['metadata']['annotations'] = {}): Pick<MachineSnapshot, 'skipDrain' | 'retry'> {
  const { [names.skipDrain]: skipDrain, [names.retry]: retry } = given;
  return { ...(skipDrain === 'true' && { skipDrain: true as const }), ...(retry !== undefined && { retry }) };
}

/** Only of an object that was made for its VM: one that was restored under another UID may have an older Node. */
function nodeNotBefore(
  { metadata: { uid, creationTimestamp, annotations: own } }: Machine,
  { clockSkewSeconds = 0 }: MachineLimits,
): Pick<MachineSnapshot, 'nodeNotBefore'> {
  if (own?.[names.firstUid] !== uid) return {};
  return { nodeNotBefore: new Date(Date.parse(creationTimestamp) - clockSkewSeconds * 1_000).toISOString() };
}

function updateDueBy(machine: Machine, { updateSeconds }: MachineLimits): Pick<MachineSnapshot, 'updateDueBy'> {
  const dueMs =
    machine.status?.currentStatus?.phase === 'InPlaceUpdating' ? updateDeadlineMs(machine, updateSeconds) : NaN;
  return Number.isNaN(dueMs) ? {} : { updateDueBy: new Date(dueMs).toISOString() };
}

const mcmUpdateSeconds = 20 * 60;

/** How long the agent on the Node may take for an in-place update, s. */
export function updateTimeoutSeconds({ spec }: Machine, defaultSeconds = mcmUpdateSeconds): number {
  return secondsOr(defaultSeconds, spec?.inPlaceUpdateTimeout ?? undefined);
}

/** Until when it may, ms since the epoch; NaN where the status does not say since when. */
export function updateDeadlineMs(machine: Machine, defaultSeconds?: number): number {
  const sinceMs = Date.parse(machine.status?.currentStatus?.lastUpdateTime ?? '');
  return sinceMs + updateTimeoutSeconds(machine, defaultSeconds) * 1_000;
}

/** How far a Machine is by its phase. */
export function stageOf({ status }: Machine): MachineStage {
  return stages[toPhase(status?.currentStatus?.phase)];
}

/** The stage of each phase. */
export const stages: Readonly<Record<MachinePhase, MachineStage>> = {
  '': 'new',
  CrashLoopBackOff: 'creating',
  Pending: 'joining',
  Available: 'available',
  Running: 'running',
  Unknown: 'unhealthy',
  Failed: 'failed',
  Terminating: 'deleting',
  InPlaceUpdating: 'updating',
  InPlaceUpdateSuccessful: 'updating',
  InPlaceUpdateFailed: 'updating',
};

/**
 * What an Unknown machine asks of its owner: its status says that the health check has Failed, which MCM writes with
 * another phase only. The owner's decision names the time of that status.
 */
export function requestOf({ metadata, status }: Machine): ReplacementRequest | undefined {
  const { currentStatus, lastOperation } = status ?? {};
  const { type, state, lastUpdateTime: askedAt = '' } = lastOperation ?? {};
  if (currentStatus?.phase !== 'Unknown' || type !== 'HealthCheck' || state !== 'Failed') return undefined;
  const isGranted = askedAt !== '' && metadata.annotations?.[names.replace] === askedAt;
  return { askedAt, unhealthySince: currentStatus.lastUpdateTime ?? '', isGranted };
}

function isOwned({ metadata }: Machine): boolean {
  return metadata.ownerReferences?.some(({ controller, kind }) => controller && kind === 'MachineSet') === true;
}

function healthTimeoutOf({ spec }: Machine, defaults: MachineLimits): Pick<MachineLimits, 'healthSeconds'> {
  const healthSeconds = secondsOr(defaults.healthSeconds, spec?.healthTimeout);
  return spec?.disableHealthTimeout || healthSeconds === undefined ? {} : { healthSeconds };
}

function problemOf({ metadata: { name }, spec }: Machine): { problem?: string } {
  const problem = nameProblem(name) ?? classReferenceProblem(spec?.class) ?? limitsProblem(spec, 'spec');
  return problem === undefined ? {} : { problem };
}

/** Most problems that a text names. */
const maxNamed = 3;

function nodeProblemOf({ spec }: Machine): Pick<MachineSnapshot, 'nodeProblem'> {
  const problems = problemsOfNodeTemplate(spec?.nodeTemplate, 'spec');
  const more = problems.length - maxNamed;
  const text = [...problems.slice(0, maxNamed), ...(more > 0 ? [`and ${more} more`] : [])].join('; ');
  return problems.length === 0 ? {} : { nodeProblem: text };
}

/**
 * MCM reads this annotation of the node template where the class has no placement. What is no JSON the provider
 * refuses.
 */
function placementOf(text: string | undefined): Pick<MachineSnapshot, 'providerSpecDefaults'> {
  if (text === undefined) return {};
  try {
    return { providerSpecDefaults: { placement: JSON.parse(text) } };
  } catch {
    return { providerSpecDefaults: { placement: text } };
  }
}

function nameProblem(name: string): string | undefined {
  if (name.length <= maxLabelLength) return undefined;
  const most = `${maxLabelLength} is the most for the label of its node`;
  return `metadata.name has ${name.length} characters, and ${most}: choose a shorter one`;
}

function classReferenceProblem({
  kind = '',
  name = '',
}: NonNullable<Machine['spec']>['class'] = {}): string | undefined {
  if (kind === '') return 'spec.class.kind is empty: set it to MachineClass';
  if (kind !== 'MachineClass') return `spec.class.kind is "${kind}": set it to MachineClass`;
  return name === '' ? 'spec.class.name is empty: set it to the name of a MachineClass in this namespace' : undefined;
}

const timeouts = [
  'creationTimeout',
  'drainTimeout',
  'healthTimeout',
  'inPlaceUpdateTimeout',
  'machinePreserveTimeout',
] as const satisfies readonly (keyof MachineSpec)[];

/** Whether a field of the spec of a machine is a duration. */
export function isTimeout(field: string): boolean {
  return timeouts.some((each) => each === field);
}

/**
 * What is wrong with the timeouts and limits in the spec of a machine, which is at `path`. Not every CRD refuses it.
 */
export function limitsProblem(spec: MachineSpec = {}, path: string): string | undefined {
  const isWrong = (text: string) => text.startsWith('-') || !new RegExp(durationPattern).test(text);
  const field = timeouts.find((each) => spec[each] != null && isWrong(spec[each]));
  if (field !== undefined)
    return `${path}.${field} is "${spec[field]}": set it to a duration such as 90s, 20m or 1h30m`;
  const { maxEvictRetries } = spec;
  const isNegative = maxEvictRetries != null && maxEvictRetries < 0;
  return isNegative ? `${path}.maxEvictRetries is ${maxEvictRetries}: set it to 0 or more` : undefined;
}

/** The phase of a status; '' for one that MCM does not know. */
export function toPhase(phase: string | undefined): MachinePhase {
  return phase !== undefined && Object.hasOwn(phases, phase) ? (phase as MachinePhase) : '';
}

/** As Go's strconv.ParseBool, which reads this label in MCM. */
function isGoTrue(value: string | undefined): boolean {
  return value !== undefined && ['1', 't', 'T', 'TRUE', 'true', 'True'].includes(value);
}

/** Seconds from 0 to a year, which is as good as never and fits any timer. */
export function secondsOr<T extends number | undefined>(fallback: T, duration: string | undefined): number | T {
  if (duration === undefined) return fallback;
  try {
    return Math.min(Math.max(parseDuration(duration), 0), 365 * 24 * 3600);
  } catch {
    return fallback;
  }
}
