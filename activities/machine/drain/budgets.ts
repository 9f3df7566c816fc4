/** Which PodDisruptionBudget has refused an eviction, and whether it ever allows one. */
import type { KubeClient } from '../../../kube/client.ts';
import { type PodDisruptionBudget, podDisruptionBudgets, pods } from '../../../kube/core.ts';
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

/**
 * Says why a budget never allows an eviction, where it does not, and names several.
 * @param blockedBy `<namespace>/<budgetOf>`
 */
export async function explain(
  target: KubeClient,
  blockedBy: string,
  nodeName: string,
  signal: AbortSignal,
): Promise<Blocker> {
  const [namespace = '', name = ''] = blockedBy.split('/');
  if (name === severalBudgets) {
    const found = await findSeveral(target, namespace, nodeName, signal);
    return { budget: found.join(' and ') || blockedBy, mistake: several };
  }
  const budget = await target.find(podDisruptionBudgets, { namespace, name }, { signal });
  const isMistake = budget !== undefined && neverAllows(budget);
  return { budget: blockedBy, ...(isMistake && { mistake: misconfigured }) };
}

/** `<namespace>/<name>` of the budgets of the first pod of a node that has more than one. */
async function findSeveral(
  target: KubeClient,
  namespace: string,
  nodeName: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const fieldSelector = `spec.nodeName=${nodeName}`;
  const { items: budgets } = await target.list(podDisruptionBudgets, { namespace, signal });
  const { items } = await target.list(pods, { namespace, fieldSelector, signal });
  for (const { metadata } of items) {
    const own = budgets.filter(({ spec }) => isSelected(spec?.selector, metadata.labels));
    if (own.length > 1) return own.map((each) => `${namespace}/${each.metadata.name}`);
  }
  return [];
}

type Selector = NonNullable<PodDisruptionBudget['spec']>['selector'];

/** Whether a label selector of Kubernetes selects an object with these labels. An empty one selects all, none nothing. */
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
