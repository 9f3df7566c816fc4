/** Kinds of objects by the names and short names of kubectl, also without `machine`. */
import type { WorkflowKind } from '../api/workflow-id.ts';
import { UsageError } from './options.ts';

const spellings = {
  Machine: ['machine', 'machines', 'mc'],
  MachineDeployment: ['machinedeployment', 'machinedeployments', 'mcd', 'deployment', 'deployments'],
  MachineSet: ['machineset', 'machinesets', 'mcs', 'set', 'sets'],
} as const satisfies Record<WorkflowKind, readonly string[]>;

/** Throws UsageError for a name that no kind has. */
export async function parseKind(given: string): Promise<WorkflowKind> {
  const kind = await kindOf(given);
  if (kind !== undefined) return kind;
  throw new UsageError(`kind is '${given}': give one of ${Object.values(spellings).flat().join(', ')}`);
}

/** @param given also with the group of our kinds, as in `machine.<group>` and `machines.<version>.<group>` */
async function kindOf(given: string): Promise<WorkflowKind | undefined> {
  const [word = '', ...suffix] = given.toLowerCase().split('.');
  const kind = (Object.keys(spellings) as WorkflowKind[]).find((each) => spellings[each].some((own) => own === word));
  if (suffix.length === 0 || kind === undefined) return kind;
  const { dialect } = await import('./dialect.ts'); // most command lines name no group, and a start should stay quick
  const { group, version } = dialect.kinds.machine;
  return [group, `${version}.${group}`].includes(suffix.join('.')) ? kind : undefined;
}

/**
 * Kind and names of `machine a b`, or of `machine/a machine/b` and `machine.<group>/a` as `kubectl get -o name` prints
 * them. Throws UsageError for kinds that no object has, kinds of other groups among them, and for several kinds.
 */
export async function parseObjects(
  first: string,
  more: readonly string[],
): Promise<{ kind: WorkflowKind; names: readonly string[] }> {
  const [kindWord = ''] = first.split('/');
  const kind = await parseKind(kindWord);
  return { kind, names: await parseNames(kind, first.includes('/') ? [first, ...more] : more) };
}

/** Names of objects of a kind, each given as `a` or `machine/a`. Throws UsageError for another kind, and for no name. */
export async function parseNames(kind: WorkflowKind, given: readonly string[]): Promise<string[]> {
  return Promise.all(
    given.map(async (each) => {
      const [name = '', kindWord, ...others] = each.split('/').toReversed();
      const isOfKind = kindWord === undefined || (await kindOf(kindWord)) === kind;
      if (name !== '' && isOfKind && others.length === 0) return name;
      throw new UsageError(`name is '${each}': give a ${kind}, as <name> or ${spellings[kind][0]}/<name>`);
    }),
  );
}
