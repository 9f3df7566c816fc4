/** The metrics that the documentation lists, which is made from those that processes register. */
import { metricsDoc } from '../../deploy/generators/metrics.ts';

/** Names of labels by metric, sorted and with commas between them. */
export function documentedMetrics(): ReadonlyMap<string, string> {
  const rows = metricsDoc().matchAll(/^\| `(\w+)` \| \w+ \| (.*?) \|/gm);
  return new Map([...rows].map(([, name = '', labels = '']) => [name, sorted(labels.match(/\w+/g) ?? [])]));
}

/** Labels as `documentedMetrics` has them. */
export function sorted(labels: readonly string[]): string {
  return labels.toSorted().join();
}
