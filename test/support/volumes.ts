/**
 * Volumes of pods, and what moves them: the scheduler, a StatefulSet, and the attach/detach controller with a CSI
 * driver.
 */
import type { KubeClient } from '../../kube/client.ts';
import {
  csiNodes,
  nodes,
  type Pod,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type VolumeAttachment,
  volumeAttachments,
} from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { startReflector } from '../../kube/reflector.ts';
import { ignoreGoneOrChanged } from '../../kube/update.ts';
import { recordingLogger } from './kube.ts';

/** CSI driver of volumes that the simulated provider knows. */
export const simulatedDriver = 'csi.simulated.millwright.dev';

/**
 * Moves the pods of a namespace that leave their nodes to another one, with their volumes. `steps` says what has
 * happened, in order: `leaves`, `is gone`, `is attached elsewhere`, each with the name of the pod.
 */
export function startVolumes(client: KubeClient, namespace: string, otherNode: string) {
  const steps: string[] = [];
  const volumeOf = (claim: string) => `${namespace}-${claim}`;
  const failures: unknown[] = [];

  async function attachments(): Promise<VolumeAttachment[]> {
    return (await client.list(volumeAttachments, { labelSelector: `test=${namespace}` })).items;
  }

  /** @param step is noted before anybody can see that it is attached, and act on it */
  async function attach(claim: string, nodeName: string, driver: string, step?: string): Promise<void> {
    const metadata = { name: `${volumeOf(claim)}-on-${nodeName}`, labels: { test: namespace } };
    const spec = { attacher: driver, nodeName, source: { persistentVolumeName: volumeOf(claim) } };
    await client.create(volumeAttachments, { metadata, spec });
    if (step !== undefined) steps.push(step);
    await client.patch(volumeAttachments, metadata, mergePatch({ status: { attached: true } }), {
      subresource: 'status',
    });
  }

  async function setInUse(nodeName: string): Promise<void> {
    const here = (await attachments()).filter(({ spec }) => spec?.nodeName === nodeName);
    const volumesAttached = here.map(({ spec }) => ({
      name: `kubernetes.io/csi/${spec?.attacher}^${spec?.source.persistentVolumeName}`,
      devicePath: '',
    }));
    const status = mergePatch({ status: { volumesAttached } });
    await ignoreGoneOrChanged(() => client.patch(nodes, { name: nodeName }, status, { subresource: 'status' }));
  }

  /** What happens when a pod is gone: its volume is detached and, with a new pod, attached to the other node. */
  async function move(pod: Pod): Promise<void> {
    const [claim] = claimsOf(pod);
    const from = pod.spec?.nodeName ?? '';
    const isInUse = reflector.store.list().some((each) => claim !== undefined && claimsOf(each).includes(claim));
    if (claim === undefined || from === otherNode || isInUse) return;
    const driver = (await client.get(persistentVolumes, { name: volumeOf(claim) })).spec?.csi?.driver ?? '';
    if (driver !== simulatedDriver) return; // stays attached
    await ignoreGoneOrChanged(() => client.delete(volumeAttachments, { name: `${volumeOf(claim)}-on-${from}` }));
    await setInUse(from);
    await attach(claim, otherNode, driver, `${pod.metadata.name} is attached elsewhere`);
  }

  const reflector = startReflector({
    client,
    logger: recordingLogger(),
    resource: pods,
    namespace,
    onEvent(event) {
      if (event.kind === 'updated' && event.previous.metadata.deletionTimestamp === undefined) {
        if (event.object.metadata.deletionTimestamp !== undefined) steps.push(`${event.object.metadata.name} leaves`);
      } else if (event.kind === 'deleted') {
        steps.push(`${event.object.metadata.name} is gone`);
        move(event.object).catch((error: unknown) => failures.push(error));
      }
    },
  });

  function claimsOf({ spec }: Pod): readonly string[] {
    return (spec?.volumes ?? []).flatMap(({ persistentVolumeClaim: each }) => each?.claimName ?? []);
  }

  return {
    steps,
    /** Which of its volumes are attached where. */
    attachments,

    /** Makes a claim with a volume that is attached to a node. The simulated provider knows those of its driver. */
    async create(claim: string, nodeName: string, driver = simulatedDriver): Promise<void> {
      const accessModes = ['ReadWriteOnce'];
      const capacity = { storage: '1Gi' };
      const name = volumeOf(claim);
      const csi = { driver, volumeHandle: name };
      await client.create(persistentVolumes, { metadata: { name }, spec: { accessModes, capacity, csi } });
      const resources = { requests: capacity };
      await client.create(persistentVolumeClaims, {
        metadata: { namespace, name: claim },
        spec: { accessModes, resources, volumeName: name, storageClassName: '' },
      });
      await attach(claim, nodeName, driver);
      await setInUse(nodeName);
    },

    /** How many volumes of the driver the other node can have. */
    async setRoom(count: number): Promise<void> {
      const spec = { drivers: [{ name: simulatedDriver, nodeID: otherNode, allocatable: { count } }] };
      await client.create(csiNodes, { metadata: { name: otherNode }, spec });
    },

    async stop(): Promise<void> {
      await reflector.stop();
      for (const { metadata } of await attachments()) await client.delete(volumeAttachments, metadata);
      if (failures.length > 0) throw failures[0];
    },
  };
}
