/**
 * MachineDeployments and MachineSets of machine-controller-manager (MCM), for the owner engine: what they have besides
 * the fields of Kubernetes' Deployment. The sentences and the order of deletion are MCM's.
 */
import type {
  AutoPreservationDialect,
  OwnedMachineDialect,
  OwnerDialect,
  ProgressCondition,
  TemplateDialect,
} from '../dialect.ts';
import { sameDuration } from '../duration.ts';
import type { RolloutProgress } from '../model/owner.ts';
import { names } from '../names.ts';
import type { KubeObject } from '../objects.ts';
import type { OwnerSet } from '../owner/objects.ts';
import { problemsOfNodeTemplate } from './machine/node-template.ts';
import { isPreserveValue } from './machine/preservation.ts';
import { isTimeout, limitsProblem, requestOf, secondsOr, stageOf } from './machine/snapshot.ts';
import {
  annotations,
  annotationsNotCopied,
  deletionSteps,
  descriptions,
  labels,
  type MachineDeploymentConditionReason,
  type OperationState,
  type OperationType,
  orchestrationTypes,
  priorities,
  reasonsUnderWay,
  updateResults,
} from './names.ts';
import { toRolloutPatch } from './rollout-marks.ts';
import { markedMsOf, priorityOf, scaleDown } from './scale-down.ts';
import { type LastOperation, machineConfiguration } from './schema/common.ts';
import type { Machine, MachineSpec } from './schema/machine.ts';
import type { MachineDeployment, MachineDeploymentStrategy } from './schema/machine-deployment.ts';
import type { MachineSet } from './schema/machine-set.ts';

const copiedSpecFields: readonly string[] = ['minReadySeconds', 'autoPreserveFailedMachineMax'];

/** Fields of the spec of a machine that follow its template. */
const liveFields: readonly string[] = ['nodeTemplate', ...Object.keys(machineConfiguration)];

const template: TemplateDialect = {
  /** nodeTemplate, the timeouts and other knobs, and class.kind change no machine that exists. */
  identityOf(spec: MachineSpec = {}) {
    return { class: { apiGroup: spec.class?.apiGroup, name: spec.class?.name }, providerID: spec.providerID };
  },
  /** A machine that was made with another creation timeout by an annotation keeps that. */
  settingsOf(spec: MachineSpec = {}, machine?: KubeObject) {
    const creationTimeout = machine?.metadata.annotations?.[annotations.effectiveCreationTimeout];
    const settings = Object.fromEntries(Object.entries(spec).filter(([field]) => liveFields.includes(field)));
    return { ...settings, ...(creationTimeout !== undefined && { creationTimeout }) };
  },
  /** MCM leaves out numbers of 0 of a set and a deployment, and writes durations as Go does. */
  isSameSetting(field, a, b) {
    if (typeof a === 'string' && typeof b === 'string') return a === b || (isTimeout(field) && sameDuration(a, b));
    if (field === 'disableHealthTimeout') return (a ?? false) === (b ?? false);
    return copiedSpecFields.includes(field) ? (a ?? 0) === (b ?? 0) : a === b;
  },
  problemOf(spec: MachineSpec = {}, existing: readonly (MachineSpec | undefined)[]) {
    const { kind, name } = spec.class ?? {};
    if (!kind) return 'spec.template.spec.class.kind is missing: set it to MachineClass';
    if (!name) return 'spec.template.spec.class.name is missing: set it to the name of a MachineClass';
    return limitsProblem(spec, 'spec.template.spec') ?? newNodeTemplateProblem(spec, existing);
  },
  creationSecondsOf({ metadata, spec }: MachineSet) {
    const text = metadata.annotations?.[annotations.effectiveCreationTimeout] ?? spec?.template?.spec?.creationTimeout;
    return secondsOr(undefined, text);
  },
  toMachine({ metadata, spec }: OwnerSet) {
    const ofTemplate = spec?.template?.metadata?.annotations;
    const creationTimeout = metadata.annotations?.[annotations.effectiveCreationTimeout];
    return {
      annotations: {
        ...ofTemplate,
        [annotations.priority]: ofTemplate?.[annotations.priority] ?? priorities.default,
        ...(creationTimeout !== undefined && { [annotations.effectiveCreationTimeout]: creationTimeout }),
      },
      spec: { ...spec?.template?.spec, ...(creationTimeout !== undefined && { creationTimeout }) },
    };
  },
};

