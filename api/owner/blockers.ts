/** Which machines a rollout waits for, and why: pure. */
import type { OwnerApi, OwnerApiAt } from '../dialect.ts';
import { failures, isFailureCode } from '../failures.ts';
import type { RolloutBlockers } from '../model/owner.ts';
import type { Blocker } from '../names.ts';
import type { KubeObject } from '../objects.ts';
import { isAvailable, minReadySecondsOf } from './availability.ts';
import { attemptsText, recordedAttempts } from './failed-attempts.ts';
import { refusalOf } from './failure.ts';
import { isActive } from './machines.ts';
import type { OwnerDeployment, OwnerSet } from './objects.ts';
import { controllerOf, groupByController } from './ownership.ts';
import { newSetAmong } from './view.ts';
import { frozenText } from './waits.ts';

/** Most machines that are named, and most characters of each reason. */
const maxNamed = 20;
const maxReasonLength = 200;

/** What the rollout of a deployment waits for: machines that are not available, and machines that are being deleted. */
export function findBlockers(
  api: OwnerApiAt,
  deployment: OwnerDeployment,
  sets: readonly OwnerSet[],
  machines: readonly KubeObject[],
): RolloutBlockers {
  const own = sets.filter((set) => controllerOf(set) === deployment.metadata.uid);
  const bySet = groupByController(machines);
  const blocking = own
    .flatMap((set) => (bySet.get(set.metadata.uid) ?? []).map((machine) => ({ set, machine })))
    .filter(({ set, machine }) => !isActive(api, machine) || !isAvailable(api, machine, minReadySecondsOf(set)))
    .toSorted((a, b) => byAge(a.machine, b.machine));
  const problem = problemOf(api, deployment, own);
  const causes = blocking.map(({ machine }) => blockerOf(api, machine));
  const blockedOn = mostFrequent(causes) ?? problem?.blockedOn ?? 'Rollout';
  return {
    count: blocking.length,
    machines: blocking
      .slice(0, maxNamed)
      .map(({ set, machine }) => ({ name: machine.metadata.name, reason: reasonOf(api, set, machine) })),
    ...(problem !== undefined && { problem: problem.text }),
    blockedOn,
  };
}

function reasonOf(api: OwnerApiAt, set: OwnerSet, machine: KubeObject): string {
  const { machines } = api.owner;
  const phase = machines.phaseOf(machine) || 'new';
  if (isActive(api, machine) && isAvailable(api, machine)) {
    return `${phase}, for less than the ${minReadySecondsOf(set)} s of minReadySeconds`;
  }
  const { code, waitsFor, text: said } = machines.operationOf(machine);
  // What an unhealthy machine says of its Node is more than that it waits for it.
  const isNamed = waitsFor !== undefined && machines.stageOf(machine) !== 'unhealthy';
  const text = isNamed ? `waits for ${waitsFor}` : said;
  const reason = text === '' ? phase : `${phase}${code === undefined ? ': ' : ', '}${text}`;
  return reason.length > maxReasonLength ? `${reason.slice(0, maxReasonLength - 1)}…` : reason;
}

interface Problem {
  readonly text: string;
  readonly blockedOn: Blocker;
}

function problemOf(api: OwnerApi, deployment: OwnerDeployment, own: readonly OwnerSet[]): Problem | undefined {
  const newSet = newSetAmong(api, deployment, own);
  const failure = refusalOf(api, deployment, own, newSet);
  if (failure !== undefined) {
    const text = `${failure.reason}: ${failure.message}`.slice(0, maxReasonLength);
    return { text, blockedOn: 'KubernetesApi' };
  }
  if (newSet === undefined) return undefined;
  const attempts = recordedAttempts(api, newSet, deployment.spec?.replicas ?? 0);
  const paused = attempts && attemptsText(newSet.metadata.name, attempts);
  if (paused !== undefined) return { text: paused, blockedOn: 'Rollout' };
  if (!api.owner.isClosed(newSet, deployment)) return undefined;
  return { text: frozenText(newSet.metadata.name), blockedOn: 'Freeze' };
}

function blockerOf({ owner }: OwnerApi, machine: KubeObject): Blocker {
  const { code } = owner.machines.operationOf(machine);
  if (isFailureCode(code)) return failures[code].blockedOn;
  if (machine.metadata.deletionTimestamp !== undefined) return 'Drain';
  const stage = owner.machines.stageOf(machine);
  if (stage === 'unhealthy' || stage === 'failed') return 'NodeHealth';
  return owner.machines.hasVm(machine) ? 'NodeJoin' : 'Rollout';
}

function mostFrequent(blockers: readonly Blocker[]): Blocker | undefined {
  const counts = new Map<Blocker, number>();
  for (const blocker of blockers) counts.set(blocker, (counts.get(blocker) ?? 0) + 1);
  return [...counts].toSorted(([, a], [, b]) => b - a)[0]?.[0];
}

function byAge(a: KubeObject, b: KubeObject): number {
  const [first = '', second = ''] = [a, b].map(({ metadata }) => `${metadata.creationTimestamp} ${metadata.name}`);
  return first < second ? -1 : 1;
}
