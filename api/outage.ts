/** Whether Nodes went bad together: an outage, and no broken machines. Pure. */

/** A Node, as an outage is told from it. */
export interface NodeHealth {
  /** Left out where the Node does not say. */
  readonly zone?: string;
  readonly isHealthy: boolean;
  /** When it became ready again, ms since the epoch. Left out where it is unhealthy, or new. */
  readonly recoveredMs?: number;
}

/** A machine whose Node has joined, and may be missing by now. */
export interface JoinedMachine {
  /** Of its Node, or else of its source; left out where neither says. */
  readonly zone?: string;
  /** What its VM is made from. */
  readonly source: string;
  readonly isMissing: boolean;
}

/** What an outage is told from. */
export interface Fleet {
  /** Nodes that exist, also those of no machine. */
  readonly nodes: readonly NodeHealth[];
  readonly machines: readonly JoinedMachine[];
}

/**
 * Fewer Nodes are broken machines, whatever their share. Kubelets do not remove Nodes: two that are missing say more.
 */
const fewestOfOutage = { unhealthy: 3, missing: 2 };

/**
 * What is out around a machine, for people: more than `percent` of the Nodes in its zone or in the cluster are
 * unhealthy or missing, and at least 3; or more than `percent` of the machines there have lost their Nodes, and at
 * least 2. Where nobody knows its zone, the machines of its source take the place of the zone. undefined: nothing is
 * out. The node lifecycle controller of Kubernetes tells the outage of a zone by unhealthy Nodes the same way, see
 * `--unhealthy-zone-threshold` of kube-controller-manager.
 */
export function findOutageAmong(
  { nodes, machines }: Fleet,
  { zone, source }: Pick<JoinedMachine, 'zone' | 'source'>,
  percent: number,
): string | undefined {
  const isThere = (one: { readonly zone?: string }) => one.zone === zone;
  const near =
    zone === undefined
      ? describeMissing(
          machines.filter((machine) => machine.source === source),
          `of ${source}`,
          percent,
        )
      : describeOutage(
          { nodes: nodes.filter(isThere), machines: machines.filter(isThere) },
          `in zone ${zone}`,
          percent,
        );
  return near ?? describeOutage({ nodes, machines }, 'in the cluster', percent);
}

/** A fleet in which Nodes that became ready again after a time, ms since the epoch, count as unhealthy. */
export function withRecovered({ nodes, machines }: Fleet, sinceMs: number): Fleet {
  const wasBad = ({ recoveredMs = Number.NEGATIVE_INFINITY }: NodeHealth) => recoveredMs > sinceMs;
  return { nodes: nodes.map((node) => (wasBad(node) ? { ...node, isHealthy: false } : node)), machines };
}

function describeMissing(machines: readonly JoinedMachine[], where: string, percent: number): string | undefined {
  const missing = countMissing(machines);
  if (missing < fewestOfOutage.missing || missing * 100 <= machines.length * percent) return undefined;
  return `${missing} of ${machines.length} machines ${where} have lost their Nodes`;
}

function describeOutage({ nodes, machines }: Fleet, where: string, percent: number): string | undefined {
  const lost = describeMissing(machines, where, percent);
  if (lost !== undefined) return lost;
  const missing = countMissing(machines);
  const bad = missing + nodes.filter(({ isHealthy }) => !isHealthy).length;
  const total = missing + nodes.length;
  if (bad < fewestOfOutage.unhealthy || bad * 100 <= total * percent) return undefined;
  return `${bad} of ${total} Nodes ${where} are unhealthy${missing === 0 ? '' : ' or missing'}`;
}

function countMissing(machines: readonly JoinedMachine[]): number {
  return machines.filter(({ isMissing }) => isMissing).length;
}
