/** Who owns whom, by controller references: pure. */
import type { OwnerApi } from '../dialect.ts';
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

/**
 * Name of the deployment that controls the set of a machine; undefined where there is none. Labels do not count.
 * @param findSet finds a set by its UID
 */
export function deploymentOf(
  { kinds }: Pick<OwnerApi, 'kinds'>,
  machine: KubeObject,
  findSet: (uid: string) => KubeObject | undefined,
): string | undefined {
  const owners = findSet(controllerOf(machine) ?? '')?.metadata.ownerReferences;
  return owners?.find(({ controller, kind }) => controller && kind === kinds.deployment.kind)?.name;
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
