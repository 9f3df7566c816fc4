/** Which machines a rollout waits for, and why each of them is not there, or is there still: pure. */
import { failures, isFailureCode } from '../failures.ts';
import type { LastOperation } from '../gardener/schema/common.ts';
import type { Machine } from '../gardener/schema/machine.ts';
import type { MachineDeployment } from '../gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../gardener/schema/machine-set.ts';
import type { RolloutBlockers } from '../model/owner.ts';
import type { Blocker } from '../names.ts';
import { failureOfSets } from './failure.ts';
import { controllerOf, currentSetOf, groupByController, isActive, isAvailable, isClosed } from './view.ts';

/** Machines that are named at most, and characters of what each says. */
const maxNamed = 20;
const maxReasonLength = 200;

/** What the rollout of a deployment waits for: its machines that do not run, and those that are on their way out. */
export function findBlockers(
  deployment: MachineDeployment,
  sets: readonly MachineSet[],
  machines: readonly Machine[],
): RolloutBlockers {
  const own = sets.filter((set) => controllerOf(set) === deployment.metadata.uid);
  const bySet = groupByController(machines);
  const holding = own
    .flatMap((set) => bySet.get(set.metadata.uid) ?? [])
    .filter((machine) => !isActive(machine) || !isAvailable(machine))
    .toSorted(byAge);
  const problem = problemOf(deployment, own);
  const blockedOn = commonest(holding.map(blockerOf)) ?? (problem === undefined ? 'Rollout' : 'KubernetesApi');
  return {
    count: holding.length,
    machines: holding.slice(0, maxNamed).map((machine) => ({ name: machine.metadata.name, reason: reasonOf(machine) })),
    ...(problem !== undefined && { problem }),
    blockedOn,
  };
}

function reasonOf({ metadata, status }: Machine): string {
  const phase = metadata.deletionTimestamp === undefined ? status?.currentStatus?.phase || 'new' : 'Terminating';
  const operation = status?.lastOperation ?? {};
  const said = operationText(operation);
  const text = said === '' ? phase : `${phase}${codeOf(operation) === undefined ? ': ' : ', '}${said}`;
  return text.length > maxReasonLength ? `${text.slice(0, maxReasonLength - 1)}…` : text;
}

/** A refusal of a cloud in the words of machine-controller-manager. */
const refusal = /(?:Cloud provider message - )?machine codes error: code = \[(\w+)\] message = \[(.*)\]/s;

/** What an operation of a machine says, on one line: `<code>: <words>` where it was refused, and the code once. */
export function operationText(operation: LastOperation): string {
  const { description = '' } = operation;
  const words = description.replace(refusal, (_all, _code, message: string) => message).replaceAll(/\s+/g, ' ');
  return [codeOf(operation), words].filter(Boolean).join(': ');
}

/** Code of an operation that was refused. A deletion tells its code in words alone. */
function codeOf({ description = '', errorCode, state }: LastOperation): string | undefined {
  return state === 'Failed' ? errorCode || refusal.exec(description)?.[1] : undefined;
}

function problemOf(deployment: MachineDeployment, own: readonly MachineSet[]): string | undefined {
  const current = currentSetOf(deployment, own);
  const failure = failureOfSets(own, current);
  if (failure !== undefined) return `${failure.reason}: ${failure.message}`.slice(0, maxReasonLength);
  if (current === undefined || !isClosed(current, deployment)) return undefined;
  return `no machine may be created in MachineSet ${current.metadata.name}, as it or its deployment is frozen`;
}

function blockerOf({ metadata, spec, status }: Machine): Blocker {
  const code = codeOf(status?.lastOperation ?? {});
  if (isFailureCode(code)) return failures[code].blockedOn;
  if (metadata.deletionTimestamp !== undefined) return 'Drain';
  const phase = status?.currentStatus?.phase;
  if (phase === 'Unknown' || phase === 'Failed') return 'NodeHealth';
  return spec?.providerID === undefined ? 'Rollout' : 'NodeJoin';
}

function commonest(blockers: readonly Blocker[]): Blocker | undefined {
  const counts = new Map<Blocker, number>();
  for (const blocker of blockers) counts.set(blocker, (counts.get(blocker) ?? 0) + 1);
  return [...counts].toSorted(([, a], [, b]) => b - a)[0]?.[0];
}

function byAge(a: Machine, b: Machine): number {
  const [first = '', second = ''] = [a, b].map(({ metadata }) => `${metadata.creationTimestamp} ${metadata.name}`);
  return first < second ? -1 : 1;
}
