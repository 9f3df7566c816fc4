/** What the engine reports of a Machine, in MCM's phases, operations and sentences. */
import type { ReportedMachine } from '../../dialect.ts';
import type { MachineReport, MachineStage, MachineStep } from '../../model/machine.ts';
import { toKubernetesTime } from '../../time.ts';
import { deletionSteps, descriptions, type MachinePhase, type OperationState, type OperationType } from '../names.ts';
import { stages, toPhase } from './snapshot.ts';

/** `status.lastOperation`, without its time. */
interface Operation {
  readonly type: OperationType;
  readonly state: OperationState;
  readonly description: string;
  readonly errorCode?: string;
}

/** The phase in which a Machine of each stage is. */
const phaseOf: Readonly<Record<MachineStage, MachinePhase>> = {
  new: '',
  creating: 'CrashLoopBackOff',
  joining: 'Pending',
  available: 'Available',
  running: 'Running',
  unhealthy: 'Unknown',
  failed: 'Failed',
  deleting: 'Terminating',
  updating: 'InPlaceUpdating',
};

export const creationPhase = phaseOf.joining;

/**
 * Merge patch of a Machine that makes its status say what is reported.
 * @param nodeConditions the Node's conditions as they are, where they are to be copied
 */
export function toStatusPatch(
  machine: ReportedMachine,
  report: MachineReport,
  now: Date,
  nodeConditions?: readonly object[],
): object {
  const { stageSince, step, isTimed, lastKnownState, addresses } = report;
  return {
    status: {
      currentStatus: {
        phase: toReportedPhase(machine, report),
        ...(isTimed !== undefined && { timeoutActive: isTimed }),
        ...(stageSince !== undefined && { lastUpdateTime: toKubernetesTime(new Date(stageSince)) }),
        ...(report.stage === 'deleting' && { preserveExpiryTime: null }),
      },
      ...(step !== undefined && {
        lastOperation: {
          errorCode: null,
          ...toOperation(machine, report, step),
          lastUpdateTime: toKubernetesTime(now),
        },
      }),
      ...(lastKnownState !== undefined && { lastKnownState }),
      ...(addresses !== undefined && { addresses }),
      ...(nodeConditions !== undefined && { conditions: nodeConditions }),
    },
  };
}

/** Note of an Event: the description of the last operation, else the phase. */
export function toEventNote(machine: ReportedMachine, report: MachineReport): string {
  const { step } = report;
  return step === undefined ? toReportedPhase(machine, report) : toOperation(machine, report, step).description;
}

/** A Machine that is in the stage keeps its phase, as several phases of an update in place are one stage. */
function toReportedPhase(machine: ReportedMachine, { stage }: MachineReport): MachinePhase {
  const phase = toPhase(machine.phase);
  return stages[phase] === stage ? phase : phaseOf[stage];
}

function toOperation(machine: ReportedMachine, report: MachineReport, step: MachineStep): Operation {
  const { state } = step;
  if (state === 'failed') return toFailedOperation(step);
  const description =
    state === 'successful' ? successText(machine, report, step.kind) : progressText(machine, report, step);
  return { type: typeOf(step), state: state === 'successful' ? 'Successful' : 'Processing', description };
}

/** A refused deletion has its code in the description alone. */
function toFailedOperation(step: MachineStep): Operation {
  const { code } = step;
  const type = typeOf(step);
  return {
    type,
    state: 'Failed',
    description: failureText(step),
    ...(type === 'Create' && code !== undefined && { errorCode: code }),
  };
}

/** The cluster autoscaler and people look for the code of the cloud in these words. */
function failureText({ kind, message = '', code, isFromCloud }: MachineStep): string {
  const text = isFromCloud ? `machine codes error: code = [${code}] message = [${withPairs(message)}]` : message;
  if (kind === 'create') return isFromCloud ? `${descriptions.cloudProviderMessage}${text}` : text;
  const subject = subjects[kind];
  return subject === undefined ? text : `${subject}: ${text}`;
}

/** A text in which brackets come in pairs: MCM cannot read an error otherwise. */
function withPairs(text: string): string {
  let depth = 0;
  const isPaired = text.split('').every((char) => {
    depth += char === '[' ? 1 : char === ']' ? -1 : 0;
    return depth >= 0;
  });
  return isPaired && depth === 0 ? text : text.replaceAll('[', '(').replaceAll(']', ')');
}

function typeOf({ kind }: MachineStep): OperationType {
  if (kind === 'health') return 'HealthCheck';
  if (kind === 'equipNode') return 'Update';
  if (kind === 'drain' || kind === 'deleteVm') return 'Delete';
  return 'Create';
}

const subjects: Readonly<Partial<Record<MachineStep['kind'], string>>> = {
  create: descriptions.creating,
  initialize: descriptions.initializing,
  claimNode: descriptions.staleNode,
  drain: deletionSteps.drain,
  deleteVm: deletionSteps.deleteVm,
};

/** What is waited for comes after MCM's words, in which MCM looks for the step. */
function progressText(machine: ReportedMachine, report: MachineReport, { kind, waitsFor }: MachineStep): string {
  if (kind === 'health') {
    return `Machine ${machine.name} is unhealthy - changing MachinePhase to ${toReportedPhase(machine, report)}`;
  }
  const subject = subjects[kind] ?? descriptions.creating;
  return waitsFor === undefined ? subject : `${subject}: waits for ${waitsFor}`;
}

function successText({ name, createdAt }: ReportedMachine, report: MachineReport, kind: MachineStep['kind']): string {
  if (kind === 'health') return `Machine ${name} successfully re-joined the cluster`;
  if (kind === 'equipNode') return 'The node has what spec.nodeTemplate says';
  if (kind !== 'join') return subjects[kind] ?? descriptions.creating;
  const joinedMs = report.stageSince === undefined ? Date.now() : Date.parse(report.stageSince);
  const ageSeconds = Math.round((joinedMs - Date.parse(createdAt)) / 1_000);
  return `Machine ${name} successfully joined the cluster after ${ageSeconds} s`;
}
