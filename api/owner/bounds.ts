/** How far the number of machines may be from spec.replicas: pure. */
import type { OwnerApi } from '../dialect.ts';
import type { UpdateStrategy } from '../model/owner.ts';
import { names } from '../names.ts';
import type { OwnerDeployment, StrategyBounds } from './objects.ts';

/** Bounds of a deployment's strategy, in machines. */
export interface Bounds {
  /** Machines that may exist above replicas. */
  readonly maxSurge: number;
  /** Machines that may be missing: at least 1 where maxSurge is 0, and never more than replicas. */
  readonly maxUnavailable: number;
}

/** RollingUpdate for a type that does not exist: that is a problem of the spec, and nothing is done. */
export function strategyOf({ owner }: OwnerApi, { spec }: OwnerDeployment): UpdateStrategy {
  return owner.strategies[spec?.strategy?.type ?? '']?.strategy ?? 'RollingUpdate';
}

/**
 * The block of the strategy with the bounds, and its name in spec.strategy; undefined for a strategy without bounds.
 */
export function boundsBlockOf(
  { owner }: OwnerApi,
  { spec }: OwnerDeployment,
): { readonly name: string; readonly block: StrategyBounds } | undefined {
  const name = owner.strategies[spec?.strategy?.type ?? '']?.bounds;
  if (name === undefined) return undefined;
  const blocks = (spec?.strategy ?? {}) as Readonly<Record<string, StrategyBounds | undefined>>;
  return { name, block: blocks[name] ?? {} };
}

/** Whether people select the machines that are updated in place. */
export function selectsManually(api: OwnerApi, deployment: OwnerDeployment): boolean {
  return strategyOf(api, deployment) === 'InPlace' && api.owner.inPlaceUpdate?.selectsManually(deployment) === true;
}

/**
 * As in Kubernetes: percentages of maxSurge round up, those of maxUnavailable down. As in MCM there is no surge where
 * people select the machines.
 */
export function boundsOf(api: OwnerApi, deployment: OwnerDeployment): Bounds {
  const { block = {} } = boundsBlockOf(api, deployment) ?? {};
  const replicas = deployment.spec?.replicas ?? 0;
  const maxSurge = selectsManually(api, deployment) ? 0 : resolve(block.maxSurge, replicas, Math.ceil);
  const unavailable = resolve(block.maxUnavailable, replicas, Math.floor);
  const isStuck = maxSurge === 0 && unavailable === 0;
  return { maxSurge, maxUnavailable: Math.min(isStuck ? 1 : unavailable, replicas) };
}

/**
 * Values of the annotation that says when a rollout replaces a machine, in the words of Kubernetes'
 * `podReplacementPolicy`.
 */
export const replacementPolicies = ['TerminationStarted', 'TerminationComplete'] as const;

/** Whether a rollout creates a machine as soon as another one is being deleted, or not before it is gone. */
export function replacementPolicyOf({ metadata }: OwnerDeployment): (typeof replacementPolicies)[number] {
  const value = metadata.annotations?.[names.replacementPolicy];
  return replacementPolicies.find((each) => each === value) ?? 'TerminationStarted';
}

/** What is wrong with the annotation, with the value and the fix; undefined when nothing is. */
export function problemOfReplacementPolicy({ metadata }: OwnerDeployment): string | undefined {
  const value = metadata.annotations?.[names.replacementPolicy];
  if (value === undefined || replacementPolicies.some((each) => each === value)) return undefined;
  const key = `metadata.annotations['${names.replacementPolicy}']`;
  return `${key} is '${value}': set it to ${replacementPolicies.join(' or ')}, or remove it`;
}

function resolve(value: number | string | undefined, replicas: number, round: (x: number) => number): number {
  if (typeof value !== 'string') return value ?? 0;
  return isPercentage(value) ? round((replicas * Number.parseInt(value, 10)) / 100) : 0;
}

/** Whether a string is a percentage such as '25%'. */
export function isPercentage(text: string): boolean {
  return /^[0-9]+%$/.test(text);
}

/**
 * Annotations of a set that announce what its deployment asks for. As in MCM only a rolling update has a surge there.
 * @param announced see `replicasToAnnounce`
 */
export function replicasAnnotations(
  api: OwnerApi,
  deployment: OwnerDeployment,
  announced = deployment.spec?.replicas ?? 0,
) {
  const { desiredReplicas, maxReplicas } = api.owner.keys;
  const isRolling = strategyOf(api, deployment) === 'RollingUpdate';
  const most = (deployment.spec?.replicas ?? 0) + (isRolling ? boundsOf(api, deployment).maxSurge : 0);
  return { [desiredReplicas]: String(announced), [maxReplicas]: String(most) };
}
