/** Objects that an owner makes, and what it writes about itself: pure. */

import { annotations, annotationsNotCopied, apiVersion, finalizers, labels, priorities } from '../gardener/names.ts';
import type { Machine } from '../gardener/schema/machine.ts';
import type { MachineDeployment } from '../gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../gardener/schema/machine-set.ts';
import { replicasAnnotations } from './bounds.ts';
import { nextRevision } from './revision.ts';

/** The MachineSet of a deployment's present template; `others` are the sets it has, for the revision. */
export function toNewMachineSet(
  deployment: MachineDeployment,
  others: readonly MachineSet[],
  { name, hash, replicas }: { name: string; hash: string; replicas: number },
) {
  const { metadata, spec } = deployment;
  const copied = Object.entries(metadata.annotations ?? {}).filter(
    ([key]) => !(annotationsNotCopied as readonly string[]).includes(key),
  );
  const hashed = { [labels.templateHash]: hash };
  const template = spec?.template;
  return {
    metadata: {
      name,
      namespace: metadata.namespace ?? '',
      labels: { ...template?.metadata?.labels, ...hashed },
      annotations: {
        ...Object.fromEntries(copied),
        [annotations.revision]: String(nextRevision(others)),
        ...replicasAnnotations(deployment),
      },
      finalizers: [finalizers.machine],
      ownerReferences: [ownerReference('MachineDeployment', metadata)],
    },
    spec: {
      replicas,
      selector: { ...spec?.selector, matchLabels: { ...spec?.selector?.matchLabels, ...hashed } },
      template: {
        ...template,
        metadata: { ...template?.metadata, labels: { ...template?.metadata?.labels, ...hashed } },
      },
      ...(spec?.minReadySeconds !== undefined && { minReadySeconds: spec.minReadySeconds }),
      ...(spec?.autoPreserveFailedMachineMax !== undefined && {
        autoPreserveFailedMachineMax: spec.autoPreserveFailedMachineMax,
      }),
    },
  };
}

/**
 * A Machine of a set. Without our finalizer, on purpose: its own workflow puts that on before the first call to a cloud,
 * so that a Machine without it is known to have no VM.
 */
export function toNewMachine(set: MachineSet, name: string) {
  const { metadata, spec } = set.spec?.template ?? {};
  const creationTimeout = set.metadata.annotations?.[annotations.effectiveCreationTimeout];
  const own: unknown[] = Array.isArray(metadata?.['finalizers']) ? metadata['finalizers'] : [];
  return {
    metadata: {
      name,
      namespace: set.metadata.namespace ?? '',
      labels: metadata?.labels ?? {},
      annotations: {
        ...metadata?.annotations,
        [annotations.priority]: metadata?.annotations?.[annotations.priority] ?? priorities.default,
        ...(creationTimeout !== undefined && { [annotations.effectiveCreationTimeout]: creationTimeout }),
      },
      finalizers: own.filter((name) => typeof name === 'string').filter((name) => name !== finalizers.machine),
      ownerReferences: [ownerReference('MachineSet', set.metadata)],
    },
    spec: { ...spec, ...(creationTimeout !== undefined && { creationTimeout }) },
  };
}

function ownerReference(kind: string, { name, uid }: Machine['metadata']) {
  return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true };
}
