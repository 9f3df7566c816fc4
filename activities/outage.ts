/** Tells an outage of many Nodes from broken machines, by the Nodes and Machines as they are. */
import { isHealthy } from '../api/attention.ts';
import { allDialects, dialectOf } from '../api/dialects.ts';
import { hasJoined, type MachineLimits, type MachineSnapshot } from '../api/model/machine.ts';
import type { ObjectRef } from '../api/model/ref.ts';
import { judgeNode, rivalFor, toStatuses } from '../api/node.ts';
import type { KubeObject, Resource } from '../api/objects.ts';
import { type Fleet, findOutageAmong, type JoinedMachine, type NodeHealth, withRecovered } from '../api/outage.ts';
import { vmOf } from '../api/provider-id.ts';
import type { KubeClient } from '../kube/client.ts';
import { type Node, nodes } from '../kube/core.ts';

/**
 * What is out around a machine, or was within its health timeout, for people; undefined: nothing. Nodes come back one
 * by one: those that are still missing when the share is below the limit are given as long as any unhealthy one.
 * @param node its own, where there is one
 * @param nowMs on Temporal's clock, ms since the epoch
 * @param mayBeOld whether a list of the last 5 s may say that nothing is out, for a step that has little time
 */
export type FindOutage = (
  of: Pick<ObjectRef, 'dialect' | 'namespace'>,
  machine: { readonly source: string; readonly limits: Pick<MachineLimits, 'healthSeconds'> },
  node: Node | undefined,
  nowMs: number,
  mayBeOld?: boolean,
) => Promise<string | undefined>;

/** In an outage many machines ask at once: one list that shows it serves all questions of this time, ms. */
const listAgeMs = 5_000;

export interface OutageOptions {
  /** Holds the Machines. */
  readonly control: KubeClient;
  /** Holds the Nodes. */
  readonly target: KubeClient;
  readonly defaults: MachineLimits;
  /** Above this share of unhealthy or missing Nodes, in percent, it is an outage. */
  readonly percent: number;
}

/** What was listed, and the zones of sources by their names. */
interface Listed extends Fleet {
  readonly zones: ReadonlyMap<string, string>;
}

