/** Kinds of objects by the names and short names of kubectl, also without `machine`. */
import type { WorkflowKind } from '../api/workflow-id.ts';
import { UsageError } from './options.ts';

const spellings = {
  Machine: ['machine', 'machines', 'mc'],
  MachineDeployment: ['machinedeployment', 'machinedeployments', 'mcd', 'deployment', 'deployments'],
  MachineSet: ['machineset', 'machinesets', 'mcs', 'set', 'sets'],
} as const satisfies Record<WorkflowKind, readonly string[]>;

/** Throws UsageError for a name that no kind has. */
export function parseKind(given: string): WorkflowKind {
  const kind = (Object.keys(spellings) as WorkflowKind[]).find((known) =>
    spellings[known].some((spelling) => spelling === given.toLowerCase()),
  );
  if (kind !== undefined) return kind;
  throw new UsageError(`kind is '${given}': give one of ${Object.values(spellings).flat().join(', ')}`);
}

/**
 * Kind and names of `machine a b`, or of `machine/a machine/b` and `machine.<group>/a` as `kubectl get -o name` prints
 * them. Throws UsageError for kinds that no object has, and for several kinds.
 */
export function parseObjects(first: string, more: readonly string[]): { kind: WorkflowKind; names: readonly string[] } {
  if (!first.includes('/')) return { kind: parseKind(first), names: more };
  const objects = [first, ...more].map((given) => {
    const [kind = '', name = ''] = given.split('/');
    return { kind: parseKind(kind.replace(/\..*$/, '')), name };
  });
  const [{ kind } = { kind: parseKind('') }] = objects;
  const other = objects.find((each) => each.kind !== kind || each.name === '');
  if (other === undefined) return { kind, names: objects.map(({ name }) => name) };
  throw new UsageError(
    `${first} is followed by another kind or by no name: give objects of one kind, each as <kind>/<name>`,
  );
}
