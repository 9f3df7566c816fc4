/** Objects that an owner makes, and what it writes about itself: pure. */
import type { Machine } from './machine.ts';
import type { MachineDeployment } from './machine-deployment.ts';
import type { MachineSet } from './machine-set.ts';
import { annotations, annotationsNotCopied, apiVersion, finalizers, labels, priorities } from './names.ts';
import { toKubernetesTime } from './to-model.ts';

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
  const revision = 1 + Math.max(0, ...others.map(revisionOf));
  const hashed = { [labels.templateHash]: hash };
  const template = spec?.template;
  return {
    metadata: {
      name,
      namespace: metadata.namespace ?? '',
      labels: { ...template?.metadata?.labels, ...hashed },
      annotations: {
        ...Object.fromEntries(copied),
        [annotations.revision]: String(revision),
        [annotations.desiredReplicas]: String(spec?.replicas ?? 0),
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

/** 0 for a set without a revision, or with one that is no number. */
function revisionOf({ metadata }: MachineSet): number {
  return Number(metadata.annotations?.[annotations.revision]) || 0;
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

/** A status patch that notes the generation and the reason of Progressing, or undefined when both are there. */
export function withProgress(deployment: MachineDeployment, reason: string | undefined, now: Date): object | undefined {
  const { metadata, status } = deployment;
  const conditions = status?.conditions ?? [];
  const present = conditions.find(({ type }) => type === 'Progressing');
  const isNoted = status?.observedGeneration === metadata.generation;
  if (isNoted && (reason === undefined || present?.reason === reason)) return undefined;

  const time = toKubernetesTime(now);
  const progressing = {
    type: 'Progressing',
    status: 'True',
    lastUpdateTime: time,
    lastTransitionTime: present?.status === 'True' ? present.lastTransitionTime : time,
    reason,
    message: `The rollout of MachineDeployment "${metadata.name}": ${reason}.`,
  };
  const others = conditions.filter(({ type }) => type !== 'Progressing');
  return {
    status: {
      observedGeneration: metadata.generation,
      ...(reason !== undefined && present?.reason !== reason && { conditions: [...others, progressing] }),
    },
  };
}
