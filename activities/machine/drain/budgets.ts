/** Which PodDisruptionBudget has refused an eviction, and whether it ever allows one. */
import type { KubeClient } from '../../../kube/client.ts';
import { type Pod, type PodDisruptionBudget, podDisruptionBudgets } from '../../../kube/core.ts';
import { isTooManyRequests, StatusError } from '../../../kube/errors.ts';

/** A budget that refuses evictions. */
export interface Blocker {
  /** `<namespace>/<name>`, or two with ` and `. */
  readonly budget: string;
  /** Why it never allows any as it is, for people; left out where it may. */
  readonly mistake?: string;
}

/** Stands for several budgets, which the API server does not name. */
const severalBudgets = '(several)';

/** Name of the budget that has refused an eviction. The API server names it in a text alone. */
export function budgetOf(error: unknown): string | undefined {
  const isOfSeveral = error instanceof StatusError && /more than one PodDisruptionBudget/i.test(error.message);
  if (isOfSeveral) return severalBudgets;
  if (!isTooManyRequests(error) || !(error instanceof StatusError)) return undefined;
  const cause = error.status.details?.causes?.find(({ reason }) => reason === 'DisruptionBudget');
  return cause && (/disruption budget (\S+)/i.exec(cause.message ?? '')?.[1] ?? '(not named)');
}

/** A pod that a budget keeps. */
export interface RefusedPod {
  readonly pod: Pod;
  /** `<namespace>/<budgetOf>`. */
  readonly budget: string;
}

/** The first budget that never allows an eviction as it is, and why; where each may, the first of all. */
export async function explain(
  target: KubeClient,
  refused: readonly RefusedPod[],
  signal: AbortSignal,
): Promise<Blocker | undefined> {
  const asked = new Set<string>();
  let first: Blocker | undefined;
  for (const each of refused) {
    if (asked.has(each.budget)) continue;
    asked.add(each.budget);
    const blocker = await explainOne(target, each, signal);
    if (blocker.mistake !== undefined) return blocker;
    first ??= blocker;
  }
  return first;
}

async function explainOne(
  target: KubeClient,
  { pod: { metadata }, budget: blockedBy }: RefusedPod,
  signal: AbortSignal,
): Promise<Blocker> {
  const [namespace = '', name = ''] = blockedBy.split('/');
  if (name === severalBudgets) {
    const { items } = await target.list(podDisruptionBudgets, { namespace, signal });
    const own = items.filter(({ spec }) => isSelected(spec?.selector, metadata.labels));
    const found = own.map((each) => `${namespace}/${each.metadata.name}`);
    return { budget: found.join(' and ') || blockedBy, mistake: several };
  }
  const budget = await target.find(podDisruptionBudgets, { namespace, name }, { signal });
  const isMistake = budget !== undefined && neverAllows(budget);
  return { budget: blockedBy, ...(isMistake && { mistake: misconfigured }) };
}

type Selector = NonNullable<PodDisruptionBudget['spec']>['selector'];

/**
 * Whether a label selector of Kubernetes selects an object with these labels. An empty one selects all, none nothing.
 */
function isSelected(selector: Selector, labels: Readonly<Record<string, string>> = {}): boolean {
  if (selector === undefined) return false;
  const { matchLabels = {}, matchExpressions = [] } = selector;
  return (
    Object.entries(matchLabels).every(([key, value]) => labels[key] === value) &&
    matchExpressions.every(({ key, operator, values = [] }) => {
      const value = labels[key];
      if (operator === 'Exists' || operator === 'DoesNotExist')
        return (value !== undefined) === (operator === 'Exists');
      return (value !== undefined && values.includes(value)) === (operator === 'In');
    })
  );
}

const several = 'the pod has more than one, with which the Eviction API refuses every eviction: leave it one';
const misconfigured =
  'it requires zero voluntary evictions: all of its pods are healthy, and it lets none of them go. Allow one, or add replicas';

/** By MCM's rule: nothing that it waits for can make it allow an eviction. */
function neverAllows({ metadata, status }: PodDisruptionBudget): boolean {
  if (status === undefined || status.observedGeneration !== metadata.generation) return false;
  const { expectedPods = 0, currentHealthy = 0, disruptionsAllowed, disruptedPods = {} } = status;
  const isSteady = expectedPods > 0 && currentHealthy >= expectedPods && Object.keys(disruptedPods).length === 0;
  return isSteady && disruptionsAllowed === 0;
}
