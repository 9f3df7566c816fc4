/** What the workflow of an owner writes to the status of owner and sets, beside the counts: pure. */

import type { MachineDeployment, MachineDeploymentCondition } from '../gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../gardener/schema/machine-set.ts';
import type { OwnerPlan } from '../model/owner.ts';
import { toKubernetesTime } from '../time.ts';
import { failureOfDeployment, failureOfSet, isSameFailure, type ReplicaFailure } from './failure.ts';
import { invalidSpec } from './problem.ts';

/** What a deployment has to say. Progressing stays as it is where neither `progress` nor `problem` is given. */
export interface DeploymentReport extends NonNullable<OwnerPlan['report']> {
  /** Name of the set of the template, if there is one. */
  readonly setName?: string | undefined;
  /** What ReplicaFailure says; without it there is no such condition. */
  readonly failure?: ReplicaFailure | undefined;
}

/**
 * A status patch that takes note of a generation, if one is given, and brings the conditions Progressing and
 * ReplicaFailure up to date; undefined when all is there.
 */
export function withReport(
  deployment: MachineDeployment,
  report: DeploymentReport,
  generation: number | undefined,
  now: Date,
): object | undefined {
  const { status } = deployment;
  const present = status?.conditions ?? [];
  const progressing = toProgressing(deployment, report, now);
  const isFailureTold = isSameFailure(failureOfDeployment(deployment), report.failure);
  const isNoted = generation === undefined || status?.observedGeneration === generation;
  if (progressing === undefined && isFailureTold && isNoted) return undefined;

  const written: string[] = [...(progressing ? ['Progressing'] : []), ...(isFailureTold ? [] : ['ReplicaFailure'])];
  const failure = isFailureTold || report.failure === undefined ? [] : [toFailure(report.failure, now)];
  const conditions = [
    ...present.filter(({ type }) => !written.includes(type)),
    ...(progressing ? [progressing] : []),
    ...failure.map((condition) => ({ ...condition, lastUpdateTime: condition.lastTransitionTime })),
  ];
  return {
    status: {
      ...(generation !== undefined && { observedGeneration: generation }),
      ...(written.length > 0 && { conditions }),
    },
  };
}

/** The condition Progressing as it should be; undefined when it is. */
function toProgressing(
  { metadata, status }: MachineDeployment,
  { progress, problem, setName }: DeploymentReport,
  now: Date,
): MachineDeploymentCondition | undefined {
  const present = status?.conditions?.find(({ type }) => type === 'Progressing');
  const reason = problem === undefined ? progress : invalidSpec;
  if (reason === undefined) return undefined;
  const message = problem ?? progressMessage(reason, metadata.name, setName);
  if (present?.reason === reason && present.message === message) return undefined;

  const time = toKubernetesTime(now);
  const conditionStatus = problem === undefined ? progressStatus(reason) : 'False';
  const isSame = present?.status === conditionStatus;
  const lastTransitionTime = (isSame ? present.lastTransitionTime : undefined) ?? time;
  return { type: 'Progressing', status: conditionStatus, lastUpdateTime: time, lastTransitionTime, reason, message };
}

function progressStatus(reason: string): string {
  if (reason === 'DeploymentPaused' || reason === 'DeploymentResumed') return 'Unknown';
  return reason === 'ProgressDeadlineExceeded' ? 'False' : 'True';
}

/** In the words of machine-controller-manager. */
function progressMessage(reason: string, deployment: string, setName: string | undefined): string {
  if (setName !== undefined && reason === 'NewMachineSetCreated') return `Created new machine set "${setName}"`;
  if (setName !== undefined && reason === 'FoundNewMachineSet') return `Found new machine set "${setName}"`;
  const subject = setName === undefined ? `Machine Deployment "${deployment}"` : `MachineSet "${setName}"`;
  switch (reason) {
    case 'NewMachineSetAvailable':
      return `${subject} has successfully progressed.`;
    case 'ProgressDeadlineExceeded':
      return `${subject} has timed out progressing.`;
    case 'DeploymentPaused':
      return 'Deployment is paused';
    case 'DeploymentResumed':
      return 'Deployment is resumed';
    default:
      return `${subject} is progressing.`;
  }
}

/** The same for a set, whose only such condition is ReplicaFailure. */
export function withFailure(
  set: MachineSet,
  failure: ReplicaFailure | undefined,
  generation: number | undefined,
  now: Date,
): object | undefined {
  const { status } = set;
  const isTold = isSameFailure(failureOfSet(set), failure);
  if (isTold && (generation === undefined || status?.observedGeneration === generation)) return undefined;

  const others = (status?.machineSetCondition ?? []).filter(({ type }) => type !== 'ReplicaFailure');
  const machineSetCondition = failure === undefined ? others : [...others, toFailure(failure, now)];
  return {
    status: {
      ...(generation !== undefined && { observedGeneration: generation }),
      ...(!isTold && { machineSetCondition }),
    },
  };
}

function toFailure({ reason, message }: ReplicaFailure, now: Date) {
  return { type: 'ReplicaFailure', status: 'True', lastTransitionTime: toKubernetesTime(now), reason, message };
}
