/** Objects that an owner creates: pure. The client adds apiVersion and kind. */
import type { OwnerApi } from '../dialect.ts';
import { names } from '../names.ts';
import { apiVersionOf, type KubeObject, type ObjectMeta, type Resource } from '../objects.ts';
import { replicasAnnotations } from './bounds.ts';
import type { OwnerDeployment, OwnerSet } from './objects.ts';
import { nextRevision } from './revision.ts';
import { finalizersOf } from './template.ts';

/** The MachineSet of a deployment's current template; `others` are the sets it has, for the revision. */
export function toNewMachineSet(
  api: OwnerApi,
  deployment: OwnerDeployment,
  others: readonly OwnerSet[],
  { name, hash, replicas }: { name: string; hash: string; replicas: number },
) {
  const { keys } = api.owner;
  const { metadata, spec } = deployment;
  const hashed = { [keys.templateHash]: hash };
  const template = spec?.template;
  return {
    metadata: {
      name,
      namespace: metadata.namespace ?? '',
      labels: { ...template?.metadata?.labels, ...hashed },
      annotations: {
        ...copiedAnnotations(api, metadata),
        [keys.revision]: String(nextRevision(api, others)),
        ...replicasAnnotations(api, deployment),
      },
      finalizers: [api.marks.finalizer],
      ownerReferences: [ownerReference(api.kinds.deployment, metadata)],
    },
    spec: {
      replicas,
      selector: { ...spec?.selector, matchLabels: { ...spec?.selector?.matchLabels, ...hashed } },
      template: {
        ...template,
        metadata: { ...template?.metadata, labels: { ...template?.metadata?.labels, ...hashed } },
      },
      ...copiedFields(api, spec),
    },
  };
}

/** Annotations of a deployment that its sets get. */
export function copiedAnnotations({ owner }: OwnerApi, { annotations = {} }: ObjectMeta): Record<string, string> {
  const excluded = new Set([...owner.annotationsNotCopied, ...Object.values(owner.keys)]);
  return Object.fromEntries(Object.entries(annotations).filter(([key]) => !excluded.has(key)));
}

/**
 * Fields of a deployment's spec that its sets get, besides replicas, selector and template; of a set's those that it
 * has.
 */
export function copiedFields({ owner }: OwnerApi, spec: object = {}): object {
  return Object.fromEntries(Object.entries(spec).filter(([field]) => owner.copiedSpecFields.includes(field)));
}

/**
 * A Machine of a set. It has no finalizer of ours, on purpose: its own workflow adds that before the first call to a
 * cloud, so a Machine without it has no VM.
 * @param given `replaces`: name of the unhealthy machine in whose place it is made. `isKept`: its Node joins with what
 * keeps
 *   the autoscaler away
 */
export function toNewMachine(
  api: OwnerApi,
  set: OwnerSet,
  name: string,
  { replaces, isKept = false }: { readonly replaces?: string | undefined; readonly isKept?: boolean } = {},
) {
  const { owner, marks } = api;
  const { metadata } = set.spec?.template ?? {};
  const { annotations, spec } = owner.template.toMachine(set);
  const own: Record<string, string> = {
    ...(replaces !== undefined && { [names.replaces]: replaces }),
    ...(isKept && { [names.createdInRollout]: 'true' }),
  };
  return {
    metadata: {
      name,
      namespace: set.metadata.namespace ?? '',
      labels: { ...metadata?.labels },
      annotations: { ...annotations, ...own },
      finalizers: finalizersOf(set.spec?.template).filter((one) => one !== marks.finalizer),
      ownerReferences: [setReference(api, set)],
    },
    spec,
  };
}

/** The entry of metadata.ownerReferences that makes an object the controller of another. */
export function ownerReference(resource: Resource<KubeObject>, { name, uid }: Pick<ObjectMeta, 'name' | 'uid'>) {
  const { kind } = resource;
  return { apiVersion: apiVersionOf(resource), kind, name, uid, controller: true, blockOwnerDeletion: true };
}

/** The controller reference of a machine to its set. */
export function setReference({ kinds }: OwnerApi, { metadata }: OwnerSet) {
  return ownerReference(kinds.set, metadata);
}