/**
 * What an API server would refuse of a Node, unless a set has it already: its machines run with what is accepted of it,
 * and an owner that has worked so goes on.
 */
function newNodeTemplateProblem(spec: MachineSpec, existing: readonly (MachineSpec | undefined)[]) {
  const problemsOf = (each: MachineSpec | undefined) =>
    problemsOfNodeTemplate(each?.nodeTemplate, 'spec.template.spec');
  const known = existing.flatMap(problemsOf);
  return problemsOf(spec).find((problem) => !known.includes(problem));
}

/** Of phases that differ the earlier is deleted first; a phase that is not here ranks as Terminating. */
const phaseOrder = ['Terminating', 'Failed', 'CrashLoopBackOff', 'Unknown', 'Pending', 'Available', 'Running'];

const ofMachines: OwnedMachineDialect = {
  stageOf,
  phaseOf: ({ metadata, status }: Machine) =>
    metadata.deletionTimestamp === undefined ? (status?.currentStatus?.phase ?? '') : 'Terminating',
  hasVm: ({ spec }: Machine) => spec?.providerID !== undefined,
  failedToJoin: (machine: Machine) =>
    stageOf(machine) === 'failed' && machine.status?.lastOperation?.type === ('Create' satisfies OperationType),
  /** By the condition of its Node, or without one since it is in its phase. */
  readySinceMs({ metadata, status }: Machine) {
    const ready = status?.conditions?.find(({ type }) => type === 'Ready');
    const since = ready?.lastTransitionTime ?? status?.currentStatus?.lastUpdateTime;
    return Date.parse(since ?? metadata.creationTimestamp);
  },
  operationOf: (machine: Machine) => {
    const operation = machine.status?.lastOperation ?? {};
    const code = codeOf(operation);
    const waitsFor = waitOf(machine, operation);
    return {
      ...(code !== undefined && { code }),
      text: operationText(operation),
      ...(waitsFor !== undefined && { waitsFor }),
    };
  },
  requestOf,
  /** Preserved until a time to come, or asked for by annotation. */
  isPreserved(machine: Machine, nowMs) {
    if (machine.status?.currentStatus?.preserveExpiryTime != null) return expiryMsOf(machine) > nowMs;
    const value = preserveValueOf(machine);
    return value !== 'false' && isPreserveValue(value);
  },
  /** The expiry of one that has failed may not be written yet. */
  isSpared: (machine: Machine, nowMs) =>
    (stageOf(machine) === 'failed' && ofMachines.isPreserved(machine, nowMs)) || expiryMsOf(machine) > nowMs,
  isMarked: (machine: Machine, nowMs) =>
    priorityOf(machine) < Number(priorities.default) && !ofMachines.isSpared(machine, nowMs),
  /**
   * Not preserved before auto-preserved before preserved, earlier expiry, lower priority, marked for deletion (earlier
   * mark first), worse phase.
   */
  deletionRank(machine: Machine, nowMs) {
    const isPreserved = ofMachines.isSpared(machine, nowMs);
    const isAutomatic = machine.metadata.annotations?.[annotations.preserve] === autoPreserved;
    return [
      isPreserved ? (isAutomatic ? 1 : 2) : 0,
      isPreserved ? expiryMsOf(machine) || Number.POSITIVE_INFINITY : 0,
      priorityOf(machine),
      markedMsOf(machine),
      Math.max(0, phaseOrder.indexOf(machine.status?.currentStatus?.phase ?? '')),
    ];
  },
};

/** What its Node says as far as its workflow has noted that, or else the Machine itself. */
function preserveValueOf({ metadata }: KubeObject): string | undefined {
  const { [annotations.lastAppliedNodePreserveValue]: noted, [annotations.preserve]: own } = metadata.annotations ?? {};
  return noted || own;
}

const autoPreserved = 'auto-preserved';

