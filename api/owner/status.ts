/** What the workflow of an owner writes to the status of owner and sets, besides the counts: pure. */
import type { OwnerApi } from '../dialect.ts';
import type { OwnerPlan } from '../model/owner.ts';
import { toKubernetesTime } from '../time.ts';
import {
  conditionsOfSet,
  failureOfDeployment,
  failureOfSet,
  isSameFailure,
  type ReplicaFailure,
  setRefused,
} from './failure.ts';
import type { OwnerCondition, OwnerDeployment, OwnerSet } from './objects.ts';
import { invalidSpec } from './problem.ts';

/**
 * What a deployment has to report. Progressing stays as it is where none of `progress`, `problem` and `refused` is
 * given.
 */
export interface DeploymentReport extends NonNullable<OwnerPlan['report']> {
  /** Name of the set of the current template, if there is one. */
  readonly setName?: string | undefined;
  /** Why its set could not be created. One that is late stays late: no progress is the larger problem. */
  readonly refused?: string;
  /** What ReplicaFailure says; without a failure the condition is removed. */
  readonly failure?: ReplicaFailure | undefined;
}

/**
 * A status patch that records a generation, if one is given, and updates the conditions Progressing and ReplicaFailure;
 * undefined when nothing changes.
 */
export function withReport(
  api: OwnerApi,
  deployment: OwnerDeployment,
  report: DeploymentReport,
  generation: number | undefined,
  now: Date,
): object | undefined {
  const { status } = deployment;
  const present = status?.conditions ?? [];
  const progressing = toProgressing(api, deployment, report, now);
  const isFailureCurrent = isSameFailure(failureOfDeployment(deployment), report.failure);
  const isGenerationCurrent = generation === undefined || status?.observedGeneration === generation;
  if (progressing === undefined && isFailureCurrent && isGenerationCurrent) return undefined;

  const changed = [...(progressing ? ['Progressing'] : []), ...(isFailureCurrent ? [] : ['ReplicaFailure'])];
  const failure = isFailureCurrent || report.failure === undefined ? [] : [toFailure(report.failure, now)];
  const conditions = [
    ...present.filter(({ type }) => !changed.includes(type)),
    ...(progressing ? [progressing] : []),
    ...failure.map((condition) => ({ ...condition, lastUpdateTime: condition.lastTransitionTime })),
  ];
  return {
    status: {
      ...(generation !== undefined && { observedGeneration: generation }),
      ...(changed.length > 0 && { conditions }),
    },
  };
}

/** The condition Progressing as it should be; undefined when it is. */
function toProgressing(
  { owner }: OwnerApi,
  { metadata, status }: OwnerDeployment,
  { progress, problem, refused, setName }: DeploymentReport,
  now: Date,
): OwnerCondition | undefined {
  const present = status?.conditions?.find(({ type }) => type === 'Progressing');
  const failure =
    problem === undefined
      ? refused && { reason: setRefused, message: refused }
      : { reason: invalidSpec, message: problem };
  const wanted = failure
    ? { status: 'False', ...failure }
    : progress && owner.toProgressCondition(progress, metadata.name, setName);
  if (wanted === undefined) return undefined;
  if (problem === undefined && refused !== undefined && owner.toProgress(present?.reason ?? '') === 'late')
    return undefined;
  if (present?.reason === wanted.reason && present.message === wanted.message) return undefined;

  const time = toKubernetesTime(now);
  const isSame = present?.status === wanted.status;
  const lastTransitionTime = (isSame ? present.lastTransitionTime : undefined) ?? time;
  const { status: conditionStatus, reason, message } = wanted;
  return { type: 'Progressing', status: conditionStatus, lastUpdateTime: time, lastTransitionTime, reason, message };
}

/** The same for a set, whose only such condition is ReplicaFailure. */
export function withFailure(
  api: OwnerApi,
  set: OwnerSet,
  failure: ReplicaFailure | undefined,
  generation: number | undefined,
  now: Date,
): object | undefined {
  const isCurrent = isSameFailure(failureOfSet(api, set), failure);
  if (isCurrent && (generation === undefined || set.status?.observedGeneration === generation)) return undefined;

  const others = conditionsOfSet(api, set).filter(({ type }) => type !== 'ReplicaFailure');
  const conditions = failure === undefined ? others : [...others, toFailure(failure, now)];
  return {
    status: {
      ...(generation !== undefined && { observedGeneration: generation }),
      ...(!isCurrent && { [api.owner.setConditions]: conditions }),
    },
  };
}

function toFailure({ reason, message }: ReplicaFailure, now: Date) {
  return { type: 'ReplicaFailure', status: 'True', lastTransitionTime: toKubernetesTime(now), reason, message };
}
