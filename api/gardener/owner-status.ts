/** What the workflow of an owner writes about owner and sets, beside the counts: pure. */
import type { OwnerPlan } from '../model.ts';
import type { MachineDeployment } from './machine-deployment.ts';
import type { MachineSet } from './machine-set.ts';
import { annotations } from './names.ts';
import { invalidSpec, toldProblem } from './problem.ts';
import { toKubernetesTime } from './to-model.ts';

type Report = NonNullable<OwnerPlan['report']>;

/**
 * A status patch that takes note of a generation and brings the condition Progressing up to date; undefined when both
 * are there.
 */
export function withProgress(
  deployment: MachineDeployment,
  { progress, problem }: Report,
  generation: number,
  now: Date,
): object | undefined {
  const { metadata, status } = deployment;
  const conditions = status?.conditions ?? [];
  const present = conditions.find(({ type }) => type === 'Progressing');
  const reason = problem === undefined ? progress : invalidSpec;
  const message = problem ?? `The rollout of MachineDeployment "${metadata.name}": ${reason}.`;
  const isTold = reason === undefined || (present?.reason === reason && present.message === message);
  if (isTold && status?.observedGeneration === generation) return undefined;

  const time = toKubernetesTime(now);
  const conditionStatus = problem === undefined ? 'True' : 'False';
  const progressing = {
    type: 'Progressing',
    status: conditionStatus,
    lastUpdateTime: time,
    lastTransitionTime: present?.status === conditionStatus ? present.lastTransitionTime : time,
    reason,
    message,
  };
  const others = conditions.filter(({ type }) => type !== 'Progressing');
  return { status: { observedGeneration: generation, ...(!isTold && { conditions: [...others, progressing] }) } };
}

/** The same for a set: its condition ReplicaFailure tells a problem, and is gone when there is none. */
export function withProblem(
  { status }: MachineSet,
  problem: string | undefined,
  generation: number,
  now: Date,
): object | undefined {
  const conditions = status?.machineSetCondition ?? [];
  const isTold = toldProblem({ status }) === problem;
  if (isTold && status?.observedGeneration === generation) return undefined;

  const others = conditions.filter(
    ({ type, reason }) => reason !== invalidSpec && (problem === undefined || type !== 'ReplicaFailure'),
  );
  const lastTransitionTime = toKubernetesTime(now);
  const failure = { type: 'ReplicaFailure', status: 'True', lastTransitionTime, reason: invalidSpec, message: problem };
  const machineSetCondition = problem === undefined ? others : [...others, failure];
  return { status: { observedGeneration: generation, ...(!isTold && { machineSetCondition }) } };
}

/** A patch that gives the deployment the revision of its present set; undefined when it has it. */
export function withRevision({ metadata }: MachineDeployment, current: MachineSet | undefined): object | undefined {
  const revision = current?.metadata.annotations?.[annotations.revision];
  if (revision === undefined || metadata.annotations?.[annotations.revision] === revision) return undefined;
  return { metadata: { annotations: { [annotations.revision]: revision } } };
}
