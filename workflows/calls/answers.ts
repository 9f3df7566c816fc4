/** Checks what a provider answered: its worker may be in any language, and a schema is too large for a workflow. */
import { failures, shortened } from '../../api/failures.ts';
import type { ClassVerdict, InterruptionPage, Vm, VmDeletion, VolumeIds } from '../../api/provider.ts';
import type { Failure } from './failure.ts';

const states: readonly unknown[] = ['creating', 'uninitialized', 'running', 'failed'] satisfies Vm['state'][];

/**
 * The VM of an answer to `ensureVm`. A field that is null counts as left out: many languages write it so. An answer
 * that is no VM is a failure of the provider, and there may be a VM.
 */
export function readVm(answer: unknown): Vm | Failure {
  const fields = Object.entries(answer ?? {}).filter(([, value]) => value !== null);
  const vm: Partial<Record<keyof Vm, unknown>> = Object.fromEntries(fields);
  if (!states.includes(vm.state)) return unusable('ensureVm', 'state', vm.state, states.join(', '));
  for (const field of ['providerID', 'nodeName', 'message', 'lastKnownState'] as const) {
    const isLeftOut = vm[field] === undefined && field !== 'providerID';
    if (!isLeftOut && (typeof vm[field] !== 'string' || vm[field] === '')) {
      return unusable('ensureVm', field, vm[field], 'a non-empty string');
    }
  }
  if (vm.tags !== undefined && !isMapOfTexts(vm.tags)) {
    return unusable('ensureVm', 'tags', vm.tags, 'a map of strings');
  }
  return { ...(vm as Vm), ...(typeof vm.message === 'string' && { message: shortened(vm.message) }) };
}

/**
 * The same for an answer to `deleteVm`. Nothing counts as gone before the answer is understood. A time to ask again that
 * is not usable is left out.
 */
export function readVmDeletion(answer: unknown): VmDeletion | Failure {
  const fields: Partial<Record<keyof VmDeletion, unknown>> = Object(answer);
  const { state, nodeNames, untaggedVm, askAgainAfterSeconds } = fields;
  if (state !== 'deleting' && state !== 'gone') return unusable('deleteVm', 'state', state, 'deleting, gone');
  const names = nodeNames ?? [];
  if (!isListOfTexts(names)) return unusable('deleteVm', 'nodeNames', names, 'a list of strings');
  const hasPause = typeof askAgainAfterSeconds === 'number' && askAgainAfterSeconds > 0;
  const deletion: VmDeletion = { state, nodeNames: names, ...(hasPause && { askAgainAfterSeconds }) };
  if (untaggedVm === undefined || untaggedVm === null) return deletion;
  const { providerID, nodeName = null }: Partial<Record<string, unknown>> = Object(untaggedVm);
  const isNamed = nodeName === null || (typeof nodeName === 'string' && nodeName !== '');
  if (typeof providerID !== 'string' || providerID === '' || !isNamed)
    return unusable('deleteVm', 'untaggedVm', untaggedVm, 'a providerID, and a nodeName if it is known');
  return { ...deletion, untaggedVm: { providerID, ...(nodeName !== null && { nodeName }) } };
}

/** An answer to `validateClass`. Without a usable `listScope` a source has none. */
export function readClassVerdict(answer: unknown): ClassVerdict | Failure {
  const { problems, tags, listScope, interruptible }: Partial<Record<keyof ClassVerdict, unknown>> = Object(answer);
  if (!isListOfTexts(problems)) return unusable('validateClass', 'problems', problems, 'a list of strings');
  const hasTags = tags !== undefined && tags !== null;
  if (hasTags && !isMapOfTexts(tags)) return unusable('validateClass', 'tags', tags, 'a map of strings');
  return {
    problems: problems.map(shortened),
    ...(hasTags && { tags }),
    ...(typeof listScope === 'string' && listScope !== '' && { listScope }),
    ...(interruptible === true && { interruptible }),
  };
}

/** The page of an answer to `listInterruptions`. @param page what was asked for */
export function readInterruptions(answer: unknown, page: string | undefined): InterruptionPage | Failure {
  const { items, nextPage }: Partial<Record<keyof InterruptionPage, unknown>> = Object(answer);
  const isItem = (item: unknown) => isMapOfTexts(item) && Boolean(item['providerID'] && item['reason']);
  if (!Array.isArray(items) || !items.every(isItem))
    return unusable('listInterruptions', 'items', items, 'a list of { providerID, reason }');
  if (nextPage === undefined || nextPage === null || nextPage === '') return { items };
  return typeof nextPage === 'string' && nextPage !== page
    ? { items, nextPage }
    : unusable('listInterruptions', 'nextPage', nextPage, 'another page than the one asked for');
}

/** The IDs of an answer to `volumeIds`, by the names of the volumes; undefined where it says nothing of any. */
export function readVolumeIds(answer: unknown): Readonly<Record<string, string>> | undefined {
  const { ids }: Partial<Record<keyof VolumeIds, unknown>> = Object(answer);
  return isMapOfTexts(ids) ? ids : undefined;
}

/** The failure of a provider that answered with a field that cannot be used. */
export function unusable(activity: string, field: string, value: unknown, accepted: string): Failure {
  const message = `the provider answered ${activity} with ${field} ${JSON.stringify(value)}: expected ${accepted}`;
  const { outcomeUnknown, blockedOn } = failures.Internal;
  return { code: 'Internal', message: shortened(message), outcomeUnknown, blockedOn };
}

function isMapOfTexts(value: unknown): value is Record<string, string> {
  return typeof value === 'object' && value !== null && isListOfTexts(Object.values(value));
}

function isListOfTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'string');
}
