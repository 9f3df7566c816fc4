/**
 * Creations as the annotation of their set records them, before the first machine is created: `<id>:<name>,<name>`. A
 * step that takes over from a lost one creates the same machines, and no others as well. Pure.
 */
import type { OwnerView, PendingCreation, PlannedCreation } from '../model/owner.ts';
import { names as keys } from '../names.ts';
import type { KubeObject } from '../objects.ts';

/** A creation that the annotation of a set records. */
export interface RecordedCreation {
  readonly id: string;
  readonly names: readonly string[];
}

/** The value of the annotation for a creation. */
export function encodeCreation({ id, names }: RecordedCreation): string {
  return `${id}:${names.join(',')}`;
}

/** The creation that a set records, if any. */
export function recordedCreation({ metadata }: KubeObject): RecordedCreation | undefined {
  const text = metadata.annotations?.[keys.creating] ?? '';
  if (text === '') return undefined;
  const colon = text.indexOf(':');
  return { id: text.slice(0, Math.max(0, colon)), names: text.slice(colon + 1).split(',') };
}

/** Whether a set still records this creation. */
export function isRecorded({ id }: PlannedCreation, set: KubeObject): boolean {
  return recordedCreation(set)?.id === id;
}

/** Whether a set records a creation of which all machines exist. @param own machines of the set */
export function isCompleted(set: KubeObject, own: readonly KubeObject[]): boolean {
  const existing = new Set(own.map(({ metadata }) => metadata.name));
  return recordedCreation(set)?.names.every((name) => existing.has(name)) === true;
}

/** The creations that the sets of an owner record. @param machines all of the namespace, read after the sets */
export function toPendingCreations(
  view: OwnerView,
  sets: readonly KubeObject[],
  machines: readonly KubeObject[],
): PendingCreation[] {
  const existing = new Set(machines.map(({ metadata }) => metadata.name));
  return view.sets.flatMap(({ name, uid }) => {
    const set = sets.find(({ metadata }) => metadata.uid === uid);
    const recorded = set && recordedCreation(set);
    if (recorded === undefined) return [];
    return [{ set: name, ...recorded, missing: recorded.names.filter((machine) => !existing.has(machine)) }];
  });
}
