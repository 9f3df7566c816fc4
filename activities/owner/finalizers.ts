/** Our finalizer on owners of machines and on their sets: added first, removed last. */
import type { KubeObject, Resource } from '../../api/objects.ts';
import { controllerOf } from '../../api/owner/ownership.ts';
import type { KubeClient } from '../../kube/client.ts';
import { ignoreGoneOrChanged, update } from '../../kube/update.ts';
import { type OwnerContext, ownSets } from './step.ts';

interface Key {
  readonly namespace?: string;
  readonly name: string;
  readonly uid: string;
}

/** Adds it to an owner and its sets. */
export async function addFinalizers(context: OwnerContext): Promise<void> {
  const { sets, deployments, ref, kind } = context;
  if (kind === 'MachineDeployment') await addFinalizer(context, deployments, ref);
  for (const { metadata } of await ownSets(context)) await addFinalizer(context, sets, metadata);
}

async function addFinalizer<T extends KubeObject>(
  { deps, api }: OwnerContext,
  resource: Resource<T>,
  key: Key,
): Promise<void> {
  const { finalizer } = api.marks;
  await update(deps.control, resource, key, ({ metadata }) => {
    const { finalizers = [], deletionTimestamp } = metadata;
    if (finalizers.includes(finalizer) || deletionTimestamp !== undefined) return undefined;
    return { metadata: { finalizers: [...finalizers, finalizer] } };
  });
}

/** Removes a finalizer from the object, if it still has this UID. */
export async function removeFinalizer<T extends KubeObject>(
  control: KubeClient,
  resource: Resource<T>,
  key: Key,
  finalizer: string,
): Promise<void> {
  await update(control, resource, key, ({ metadata }) => {
    const { finalizers = [] } = metadata;
    if (!finalizers.includes(finalizer)) return undefined;
    return { metadata: { finalizers: finalizers.filter((one) => one !== finalizer) } };
  });
}

/**
 * Deletes the sets, and removes our finalizer from them and the owner: the end of a deletion. Nothing is released while
 * a set has a machine, also where a reading by label has missed it.
 */
export async function release(context: OwnerContext): Promise<void> {
  const { deps, api, sets, deployments, ref, kind } = context;
  const { finalizer } = api.marks;
  const own = await ownSets(context);
  const machines = await deps.control.list(api.kinds.machine, { namespace: ref.namespace });
  if (machines.items.some((machine) => own.some(({ metadata }) => metadata.uid === controllerOf(machine)))) return;
  for (const { metadata } of own) {
    const { namespace = '', name, uid } = metadata;
    if (kind === 'MachineDeployment') {
      await ignoreGoneOrChanged(() => deps.control.delete(sets, { namespace, name }, { preconditions: { uid } }));
    }
    await removeFinalizer(deps.control, sets, metadata, finalizer);
  }
  if (kind === 'MachineDeployment') await removeFinalizer(deps.control, deployments, ref, finalizer);
}
