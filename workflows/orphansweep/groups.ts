/** The groups of a sweep, each with one view of a cloud, and the calls to their providers. */
import type { SweptClass } from '../../api/model/sweep.ts';
import { type Failure, isActivityFailure, toFailure, withProvider } from '../calls/failure.ts';
import { cloudActivities } from '../calls/provider.ts';
import type { Look } from './plan.ts';

/** Classes whose `listVms` sees the same. */
export interface Group {
  readonly provider: string;
  readonly classes: SweptClass[];
  /** Why it cannot be judged. Nothing of it is touched then. */
  failure?: Failure;
  first?: Look;
  second?: Look;
}

/** Calls to providers, or to Kubernetes, that a sweep makes at once. */
export const concurrency = 20;

/** Runs something for every item, so many at once. */
export async function inParallel<T>(items: readonly T[], run: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values();
  const runOneByOne = async () => {
    for (const item of queue) await run(item);
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, runOneByOne));
}

/** Activities of a provider, behind those that machines wait for. */
export function cloudOf(provider: string) {
  return cloudActivities(provider, { priorityKey: 5 });
}

/** What of a class goes with every request. */
export function scopeOf(swept: SweptClass) {
  return { class: swept.class, providerSpec: swept.providerSpec, credentials: [...swept.credentials] };
}

/** What came of a call to a provider: its answer, as it is, or why there is none. */
export type Outcome =
  | { readonly answer: unknown; readonly failure?: undefined }
  | { readonly answer?: undefined; readonly failure: Failure };

/** Calls a provider. */
export async function ask(provider: string, call: () => Promise<unknown>): Promise<Outcome> {
  try {
    return { answer: await call() };
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    return { failure: withProvider(toFailure(error), provider) };
  }
}

/**
 * Groups the classes by what their provider says of them. One that cannot tell, or that none of its workers answers for,
 * is a group of its own.
 */
export async function formGroups(classes: readonly SweptClass[]): Promise<Group[]> {
  const groups = new Map<string, Group>();
  await inParallel(classes, async (swept) => {
    const { provider } = swept;
    const { key, failure } = await keyOf(swept);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { provider, classes: [swept], ...(failure && { failure }) });
    else group.classes.push(swept);
  });
  const byName = (a: SweptClass, b: SweptClass) => (a.class.name < b.class.name ? -1 : 1);
  const sorted = [...groups.values()].map((group) => ({ ...group, classes: group.classes.toSorted(byName) }));
  return sorted.toSorted((a, b) => ((a.classes[0]?.class.name ?? '') < (b.classes[0]?.class.name ?? '') ? -1 : 1));
}

async function keyOf(swept: SweptClass): Promise<{ key: string; failure?: Failure }> {
  const { provider, uid } = swept;
  const alone = { key: `class ${uid}` };
  if (provider === '') return { ...alone, failure: noProvider };
  const { answer, failure } = await ask(provider, () => cloudOf(provider).validateClass(scopeOf(swept)));
  if (failure?.blockedOn === 'ProviderWorker') return { key: `no worker ${provider}`, failure };
  const { listScope }: { listScope?: unknown } = Object(answer);
  return typeof listScope === 'string' && listScope !== '' ? { key: `scope ${provider} ${listScope}` } : alone;
}

const noProvider: Failure = {
  code: 'InvalidArgument',
  message: 'provider is empty: set it to the name of a provider',
  outcomeUnknown: false,
  blockedOn: 'Class',
};
