/** The groups of a sweep, each with one view of a cloud, and the calls to their providers. */
import type { SourceObject, SweptSource } from '../../api/model/sweep.ts';
import { providerKey } from '../../api/names.ts';
import { type Failure, isActivityFailure, toFailure, withProvider } from '../calls/failure.ts';
import { inParallel } from '../calls/parallel.ts';
import { cloudActivities } from '../calls/provider.ts';
import type { Look, Orphan } from './plan.ts';

/** Sources whose `listVms` sees the same. */
export interface Group {
  readonly provider: string;
  /** At least one; the first stands for all in calls. */
  readonly sources: [SweptSource, ...SweptSource[]];
  /** Why it cannot be judged. Nothing of it is touched then. */
  failure?: Failure;
  first?: Look;
  second?: Look;
  /** Left out until something of it is to be deleted. */
  removal?: Removal;
}

/** What became of the orphans of a group. */
export interface Removal {
  readonly deleted: Orphan[];
  /** The cloud has accepted and is not done. */
  readonly deleting: Orphan[];
  /** They have a Machine again. */
  readonly cameBack: Orphan[];
  /** By now something says that they are healthy. */
  readonly doubtful: Orphan[];
  readonly failed: { readonly orphan: Orphan; readonly failure: Failure }[];
}

/** Activities of a provider, behind those that machines wait for. */
export function cloudOf(provider: string) {
  return cloudActivities(provider, { priorityKey: 5 });
}

/** What of a source goes with every request. */
export function scopeOf({ origin, providerSpec, credentials }: SweptSource) {
  return { ...(origin && { origin }), providerSpec, credentials: [...credentials] };
}

/**
 * Where Events about what a group has go: to a source that is not being deleted, and of these to the one that has lost a
 * Machine last. Else to the first by name.
 */
export function reportedOn({ sources }: Group): SourceObject {
  return sources.reduce((best, each) => (isPreferred(each, best) ? each : best)).object;
}

function isPreferred(a: SweptSource, b: SweptSource): boolean {
  if ((a.release === undefined) !== (b.release === undefined)) return a.release === undefined;
  return (a.lostAt ?? '') > (b.lostAt ?? '');
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
 * Groups the sources by what their provider says of them. A source without a scope, or whose provider has no worker
 * that answers, is a group of its own.
 * @param onAsking called with the providers that have not answered for all of their sources, at each change
 */
export async function formGroups(
  sources: readonly SweptSource[],
  onAsking: (providers: readonly string[]) => void,
): Promise<Group[]> {
  const groups = new Map<string, Group>();
  const left = new Map<string, number>();
  for (const { provider } of sources) left.set(provider, (left.get(provider) ?? 0) + 1);
  onAsking([...left.keys()]);
  await inParallel(sources, async (source) => {
    const { provider } = source;
    const { key, failure } = await keyOf(source);
    left.set(provider, (left.get(provider) ?? 0) - 1);
    if (left.get(provider) === 0 && left.delete(provider)) onAsking([...left.keys()]);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { provider, sources: [source], ...(failure && { failure }) });
    else group.sources.push(source);
  });
  for (const { sources: members } of groups.values()) members.sort(byName);
  return [...groups.values()].toSorted((a, b) => byName(a.sources[0], b.sources[0]));
}

function byName(a: SweptSource, b: SweptSource): number {
  return a.object.name < b.object.name ? -1 : 1;
}

async function keyOf(source: SweptSource): Promise<{ key: string; failure?: Failure }> {
  const { provider, object, problem } = source;
  const alone = { key: `source ${object.uid}` };
  if (problem !== undefined) return { ...alone, failure: ofSource(problem) };
  if (provider === '') return { ...alone, failure: ofSource('provider is empty: set it to the name of a provider') };
  const { answer, failure } = await ask(provider, () => cloudOf(provider).validateClass(scopeOf(source)));
  if (failure?.blockedOn === 'ProviderWorker') return { key: `no worker ${providerKey(provider)}`, failure };
  const { listScope }: { listScope?: unknown } = Object(answer);
  return typeof listScope === 'string' && listScope !== ''
    ? { key: `scope ${providerKey(provider)} ${listScope}` }
    : alone;
}

function ofSource(message: string): Failure {
  return { code: 'InvalidArgument', message, outcomeUnknown: false, blockedOn: 'Source' };
}
