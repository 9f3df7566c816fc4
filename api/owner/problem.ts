/** Why nothing may be done for an owner of machines: pure. Our CRDs refuse such objects; other CRDs may accept them. */
import type { OwnerApi } from '../dialect.ts';
import { problemsOfAnnotations, problemsOfFinalizers, problemsOfLabels } from '../metadata-rules.ts';
import { problemOfMinReadySeconds } from './availability.ts';
import { boundsBlockOf, isPercentage, problemOfReplacementPolicy } from './bounds.ts';
import { problemOfLimits } from './limits.ts';
import type { OwnerCondition, OwnerDeployment, OwnerSet, OwnerTemplate, StrategyBounds } from './objects.ts';
import { problemOfRollback } from './rollback.ts';
import { finalizersOf } from './template.ts';

/** Reason of the condition that reports a problem: Progressing of a deployment, ReplicaFailure of a set. */
export const invalidSpec = 'InvalidSpec';

/**
 * All that is wrong with the spec of a deployment, each with the field and the fix; undefined when nothing is.
 * @param own its sets: see `TemplateDialect.problemOf`
 */
export function problemOfDeployment(
  api: OwnerApi,
  deployment: OwnerDeployment,
  own: readonly OwnerSet[],
): string | undefined {
  const existing = own.map(({ spec }) => spec?.template?.spec);
  return textOf([
    problemOfName(deployment),
    ...problemsOfSpec(api, deployment.spec, existing),
    problemOfStrategy(api, deployment),
    problemOfLimits(deployment),
    problemOfRollback(deployment),
    problemOfReplacementPolicy(deployment),
    problemOfMinReadySeconds(deployment),
  ]);
}

/** Most problems that a text names. */
const maxNamed = 10;

function textOf(found: readonly (string | undefined)[]): string | undefined {
  const problems = found.filter((problem) => problem !== undefined);
  const more = problems.length - maxNamed;
  return [...problems.slice(0, maxNamed), ...(more > 0 ? [`and ${more} more`] : [])].join('; ') || undefined;
}

/** Most characters of the name of an object, and those that a set has besides the name of its deployment. */
const maxNameLength = 253;
const setSuffixLength = 6;

/** Names of machines are cut to their length, those of sets are not. */
function problemOfName({ metadata: { name } }: OwnerDeployment): string | undefined {
  const most = maxNameLength - setSuffixLength;
  if (name.length <= most) return undefined;
  return `metadata.name has ${name.length} characters, and ${most} is the most for the names of its MachineSets: choose a shorter one`;
}

/** The same for a set. */
export function problemOfSet(api: OwnerApi, set: OwnerSet): string | undefined {
  return textOf([
    ...problemsOfSpec(api, set.spec, [set.spec?.template?.spec]),
    problemOfLimits(set),
    problemOfMinReadySeconds(set),
  ]);
}

/** The problem that the conditions report; undefined when they report none. */
export function reportedProblem(conditions: readonly OwnerCondition[] = []): string | undefined {
  return conditions.find(({ reason }) => reason === invalidSpec)?.message;
}

function problemsOfSpec(
  { owner }: OwnerApi,
  spec: OwnerSet['spec'],
  existing: readonly (object | undefined)[],
): (string | undefined)[] {
  const { replicas = 0, template } = spec ?? {};
  return [
    replicas < 0 ? `spec.replicas is ${replicas}: set it to 0 or more` : undefined,
    problemOfSelector(spec),
    ...problemsOfMetadata(template),
    owner.template.problemOf(template?.spec, existing),
  ];
}

function problemOfSelector({ selector, template }: NonNullable<OwnerSet['spec']> = {}): string | undefined {
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
  return undefined;
}

/** What sets and machines of a template get, and what an API server would refuse of that. */
function problemsOfMetadata(template: OwnerTemplate | undefined): string[] {
  const { labels = {}, annotations = {} } = template?.metadata ?? {};
  const path = 'spec.template.metadata';
  return [
    ...problemsOfLabels(labels, `${path}.labels`),
    ...problemsOfAnnotations(annotations, `${path}.annotations`),
    ...problemsOfFinalizers(finalizersOf(template), `${path}.finalizers`),
  ];
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
