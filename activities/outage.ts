/** Tells an outage of many Nodes from broken machines, by the Nodes as they are. */
import { isHealthy } from '../api/attention.ts';
import { allDialects } from '../api/dialects.ts';
import { toStatuses } from '../api/node.ts';
import { findOutageAmong, type NodeHealth } from '../api/outage.ts';
import type { KubeClient } from '../kube/client.ts';
import { type Node, nodes } from '../kube/core.ts';

/** What is out around a Node, for people; undefined: nothing. @param node its own, where there is one */
export type FindOutage = (node: Node | undefined) => Promise<string | undefined>;

/** In an outage many machines ask at once: one list of the Nodes serves all questions of this time, ms. */
const listAgeMs = 5_000;

export interface OutageOptions {
  /** Holds the Nodes. */
  readonly target: KubeClient;
  /** Types of conditions that are False on a healthy Node, besides Ready that is True. */
  readonly nodeConditions: readonly string[];
  /** Above this share of unhealthy Nodes, in percent, it is an outage. */
  readonly percent: number;
}

export function createOutageFinder({ target, nodeConditions, percent }: OutageOptions): FindOutage {
  let listed: { readonly atMs: number; readonly found: Promise<readonly NodeHealth[]> } | undefined;

  async function list(): Promise<readonly NodeHealth[]> {
    const found: NodeHealth[] = [];
    for await (const { items } of target.pages(nodes)) {
      for (const node of items) {
        if (isKept(node)) continue; // it is known to be broken, and stays for days
        const zone = zoneOf(node);
        const conditions = toStatuses(node.status?.conditions);
        found.push({ ...(zone !== undefined && { zone }), isHealthy: isHealthy({ conditions }, nodeConditions) });
      }
    }
    return found;
  }

  return async (node) => {
    if (listed === undefined || performance.now() > listed.atMs + listAgeMs) {
      const begun = { atMs: performance.now(), found: list() };
      listed = begun;
      begun.found.catch(() => {
        if (listed === begun) listed = undefined;
      });
    }
    return findOutageAmong(await listed.found, node && zoneOf(node), percent);
  };
}

/** Whether a Node is that of a Failed machine that is preserved. */
function isKept(node: Node): boolean {
  return allDialects().some(({ marks }) => marks.isKept?.(node) === true);
}

function zoneOf({ metadata: { labels } }: Node): string | undefined {
  return labels?.['topology.kubernetes.io/zone'];
}
