/** Objects that are deleted and created again with new UIDs and without owners, as a restore of objects does. */
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { KubeObject, Resource } from '../../api/objects.ts';
import { mergePatch } from '../../kube/patch.ts';
import type { Installation } from './installation.ts';

/** Restores all Machines, MachineSets and MachineDeployments of a stopped installation. */
export async function recreate(
  installation: Installation,
  { withStatus }: { readonly withStatus: boolean },
): Promise<void> {
  await recreateAll(installation, machines, withStatus);
  await recreateAll(installation, machineSets, withStatus);
  await recreateAll(installation, machineDeployments, withStatus);
}

async function recreateAll<
  T extends KubeObject & { readonly spec?: object | undefined; readonly status?: object | undefined },
>({ control, namespace }: Installation, resource: Resource<T>, withStatus: boolean): Promise<void> {
  for (const { metadata, spec, status } of (await control.list(resource, { namespace })).items) {
    const { name, labels: own, annotations, finalizers } = metadata;
    const key = { namespace, name };
    await control.delete(resource, key);
    await control.patch(resource, key, mergePatch({ metadata: { finalizers: null } })).catch(() => undefined);
    const again = { metadata: { ...key, labels: own, annotations, finalizers }, spec } as Parameters<
      typeof control.create<T>
    >[1];
    await control.create(resource, again);
    if (withStatus) await control.patch(resource, key, mergePatch({ status }), { subresource: 'status' });
  }
}
