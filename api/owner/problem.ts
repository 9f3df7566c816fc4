/**
 * Why nothing may be done for an owner of machines: pure. Our CRDs refuse such objects; those of
 * machine-controller-manager accept them, and it passes them over with a line in its log.
 */

import { orchestrationTypes, strategies } from '../gardener/names.ts';
import type { MachineDeployment } from '../gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../gardener/schema/machine-set.ts';
import { isPercentage } from './bounds.ts';

/** Reason of the condition that tells a problem: Progressing of a deployment, ReplicaFailure of a set. */
export const invalidSpec = 'InvalidSpec';

/** What is wrong with the spec of a deployment, with the field and the fix; undefined when nothing is. */
export function problemOfDeployment({ spec }: MachineDeployment): string | undefined {
  return problemOfSpec(spec) ?? problemOfStrategy(spec?.strategy ?? {});
}

/** The same for a set. */
export function problemOfSet({ spec }: MachineSet): string | undefined {
  return problemOfSpec(spec);
}

/** The problem that the status of an owner tells; undefined when it tells none. */
export function toldProblem({ status }: WithConditions): string | undefined {
  const { conditions = [], machineSetCondition = [] } = status ?? {};
  return [...conditions, ...machineSetCondition].find(({ reason }) => reason === invalidSpec)?.message;
}

/** A deployment, which has the one list, or a set, which has the other. */
interface WithConditions {
  readonly status?: { readonly conditions?: Conditions; readonly machineSetCondition?: Conditions } | undefined;
}
type Conditions =
  | readonly { readonly reason?: string | undefined; readonly message?: string | undefined }[]
  | undefined;

function problemOfSpec(spec: MachineSet['spec']): string | undefined {
  const { replicas = 0, selector, template } = spec ?? {};
  if (replicas < 0) return `spec.replicas is ${replicas}: set it to 0 or more`;

  const matchLabels = Object.entries(selector?.matchLabels ?? {});
  if (matchLabels.length + (selector?.matchExpressions ?? []).length === 0) {
    return 'spec.selector is missing or selects everything: set matchLabels to labels that spec.template has';
  }
  const labels = template?.metadata?.labels ?? {};
  if (Object.keys(labels).length === 0) {
    return 'spec.template.metadata.labels is empty: set it to the labels that spec.selector asks for';
  }
  const stray = matchLabels.find(([key, value]) => labels[key] !== value);
  if (stray !== undefined) {
    return `spec.selector.matchLabels has ${stray.join('=')}, spec.template.metadata.labels has not: add it there`;
  }
  const { kind, name } = template?.spec?.class ?? {};
  if (!kind) return 'spec.template.spec.class.kind is missing: set it to MachineClass';
  if (!name) return 'spec.template.spec.class.name is missing: set it to the name of a MachineClass';
  return undefined;
}

type Strategy = NonNullable<NonNullable<MachineDeployment['spec']>['strategy']>;

function problemOfStrategy({ type = '', rollingUpdate, inPlaceUpdate }: Strategy): string | undefined {
  if (!Object.hasOwn(strategies, type)) {
    return `spec.strategy.type is '${type}': set it to one of ${Object.keys(strategies).join(', ')}`;
  }
  if (type === 'RollingUpdate') return problemOfBounds('rollingUpdate', rollingUpdate ?? {});
  if (type !== 'InPlaceUpdate') return undefined;
  const orchestration = inPlaceUpdate?.orchestrationType ?? '';
  if (!Object.hasOwn(orchestrationTypes, orchestration)) {
    const known = Object.keys(orchestrationTypes).join(', ');
    return `spec.strategy.inPlaceUpdate.orchestrationType is '${orchestration}': set it to one of ${known}`;
  }
  return problemOfBounds('inPlaceUpdate', inPlaceUpdate ?? {});
}

function problemOfBounds(block: string, bounds: NonNullable<Strategy['rollingUpdate']>): string | undefined {
  for (const field of ['maxUnavailable', 'maxSurge'] as const) {
    const value = bounds[field] ?? '';
    if (typeof value === 'number' ? value >= 0 : isPercentage(value)) continue;
    return `spec.strategy.${block}.${field} is '${value}': set it to 0 or more, or to a percentage such as '25%'`;
  }
  return undefined;
}
