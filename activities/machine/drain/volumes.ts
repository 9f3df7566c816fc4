/** Which PersistentVolumes the pods of a node use. */
import type { KubeClient } from '../../../kube/client.ts';
import { type PersistentVolume, type Pod, persistentVolumeClaims, persistentVolumes } from '../../../kube/core.ts';

/** Whether a volume is one of the machine's cloud, as its provider says. */
export type KnownVolumes = Readonly<Record<string, VolumeOfCloud | null>>;

/** A volume that the drain waits for. */
export interface VolumeOfCloud {
  /** In the cloud; left out where the provider could not be asked: VolumeAttachments then say alone where it is. */
  readonly id?: string;
}

/** A PersistentVolume. */
export interface Volume {
  readonly name: string;
  /** Of the CSI driver that attaches it; empty without one. */
  readonly driver: string;
  /** What the provider recognises it by: its source, without what may be confidential. */
  readonly spec: object;
}

export type ReadVolumes = ReturnType<typeof volumeReader>;

/** Reads volumes once for each drain. A claim that is not bound has none. */
export function volumeReader(target: KubeClient, signal: AbortSignal) {
  const volumes = new Map<string, Promise<Volume | undefined>>();
  const claims = new Map<string, Promise<Volume | undefined>>();

  function read(name: string): Promise<Volume | undefined> {
    return remember(volumes, name, async () => {
      const found = await target.find(persistentVolumes, { name }, { signal });
      return found && toVolume(found);
    });
  }

  function readOfClaim(namespace: string, name: string): Promise<Volume | undefined> {
    return remember(claims, `${namespace}/${name}`, async () => {
      const claim = await target.find(persistentVolumeClaims, { namespace, name }, { signal });
      const volumeName = claim?.spec?.volumeName;
      return volumeName ? read(volumeName) : undefined;
    });
  }

  return {
    /** The volume of this name; undefined when there is none. */
    read,
    /** The volumes that a pod claims. */
    async readOf(pod: Pod): Promise<readonly Volume[]> {
      const { namespace = '' } = pod.metadata;
      const found = await Promise.all(claimsOf(pod).map((name) => readOfClaim(namespace, name)));
      return found.filter((volume) => volume !== undefined);
    },
  };
}

async function remember<T>(known: Map<string, Promise<T>>, key: string, read: () => Promise<T>): Promise<T> {
  const answer = known.get(key) ?? read();
  known.set(key, answer);
  try {
    return await answer;
  } catch (error) {
    known.delete(key);
    throw error;
  }
}

/** Whether the pod claims volumes, bound or not. Those of a pod that has finished are detached as if it were gone. */
export function hasClaims(pod: Pod): boolean {
  return claimsOf(pod).length > 0;
}

function claimsOf({ metadata, spec, status }: Pod): readonly string[] {
  if (status?.phase === 'Succeeded' || status?.phase === 'Failed') return [];
  const claims = (spec?.volumes ?? []).flatMap(({ name, persistentVolumeClaim, ephemeral }) => {
    if (persistentVolumeClaim !== undefined) return [persistentVolumeClaim.claimName];
    return ephemeral === undefined ? [] : [`${metadata.name}-${name}`];
  });
  return [...new Set(claims)]; // a pod may have one twice
}

/** The drivers to which Kubernetes hands the volumes of its former plugins, by the field of the PersistentVolume. */
const migratedDrivers: Readonly<Record<string, string>> = {
  awsElasticBlockStore: 'ebs.csi.aws.com',
  azureDisk: 'disk.csi.azure.com',
  azureFile: 'file.csi.azure.com',
  cinder: 'cinder.csi.openstack.org',
  gcePersistentDisk: 'pd.csi.storage.gke.io',
  portworxVolume: 'pxd.portworx.com',
  vsphereVolume: 'csi.vsphere.vmware.com',
};

/** The spec goes into the history of the workflow, without what may have passwords or is long. */
function toVolume({ metadata: { name }, spec = {} }: PersistentVolume): Volume {
  const { csi, ...source } = spec;
  for (const key of ['flexVolume', 'mountOptions', 'claimRef', 'nodeAffinity'] as const) delete source[key];
  const { driver = '', volumeHandle } = csi ?? {};
  const migrated = Object.keys(source).find((field) => Object.hasOwn(migratedDrivers, field)) ?? '';
  return {
    name,
    driver: driver || (migratedDrivers[migrated] ?? ''),
    spec: { ...source, ...(csi && { csi: { driver, volumeHandle } }) },
  };
}
