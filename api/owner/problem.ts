/** Why nothing may be done for an owner of machines: pure. Our CRDs refuse such objects; other CRDs may accept them. */
import type { OwnerApi } from '../dialect.ts';
import { problemOfMinReadySeconds } from './availability.ts';
import { boundsBlockOf, isPercentage, problemOfReplacementPolicy } from './bounds.ts';
import { problemOfLimits } from './limits.ts';
import type { OwnerCondition, OwnerDeployment, OwnerSet, StrategyBounds } from './objects.ts';
import { problemOfRollback } from './rollback.ts';

/** Reason of the condition that reports a problem: Progressing of a deployment, ReplicaFailure of a set. */
export const invalidSpec = 'InvalidSpec';

/** What is wrong with the spec of a deployment, with the field and the fix; undefined when nothing is. */
export function problemOfDeployment(api: OwnerApi, deployment: OwnerDeployment): string | undefined {
  return problemOfSpec(api, deployment.spec) ?? problemOfStrategy(api, deployment) ?? problemOfAnnotations(deployment);
}

function problemOfAnnotations(deployment: OwnerDeployment): string | undefined {
  return (
    problemOfLimits(deployment) ??
    problemOfRollback(deployment) ??
    problemOfReplacementPolicy(deployment) ??
    problemOfMinReadySeconds(deployment)
  );
}

/** The same for a set. */
export function problemOfSet(api: OwnerApi, set: OwnerSet): string | undefined {
  return problemOfSpec(api, set.spec) ?? problemOfLimits(set) ?? problemOfMinReadySeconds(set);
}

/** The problem that the conditions report; undefined when they report none. */
export function reportedProblem(conditions: readonly OwnerCondition[] = []): string | undefined {
  return conditions.find(({ reason }) => reason === invalidSpec)?.message;
}

function problemOfSpec({ owner }: OwnerApi, spec: OwnerSet['spec']): string | undefined {
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
  return owner.template.problemOf(template?.spec);
}

function problemOfStrategy(api: OwnerApi, deployment: OwnerDeployment): string | undefined {
  const { strategies } = api.owner;
  const { strategy = {} } = deployment.spec ?? {};
  const { type = '' } = strategy;
  if (!Object.hasOwn(strategies, type)) {
    return `spec.strategy.type is '${type}': set it to one of ${Object.keys(strategies).join(', ')}`;
  }
  const found = boundsBlockOf(api, deployment);
  return api.owner.problemOfStrategy(strategy) ?? (found && problemOfBounds(found.name, found.block));
}

function problemOfBounds(name: string, block: StrategyBounds): string | undefined {
  for (const field of ['maxUnavailable', 'maxSurge'] as const) {
    const value = block[field] ?? '';
    if (typeof value === 'number' ? value >= 0 : isPercentage(value)) continue;
    return `spec.strategy.${name}.${field} is '${value}': set it to 0 or more, or to a percentage such as '25%'`;
  }
  return undefined;
}
