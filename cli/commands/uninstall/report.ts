/** What `millwright uninstall` prints. */
import type { Remnants } from '../../../temporal/remnants.ts';
import { dialect } from '../../dialect.ts';

export interface Report {
  readonly installation: string;
  readonly namespace: string;
  /** Whether the control cluster has no such namespace. */
  readonly isNamespaceMissing: boolean;
  /** false: it only shows what would be done. */
  readonly isDone: boolean;
  /** How many Machines stay. */
  readonly machines: number;
  /** How many objects of each kind lose finalizers and annotations. */
  readonly changed: Readonly<Record<string, number>>;
  /** What is deleted, with kinds and names. */
  readonly deleted: readonly string[];
  /** Left out: Temporal is gone. */
  readonly temporal: Remnants | undefined;
  readonly attention: readonly string[];
  /** Processes that may still run. */
  readonly running: readonly string[];
}

/** @param line command line that does what is shown */
export function reportText(report: Report, line: string): string {
  const { installation, namespace, isNamespaceMissing, isDone, changed, deleted, temporal, attention, running } =
    report;
  const kinds = Object.entries(changed).map(([kind, count]) => `${count} ${plural(kind, count)}`);
  const inTemporal =
    temporal === undefined
      ? ['not asked, as it is gone: if it comes back, run this command again']
      : [...temporal.schedules.map((id) => `Schedule ${id}`), `${temporal.openWorkflows} open workflows`];
  const were = isDone ? 'were' : 'would be';
  const sections: (readonly [title: string, lines: readonly string[]])[] = [
    ['processes that run, or have run a minute ago: stop them first', running],
    ['VMs and Nodes to look at', attention],
    [`finalizers and annotations ${were} removed from`, kinds],
    [`in namespace ${namespace} ${were} deleted`, deleted],
    [`in Temporal ${were} ended`, inTemporal],
    ['left, and how to remove it', isDone ? leftLines(report) : []],
  ];
  const text = sections
    .filter(([, lines]) => lines.length > 0)
    .map(([title, lines]) => `${title}:\n${lines.map((each) => `  ${each}\n`).join('')}`);
  const end = isDone ? '' : `nothing was changed; to do it: ${line}`;
  const where = isNamespaceMissing
    ? `${namespace}, which does not exist: correct --namespace, unless it was deleted`
    : namespace;
  return `installation '${installation}' of namespace ${where}\n${text.join('')}${end}`.trimEnd();
}

function plural(kind: string, count: number): string {
  if (count === 1) return kind;
  return kind.endsWith('s') ? `${kind}es` : `${kind}s`;
}

const { plural: machinesPlural, group } = dialect.kinds.machine;
const listVms = `kubectl get ${machinesPlural}.${group} -o custom-columns=NAME:.metadata.name,VM:.spec.providerID`;

function leftLines({ namespace, machines, temporal }: Report): string[] {
  return [
    ...(machines > 0
      ? [`${machines} Machines with their VMs and Nodes; to note which VMs they are: ${listVms} -n ${namespace}`]
      : []),
    ...(temporal === undefined ? ['Schedules and open workflows in Temporal: they do nothing without workers'] : []),
    'the release of the chart: helm uninstall; roles and policies that were applied by hand: kubectl delete -f',
    'the CRDs: kubectl delete -f deploy/crds, when no namespace has an object of theirs',
    'closed workflows in Temporal, which go with their retention, and the search attributes of its namespace',
    'bootstrap tokens in kube-system of the target cluster, which expire',
  ];
}
