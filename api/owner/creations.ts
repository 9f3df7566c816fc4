/** Creations of machines as the annotation of their set has them: pure. */

import type { Machine } from '../gardener/schema/machine.ts';
import type { MachineSet } from '../gardener/schema/machine-set.ts';
import type { OwnerPlan, OwnerView, PendingCreation } from '../model/owner.ts';
import { names } from '../names.ts';

/** Machines that are created in one set in one step. */
export type Creation = OwnerPlan['create'][number];

/** What the annotation says while a creation is under way. */
export function encodeNames(creation: Creation): string {
  return creation.names.join(',');
}

/** What the annotation of a set says; empty while nothing is created. */
export function pendingNamesOf({ metadata }: MachineSet): string {
  return metadata.annotations?.[names.creating] ?? '';
}

/** Whether a set still says that this creation is under way. */
export function isUnderWay(creation: Creation, set: MachineSet): boolean {
  return pendingNamesOf(set) === encodeNames(creation);
}

/** Whether a set names a creation of which all machines are there. @param own machines of the set */
export function isCreationOver(set: MachineSet, own: readonly Machine[]): boolean {
  const text = pendingNamesOf(set);
  if (text === '') return false;
  const present = new Set(own.map(({ metadata }) => metadata.name));
  return text.split(',').every((name) => present.has(name));
}

/** What has begun in the sets of an owner. @param machines all of the namespace, read after the sets */
export function toPendingCreations(
  view: OwnerView,
  sets: readonly MachineSet[],
  machines: readonly Machine[],
): PendingCreation[] {
  const taken = new Set(machines.map(({ metadata }) => metadata.name));
  return view.sets.flatMap(({ name, uid }) => {
    const set = sets.find(({ metadata }) => metadata.uid === uid);
    const text = set === undefined ? '' : pendingNamesOf(set);
    if (text === '') return [];
    return [{ set: name, text, left: text.split(',').filter((machine) => !taken.has(machine)) }];
  });
}