/** MCM annotates the Machine, whose Node must not have decided otherwise. */
const autoPreservation: AutoPreservationDialect = {
  most: ({ spec }: MachineSet) => spec?.autoPreserveFailedMachineMax ?? 0,
  /** Only the Machine's own annotation counts: the set cannot remove that of a Node. */
  isKept: ({ metadata }) => metadata.annotations?.[annotations.preserve] === autoPreserved,
  isUndecided({ metadata, status }: Machine) {
    const { [annotations.lastAppliedNodePreserveValue]: noted, [annotations.preserve]: own } =
      metadata.annotations ?? {};
    const isOver = metadata.annotations?.[names.preservedUntil] !== undefined;
    return noted === undefined && !isPreserveValue(own) && !isOver && status?.currentStatus?.preserveExpiryTime == null;
  },
  toPatch: (isKept) => ({ metadata: { annotations: { [annotations.preserve]: isKept ? autoPreserved : null } } }),
};

/** End of the preservation, ms since the epoch; NaN for a machine that is not preserved. */
function expiryMsOf({ status }: Pick<Machine, 'status'>): number {
  return Date.parse(status?.currentStatus?.preserveExpiryTime ?? '');
}

/** A refusal of a cloud in the words of MCM. */
const refusal = /(?:Cloud provider message - )?machine codes error: code = \[(\w+)\] message = \[(.*)\]/s;

/** What an operation of a machine says, on one line: `<code>: <words>` where it was refused, and the code once. */
export function operationText(operation: LastOperation): string {
  const { description = '' } = operation;
  const words = description.replace(refusal, (_all, _code, message: string) => message).replaceAll(/\s+/g, ' ');
  return [codeOf(operation), words].filter(Boolean).join(': ');
}

/** What comes next, where the description of an operation under way says what is done. */
function waitOf({ spec }: Machine, { description = '', state, type }: LastOperation): string | undefined {
  if (state !== ('Processing' satisfies OperationState)) return undefined;
  const [, named] = /: waits for (.*)$/s.exec(description) ?? [];
  if (named !== undefined) return named;
  if (type === ('HealthCheck' satisfies OperationType)) return 'its Node to become healthy';
  const waits: Readonly<Record<string, string>> = {
    [descriptions.creating]: spec?.providerID === undefined ? 'the cloud to create its VM' : 'its Node to join',
    [descriptions.initializing]: 'its VM to be set up',
    [deletionSteps.drain]: 'its pods to leave the Node',
    [deletionSteps.deleteVm]: 'its VM to be deleted',
  };
  return waits[description];
}

/** Code of an operation that was refused. A deletion has its code in its description alone. */
function codeOf({ description = '', errorCode, state }: LastOperation): string | undefined {
  return state === 'Failed' ? errorCode || refusal.exec(description)?.[1] : undefined;
}

const progressReasons: Record<Exclude<RolloutProgress, 'other'>, MachineDeploymentConditionReason> = {
  created: 'NewMachineSetCreated',
  found: 'FoundNewMachineSet',
  updated: 'MachineSetUpdated',
  complete: 'NewMachineSetAvailable',
  late: 'ProgressDeadlineExceeded',
  paused: 'DeploymentPaused',
  resumed: 'DeploymentResumed',
};

function toProgress(reason: string): RolloutProgress {
  const found = Object.entries(progressReasons).find(([, known]) => known === reason);
  return (found?.[0] as RolloutProgress | undefined) ?? 'other';
}

function toProgressCondition(
  progress: RolloutProgress,
  deploymentName: string,
  setName: string | undefined,
): ProgressCondition | undefined {
  if (progress === 'other') return undefined;
  const isUnknown = progress === 'paused' || progress === 'resumed';
  const status = progress === 'late' ? 'False' : isUnknown ? 'Unknown' : 'True';
  return { status, reason: progressReasons[progress], message: progressMessage(progress, deploymentName, setName) };
}

