/** What an owner of machines needs and waits for, as computed from live objects, whether or not a workflow answers. */
import type { OwnerView, RolloutBlockers } from '../api/model/owner.ts';
import type { KubeObject, Resource } from '../api/objects.ts';
import { findBlockers } from '../api/owner/blockers.ts';
import { type LimitedObjects, toLimitReading } from '../api/owner/limit-reading.ts';
import { limitText, waitOf } from '../api/owner/limit-use.ts';
import { type OwnerNeed, ownerNeeds } from '../api/owner/needs.ts';
import type { OwnerDeployment, OwnerSet } from '../api/owner/objects.ts';
import { toDeploymentView, toLoneSetView } from '../api/owner/view.ts';
import { waitsOf } from '../api/owner/waits.ts';
import type { KubeClient, KubeReader } from '../kube/client.ts';
import { startReflector } from '../kube/reflector.ts';
import { dialect } from './dialect.ts';

const { kinds } = dialect;

/** All sets and machines of a namespace, or of all, and its deployments where they are known. */
export interface OwnedObjects {
  readonly deployments?: readonly OwnerDeployment[];
  readonly sets: readonly OwnerSet[];
  readonly machines: readonly KubeObject[];
}

export interface OwnerState {
  readonly view: OwnerView;
  /** Empty at rest. */
  readonly needs: readonly OwnerNeed[];
  /** What has to happen before more can be done. */
  readonly waitsFor: string | undefined;
  /**
   * The machines that a deployment waits for, and a problem that `waitsFor` does not name; undefined at rest, and for a
   * set.
   */
  readonly blockedBy: RolloutBlockers | undefined;
}

/** Lists the sets and machines of a namespace, and its deployments. @param namespace undefined: of all */
export async function readOwned(control: KubeReader, namespace: string | undefined): Promise<Required<OwnedObjects>> {
  const [deployments, sets, owned] = await Promise.all([
    control.list(kinds.deployment, { namespace }),
    control.list(kinds.set, { namespace }),
    control.list(kinds.machine, { namespace }),
  ]);
  return { deployments: deployments.items, sets: sets.items, machines: owned.items };
}

/** Watches what `readOwned` lists. `read` asks while the watches are not up to date. */
export function watchOwned(control: KubeClient, namespace: string | undefined) {
  const ignore = () => undefined;
  const logger = { debug: ignore, info: ignore, warn: ignore, error: ignore };
  const watch = <T extends KubeObject>(resource: Resource<T>) => {
    const { store, stop } = startReflector({ client: control, resource, namespace, onEvent: ignore, logger });
    const read = async () => (store.reachable ? store.list() : (await control.list(resource, { namespace })).items);
    return { read, stop };
  };
  const watched = {
    deployments: watch<OwnerDeployment>(kinds.deployment),
    sets: watch<OwnerSet>(kinds.set),
    machines: watch(kinds.machine),
  };
  return {
    async read(): Promise<Required<OwnedObjects>> {
      const deployments = await watched.deployments.read();
      return { deployments, sets: await watched.sets.read(), machines: await watched.machines.read() };
    },
    async stop(): Promise<void> {
      await Promise.all(Object.values(watched).map(({ stop }) => stop()));
    },
  };
}

/** A function that returns the objects of a namespace. */
export function byNamespace({ deployments = [], sets, machines }: OwnedObjects) {
  const group = <T extends KubeObject>(objects: readonly T[]) =>
    Map.groupBy(objects, ({ metadata }) => metadata.namespace);
  const [ofDeployments, ofSets, ofMachines] = [group(deployments), group(sets), group(machines)];
  return (namespace: string | undefined): OwnedObjects => ({
    deployments: ofDeployments.get(namespace) ?? [],
    sets: ofSets.get(namespace) ?? [],
    machines: ofMachines.get(namespace) ?? [],
  });
}

/** The state of a deployment. `owned` may hold objects of others. */
export function toDeploymentState(deployment: OwnerDeployment, owned: OwnedObjects): OwnerState {
  const api = apiNow();
  const view = toDeploymentView(api, deployment, owned.sets, owned.machines);
  const state = withLimit(toState(view), { ...owned, deployments: owned.deployments ?? [deployment] });
  const { needs, waitsFor } = state;
  // A machine that is not running yet needs nothing from its deployment, but the deployment waits for it.
  const isAtRest = needs.length === 0 && (waitsFor === undefined || view.paused);
  if (isAtRest) return state;
  const { problem, ...blockedBy } = findBlockers(api, deployment, owned.sets, owned.machines);
  const isNamed = problem === undefined || waitsFor?.includes(problem) === true;
  return { ...state, blockedBy: isNamed ? blockedBy : { ...blockedBy, problem } };
}

/** The state of a set without a deployment. `owned` may hold objects of others. */
export function toLoneSetState(set: OwnerSet, owned: OwnedObjects): OwnerState {
  const state = toState(toLoneSetView(apiNow(), set, owned.machines, owned.sets));
  return withLimit(state, { ...owned, deployments: owned.deployments ?? [] });
}

function apiNow() {
  return { ...dialect, nowMs: Date.now() };
}

/** Adds the limit of the namespace that keeps an owner from machines that it lacks. */
function withLimit(state: OwnerState, objects: LimitedObjects): OwnerState {
  const { view, waitsFor } = state;
  if (view.limits === undefined) return state;
  const reading = toLimitReading(dialect, objects);
  const own = reading.uses.find(({ uid }) => uid === view.uid);
  const wait = own && own.wanted > 0 ? waitOf(reading, own) : undefined;
  return wait === undefined ? state : { ...state, waitsFor: [waitsFor, limitText(wait)].filter(Boolean).join('; ') };
}

function toState(view: OwnerView): OwnerState {
  return { view, needs: ownerNeeds(view), waitsFor: waitsOf(view), blockedBy: undefined };
}

/**
 * Numbers of machines: all, those with older templates, active ones, available ones, and Failed ones that are
 * preserved.
 */
export function countsOf({ view: { sets } }: OwnerState) {
  const sum = (count: (set: (typeof sets)[number]) => number) => sets.reduce((total, set) => total + count(set), 0);
  return {
    total: sum(({ total }) => total),
    older: sum(({ isNew, total }) => (isNew ? 0 : total)),
    active: sum(({ active }) => active),
    available: sum(({ available }) => available),
    preserved: sum(({ preserved = 0 }) => preserved),
  };
}

/** One line for each thing that blocks a rollout. */
export function blockerLines({ count, machines: named, problem }: RolloutBlockers): string[] {
  const more = count - named.length;
  return [
    ...(problem === undefined ? [] : [problem]),
    ...named.map(({ name, reason }) => `${name}: ${reason}`),
    ...(more > 0 ? [`${more} more`] : []),
  ];
}