export function createOutageFinder({ control, target, defaults, percent }: OutageOptions): FindOutage {
  const lists = new Map<string, { readonly atMs: number; readonly found: Promise<Listed> }>();
  /**
   * The last outage that this worker saw, by dialect, namespace and zone, or class where nobody knows the zone: young
   * Nodes do not say themselves that they were unhealthy before.
   */
  const seen = new Map<string, { readonly atMs: number; readonly outage: string }>();

  async function list({ dialect, namespace }: Pick<ObjectRef, 'dialect' | 'namespace'>): Promise<Listed> {
    const { kinds, machine: of, source, marks } = dialectOf(dialect);
    const [present, machines, sources] = await Promise.all([
      listAll(target, nodes),
      listAll(control, kinds.machine, namespace),
      kinds.source === undefined ? [] : listAll(control, kinds.source, namespace),
    ]);
    const zones = new Map(
      sources.flatMap((each) => {
        const zone = source.zoneOf?.(each);
        return zone === undefined ? [] : [[each.metadata.name, zone] as const];
      }),
    );
    const findNamed = nodeFinder(present);
    const byName = new Map(machines.map((object) => [object.metadata.name, object]));
    const findNode = (machine: MachineSnapshot, name: string): Node | undefined => {
      const seeker = { ...machine, namespace, name };
      const node = findNamed(machine);
      const rival = byName.get(rivalFor(marks, node, seeker) ?? '');
      return judgeNode(marks, node, seeker, rival && of.toSnapshot(rival, defaults)).node;
    };
    const createdAt = new Map<Node, string>();
    const toJoined = (object: KubeObject): JoinedMachine[] => {
      const machine = of.toSnapshot(object, defaults);
      if (machine.deletingSince !== undefined || machine.limits.hasNoNode || !hasJoined(machine.stage)) return [];
      const node = findNode(machine, object.metadata.name);
      if (node !== undefined) createdAt.set(node, machine.createdAt);
      const zone = (node && zoneOf(node)) ?? zones.get(machine.source);
      return [{ source: machine.source, isMissing: node === undefined, ...(zone !== undefined && { zone }) }];
    };
    const joined = machines.flatMap(toJoined);
    const isNewUntilMs = (node: Node) => {
      const { creationTimestamp } = node.metadata;
      const created = Math.min(Date.parse(creationTimestamp), Date.parse(createdAt.get(node) ?? creationTimestamp));
      return created + defaults.creationSeconds * 1_000;
    };
    return {
      nodes: present.filter((node) => !isKept(node)).map((node) => toHealth(node, defaults, isNewUntilMs(node))),
      machines: joined,
      zones,
    };
  }

  /** What a list has shown that began after a time, by performance.now(). One list is under way at a time. */
  async function listSince(of: Pick<ObjectRef, 'dialect' | 'namespace'>, sinceMs: number): Promise<Listed> {
    const key = `${of.dialect}/${of.namespace}`;
    for (let last = lists.get(key); last !== undefined; last = lists.get(key)) {
      if (last.atMs >= sinceMs) return last.found;
      await last.found.catch(() => undefined);
      if (lists.get(key) === last) lists.delete(key);
    }
    const begun = { atMs: performance.now(), found: list(of) };
    lists.set(key, begun);
    begun.found.catch(() => {
      if (lists.get(key) === begun) lists.delete(key);
    });
    return begun.found;
  }

  function findIn({ zones, ...fleet }: Listed, question: Parameters<FindOutage>): string | undefined {
    const [{ dialect, namespace }, { source, limits }, node, nowMs] = question;
    const zone = (node && zoneOf(node)) ?? zones.get(source);
    const near = { source, ...(zone !== undefined && { zone }) };
    const outage = findOutageAmong(fleet, near, percent);
    const place = `${dialect}/${namespace}/${zone ?? source}`;
    if (outage !== undefined) {
      seen.set(place, { atMs: performance.now(), outage });
      return outage;
    }
    const last = seen.get(place);
    const { healthSeconds = defaults.healthSeconds ?? 0 } = limits;
    const isRecent = last !== undefined && performance.now() < last.atMs + healthSeconds * 1_000;
    if (isRecent) return `${last.outage}, less than ${healthSeconds} s ago`;
    const unseen = findOutageAmong(withRecovered(fleet, nowMs - healthSeconds * 1_000), near, percent);
    return unseen && `${unseen}, or were less than ${healthSeconds} s ago`;
  }

  return async (...question) => {
    const [of, , , , mayBeOld = false] = question;
    const askedMs = performance.now();
    const outage = findIn(await listSince(of, askedMs - listAgeMs), question);
    if (outage !== undefined || mayBeOld) return outage;
    return findIn(await listSince(of, askedMs), question);
  };
}

async function listAll<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  namespace?: string,
): Promise<T[]> {
  const found: T[] = [];
  for await (const { items } of client.pages(resource, { namespace })) found.push(...items);
  return found;
}

/** Finds what may be the Node of a machine: by the name that it stores, or else by its VM. */
function nodeFinder(present: readonly Node[]) {
  const byName = new Map(present.map((node) => [node.metadata.name, node]));
  const byVm = new Map(present.flatMap((node) => (node.spec?.providerID ? [[vmOf(node.spec.providerID), node]] : [])));
  return ({ nodeName, providerID }: MachineSnapshot): Node | undefined =>
    nodeName === undefined ? byVm.get(vmOf(providerID ?? '')) : byName.get(nodeName);
}

/**
 * When it became ready again is read from Ready alone: programs give other conditions a new time at each start.
 * @param isNewUntilMs a Node that became ready by then had not been ready before, ms since the epoch
 */
function toHealth(node: Node, { nodeConditions }: MachineLimits, isNewUntilMs: number): NodeHealth {
  const zone = zoneOf(node);
  const conditions = node.status?.conditions ?? [];
  const isWell = isHealthy({ conditions: toStatuses(conditions) }, nodeConditions);
  const readyMs = Date.parse(conditions.find(({ type }) => type === 'Ready')?.lastTransitionTime ?? '');
  return {
    isHealthy: isWell,
    ...(isWell && readyMs > isNewUntilMs && { recoveredMs: readyMs }),
    ...(zone !== undefined && { zone }),
  };
}

/** Whether a Node is that of a Failed machine that is preserved: it is known to be broken, and stays for days. */
function isKept(node: Node): boolean {
  return allDialects().some(({ marks }) => marks.isKept?.(node) === true);
}

function zoneOf({ metadata: { labels } }: Node): string | undefined {
  return labels?.['topology.kubernetes.io/zone'];
}