function progressMessage(progress: RolloutProgress, deploymentName: string, setName: string | undefined): string {
  if (setName !== undefined && progress === 'created') return `Created new machine set "${setName}"`;
  if (setName !== undefined && progress === 'found') return `Found new machine set "${setName}"`;
  const subject = setName === undefined ? `Machine Deployment "${deploymentName}"` : `MachineSet "${setName}"`;
  switch (progress) {
    case 'complete':
      return `${subject} has successfully progressed.`;
    case 'late':
      return `${subject} has timed out progressing.`;
    case 'paused':
      return 'Deployment is paused';
    case 'resumed':
      return 'Deployment is resumed';
    default:
      return `${subject} is progressing.`;
  }
}

/** Machines whose last operation failed, as the cluster autoscaler and people look for them. */
function toFailedMachines(all: readonly Machine[], setNames: ReadonlyMap<string, string>, nowMs: number) {
  const failedMachines = all
    .filter((machine) => machine.status?.lastOperation?.state === 'Failed' && !ofMachines.isPreserved(machine, nowMs))
    .toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
    .map(({ metadata, spec, status }) => ({
      name: metadata.name,
      ...(spec?.providerID !== undefined && { providerID: spec.providerID }),
      lastOperation: status?.lastOperation,
      ownerRef: setNames.get(metadata.ownerReferences?.find(({ controller }) => controller)?.uid ?? '') ?? '',
    }));
  return { failedMachines };
}

export const ownerDialect: OwnerDialect = {
  keys: {
    templateHash: labels.templateHash,
    revision: annotations.revision,
    revisionHistory: annotations.revisionHistory,
    desiredReplicas: annotations.desiredReplicas,
    maxReplicas: annotations.maxReplicas,
  },
  annotationsNotCopied,
  copiedSpecFields,
  strategies: {
    RollingUpdate: { strategy: 'RollingUpdate', bounds: 'rollingUpdate' },
    Recreate: { strategy: 'Recreate' },
    InPlaceUpdate: { strategy: 'InPlace', bounds: 'inPlaceUpdate' },
  },
  setConditions: 'machineSetCondition',
  template,
  machines: ofMachines,
  problemOfStrategy({ type, inPlaceUpdate }: MachineDeploymentStrategy) {
    const orchestration = inPlaceUpdate?.orchestrationType ?? '';
    if (type !== 'InPlaceUpdate' || Object.hasOwn(orchestrationTypes, orchestration)) return undefined;
    const known = Object.keys(orchestrationTypes).join(', ');
    return `spec.strategy.inPlaceUpdate.orchestrationType is '${orchestration}': set it to one of ${known}`;
  },
  /**
   * Frozen itself or with its deployment, or an old set of an update in place. MCM leaves the label for the latter also
   * on a set that is used again: while a deployment updates in place, the plan alone says which sets get machines.
   */
  isClosed(set, deployment: MachineDeployment | undefined) {
    const isFrozen = [set, deployment].some((owner) => owner?.metadata.labels?.[labels.freeze] === 'True');
    const isInPlace = deployment?.spec?.strategy?.type === 'InPlaceUpdate';
    return isFrozen || (!isInPlace && set.metadata.labels?.[labels.scaleUpDisabled] !== undefined);
  },
  freeze: {
    label: labels.freeze,
    value: 'True',
    thawAnnotation: annotations.unfreeze,
    reasons: {
      overshoot: 'OverShootingReplicaCount' satisfies MachineDeploymentConditionReason,
      sync: 'MachineDeploymentStateSync' satisfies MachineDeploymentConditionReason,
    },
  },
  toProgressCondition,
  toProgress,
  toRolloutPatch,
  inPlaceUpdate: {
    selectsManually: ({ spec }: MachineDeployment) => spec?.strategy?.inPlaceUpdate?.orchestrationType === 'Manual',
    isUnderWay: ({ status }: Machine) =>
      status?.conditions?.some(({ type, reason }) => type === 'InPlaceUpdate' && reasonsUnderWay.has(reason ?? '')) ===
      true,
    handedOver: { [labels.updateResult]: updateResults.successful },
  },
  scaleDown,
  autoPreservation,
  preservedCounts: { failed: 'preservedFailedReplicas', automatic: 'autoPreserveFailedMachineCount' },
  toFailedMachines,
};
