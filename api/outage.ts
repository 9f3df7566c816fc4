/** Whether Nodes went bad together: an outage, and no broken machines. Pure. */

/** What an outage is told from. */
export interface NodeHealth {
  /** Left out where the Node does not say. */
  readonly zone?: string;
  readonly isHealthy: boolean;
}

/** Fewer unhealthy Nodes are broken machines, whatever their share. */
const fewestOfOutage = 3;

/**
 * What is out, for people: more than `percent` of the Nodes in the zone or in the cluster are unhealthy, and at least 3.
 * undefined: nothing is. The node lifecycle controller of Kubernetes tells a zone's outage the same way, see
 * `--unhealthy-zone-threshold` of kube-controller-manager.
 * @param zone of the machine in question; undefined: nobody knows
 */
export function findOutageAmong(
  nodes: readonly NodeHealth[],
  zone: string | undefined,
  percent: number,
): string | undefined {
  const ofZone = zone === undefined ? [] : nodes.filter((node) => node.zone === zone);
  return describeOutage(ofZone, `in zone ${zone}`, percent) ?? describeOutage(nodes, 'in the cluster', percent);
}

function describeOutage(nodes: readonly NodeHealth[], where: string, percent: number): string | undefined {
  const bad = nodes.filter(({ isHealthy }) => !isHealthy).length;
  if (bad < fewestOfOutage || bad * 100 <= nodes.length * percent) return undefined;
  return `${bad} of ${nodes.length} Nodes ${where} are unhealthy`;
}
