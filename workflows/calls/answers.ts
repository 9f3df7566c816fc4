/** What a provider answered, checked: its worker may be in any language, and a schema is too large for a workflow. */
import { failures } from '../../api/failures.ts';
import type { Vm, VmDeletion } from '../../api/provider.ts';
import type { Failure } from './failure.ts';

const states: readonly unknown[] = ['creating', 'uninitialized', 'running', 'failed'] satisfies Vm['state'][];

/**
 * The VM of an answer to `ensureVm`; a field that is null counts as left out, for that is how many languages write it.
 * An answer that is no VM is a failure of the provider: there may be a VM all the same.
 */
export function readVm(answer: unknown): Vm | Failure {
  const fields = Object.entries(answer ?? {}).filter(([, value]) => value !== null);
  const vm: Partial<Record<keyof Vm, unknown>> = Object.fromEntries(fields);
  if (!states.includes(vm.state)) return unusable('ensureVm', 'state', vm.state, states.join(', '));
  for (const field of ['providerID', 'nodeName', 'message', 'lastKnownState'] as const) {
    const isLeftOut = vm[field] === undefined && field !== 'providerID';
    if (!isLeftOut && (typeof vm[field] !== 'string' || vm[field] === '')) {
      return unusable('ensureVm', field, vm[field], 'a text');
    }
  }
  return vm as Vm;
}

/** The same for an answer to `deleteVm`: until it is understood nothing counts as gone. */
export function readVmDeletion(answer: unknown): Pick<VmDeletion, 'state' | 'nodeNames'> | Failure {
  const { state, nodeNames }: Partial<Record<keyof VmDeletion, unknown>> = Object(answer);
  if (state !== 'deleting' && state !== 'gone') return unusable('deleteVm', 'state', state, 'deleting, gone');
  const names = nodeNames ?? [];
  const isListOfTexts = Array.isArray(names) && names.every((name): name is string => typeof name === 'string');
  return isListOfTexts ? { state, nodeNames: names } : unusable('deleteVm', 'nodeNames', names, 'a list of texts');
}

/** The failure of a provider that answered with a field that cannot be used. */
export function unusable(activity: string, field: string, value: unknown, accepted: string): Failure {
  const message = `the provider answered ${activity} with ${field} ${JSON.stringify(value)}: it has to be ${accepted}`;
  const { outcomeUnknown, blockedOn } = failures.Internal;
  return { code: 'Internal', message, outcomeUnknown, blockedOn };
}
