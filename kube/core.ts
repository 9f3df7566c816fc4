/** The built-in resources that Millwright reads or writes. */
import type {
  V1CSINodeSpec,
  V1CustomResourceDefinitionSpec,
  V1CustomResourceDefinitionStatus,
  V1LeaseSpec,
  V1NamespaceSpec,
  V1NamespaceStatus,
  V1NodeSpec,
  V1NodeStatus,
  V1PersistentVolumeClaimSpec,
  V1PersistentVolumeSpec,
  V1PodDisruptionBudgetSpec,
  V1PodDisruptionBudgetStatus,
  V1PodSpec,
  V1PodStatus,
  V1VolumeAttachmentSpec,
  V1VolumeAttachmentStatus,
} from '@kubernetes/client-node';
import { defineResource, type KubeObject } from '../api/objects.ts';

export { type Secret, secrets } from '../api/secret.ts';

/** A type of `@kubernetes/client-node` as the wire has it: what it makes a Date is a string. */
type Json<T> = T extends Date
  ? string
  : T extends readonly (infer Item)[]
    ? Json<Item>[]
    : T extends object
      ? { [Key in keyof T]: Json<T[Key]> }
      : T;

export interface Node extends KubeObject {
  spec?: Json<V1NodeSpec>;
  status?: Json<V1NodeStatus>;
}
export const nodes = defineResource<Node>({
  group: '',
  version: 'v1',
  plural: 'nodes',
  kind: 'Node',
  namespaced: false,
});

export interface Pod extends KubeObject {
  spec?: Json<V1PodSpec>;
  status?: Json<V1PodStatus>;
}
export const pods = defineResource<Pod>({ group: '', version: 'v1', plural: 'pods', kind: 'Pod', namespaced: true });

export interface ConfigMap extends KubeObject {
  data?: Record<string, string>;
  immutable?: boolean;
}
export const configMaps = defineResource<ConfigMap>({
  group: '',
  version: 'v1',
  plural: 'configmaps',
  kind: 'ConfigMap',
  namespaced: true,
});

export interface Namespace extends KubeObject {
  spec?: Json<V1NamespaceSpec>;
  status?: Json<V1NamespaceStatus>;
}
export const namespaces = defineResource<Namespace>({
  group: '',
  version: 'v1',
  plural: 'namespaces',
  kind: 'Namespace',
  namespaced: false,
});

export interface PodDisruptionBudget extends KubeObject {
  spec?: Json<V1PodDisruptionBudgetSpec>;
  status?: Json<V1PodDisruptionBudgetStatus>;
}
export const podDisruptionBudgets = defineResource<PodDisruptionBudget>({
  group: 'policy',
  version: 'v1',
  plural: 'poddisruptionbudgets',
  kind: 'PodDisruptionBudget',
  namespaced: true,
});

export interface PersistentVolumeClaim extends KubeObject {
  spec?: Json<V1PersistentVolumeClaimSpec>;
}
export const persistentVolumeClaims = defineResource<PersistentVolumeClaim>({
  group: '',
  version: 'v1',
  plural: 'persistentvolumeclaims',
  kind: 'PersistentVolumeClaim',
  namespaced: true,
});

export interface PersistentVolume extends KubeObject {
  spec?: Json<V1PersistentVolumeSpec>;
}
export const persistentVolumes = defineResource<PersistentVolume>({
  group: '',
  version: 'v1',
  plural: 'persistentvolumes',
  kind: 'PersistentVolume',
  namespaced: false,
});

export interface VolumeAttachment extends KubeObject {
  spec?: Json<V1VolumeAttachmentSpec>;
  status?: Json<V1VolumeAttachmentStatus>;
}
export const volumeAttachments = defineResource<VolumeAttachment>({
  group: 'storage.k8s.io',
  version: 'v1',
  plural: 'volumeattachments',
  kind: 'VolumeAttachment',
  namespaced: false,
});

export interface CsiNode extends KubeObject {
  spec?: Json<V1CSINodeSpec>;
}
export const csiNodes = defineResource<CsiNode>({
  group: 'storage.k8s.io',
  version: 'v1',
  plural: 'csinodes',
  kind: 'CSINode',
  namespaced: false,
});

/** `acquireTime` and `renewTime` are MicroTime: six digits after the second (`toMicroTime` in events.ts). */
export interface Lease extends KubeObject {
  spec?: Json<V1LeaseSpec>;
}
export const leases = defineResource<Lease>({
  group: 'coordination.k8s.io',
  version: 'v1',
  plural: 'leases',
  kind: 'Lease',
  namespaced: true,
});

/** An Event of `events.k8s.io/v1`; kubectl shows it as any other. */
export interface Event extends KubeObject {
  /** MicroTime. */
  eventTime: string;
  reportingController: string;
  reportingInstance: string;
  action: string;
  /** At most 128 characters, CamelCase. */
  reason: string;
  type: 'Normal' | 'Warning';
  /** At most 1024 bytes. */
  note: string;
  regarding: { apiVersion: string; kind: string; namespace?: string; name: string; uid: string };
  series?: { count: number; lastObservedTime: string };
}
export const events = defineResource<Event>({
  group: 'events.k8s.io',
  version: 'v1',
  plural: 'events',
  kind: 'Event',
  namespaced: true,
});

export interface CustomResourceDefinition extends KubeObject {
  spec: Json<V1CustomResourceDefinitionSpec>;
  status?: Json<V1CustomResourceDefinitionStatus>;
}
export const customResourceDefinitions = defineResource<CustomResourceDefinition>({
  group: 'apiextensions.k8s.io',
  version: 'v1',
  plural: 'customresourcedefinitions',
  kind: 'CustomResourceDefinition',
  namespaced: false,
});
