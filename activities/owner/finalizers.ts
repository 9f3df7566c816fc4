/** Our finalizer on owners of machines and on their sets: put on first, taken off last. */
import { finalizers } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import type { KubeObject, Resource } from '../../api/objects.ts';
import type { KubeClient } from '../../kube/client.ts';
import { ignoreGoneOrChanged, update } from '../../kube/update.ts';
import { type OwnerKind, ownSets } from './step.ts';

/** Puts it on an owner and its sets. */
export async function addFinalizers(control: KubeClient, ref: ObjectRef, kind: OwnerKind): Promise<void> {
  if (kind === 'MachineDeployment') await addFinalizer(control, machineDeployments, ref);
  for (const { metadata } of await ownSets(control, ref, kind)) await addFinalizer(control, machineSets, metadata);
}

async function addFinalizer<T extends KubeObject>(
  control: KubeClient,
  resource: Resource<T>,
  key: { namespace?: string; name: string; uid: string },
): Promise<void> {
  await update(control, resource, key, ({ metadata }) => {
    const { finalizers: present = [], deletionTimestamp } = metadata;
    if (present.includes(finalizers.machine) || deletionTimestamp !== undefined) return undefined;
    return { metadata: { finalizers: [...present, finalizers.machine] } };
  });
}

/** Takes it off, if the object still is the one with the UID. */
export async function removeFinalizer<T extends KubeObject>(
  control: KubeClient,
  resource: Resource<T>,
  key: { namespace?: string; name: string; uid: string },
): Promise<void> {
  await update(control, resource, key, ({ metadata }) => {
    const { finalizers: present = [] } = metadata;
    if (!present.includes(finalizers.machine)) return undefined;
    return { metadata: { finalizers: present.filter((finalizer) => finalizer !== finalizers.machine) } };
  });
}

/** Deletes the sets, and takes our finalizer off them and the owner: the end of a deletion. */
export async function release(control: KubeClient, ref: ObjectRef, kind: OwnerKind): Promise<void> {
  for (const { metadata } of await ownSets(control, ref, kind)) {
    const { namespace = '', name, uid } = metadata;
    if (kind === 'MachineDeployment') {
      await ignoreGoneOrChanged(() => control.delete(machineSets, { namespace, name }, { preconditions: { uid } }));
    }
    await removeFinalizer(control, machineSets, metadata);
  }
  if (kind === 'MachineDeployment') await removeFinalizer(control, machineDeployments, ref);
}
