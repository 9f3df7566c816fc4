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
