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
  const kind = kindOf(given);
  if (kind !== undefined) return kind;
  throw new UsageError(`kind is '${given}': give one of ${Object.values(spellings).flat().join(', ')}`);
}

/** @param given also with a group, as in `machine.<group>` */
function kindOf(given: string): WorkflowKind | undefined {
  const [word = ''] = given.toLowerCase().split('.');
  return (Object.keys(spellings) as WorkflowKind[]).find((kind) => spellings[kind].some((each) => each === word));
}

/**
 * Kind and names of `machine a b`, or of `machine/a machine/b` and `machine.<group>/a` as `kubectl get -o name` prints
 * them. Throws UsageError for kinds that no object has, and for several kinds.
 */
export function parseObjects(first: string, more: readonly string[]): { kind: WorkflowKind; names: readonly string[] } {
  const [kindWord = ''] = first.split('/');
  const kind = parseKind(kindWord);
  return { kind, names: parseNames(kind, first.includes('/') ? [first, ...more] : more) };
}

/** Names of objects of a kind, each given as `a` or `machine/a`. Throws UsageError for another kind, and for no name. */
export function parseNames(kind: WorkflowKind, given: readonly string[]): string[] {
  return given.map((each) => {
    const [name = '', kindWord, ...others] = each.split('/').toReversed();
    const isOfKind = kindWord === undefined || kindOf(kindWord) === kind;
    if (name !== '' && isOfKind && others.length === 0) return name;
    throw new UsageError(`name is '${each}': give a ${kind}, as <name> or ${spellings[kind][0]}/<name>`);
  });
}
