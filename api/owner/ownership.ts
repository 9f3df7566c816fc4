/** Who owns whom, by controller references: pure. */
import type { KubeObject } from '../objects.ts';

/** The part of an object that says who owns it. */
export interface Owned {
  readonly metadata: {
    readonly uid: string;
    readonly ownerReferences?: readonly { readonly uid: string; readonly controller?: boolean }[];
  };
}

/** UID of the controller of an object, if it has one. */
export function controllerOf({ metadata }: Owned): string | undefined {
  return metadata.ownerReferences?.find(({ controller }) => controller)?.uid;
}

/** Machines by the UID of their set; under '' those of no set. */
export function groupByController<M extends KubeObject>(machines: readonly M[]): Map<string, M[]> {
  const groups = new Map<string, M[]>();
  for (const machine of machines) {
    const uid = controllerOf(machine) ?? '';
    const group = groups.get(uid);
    if (group === undefined) groups.set(uid, [machine]);
    else group.push(machine);
  }
  return groups;
}
