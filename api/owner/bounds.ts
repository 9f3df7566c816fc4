/** How far the number of machines may be from what is asked for: pure. */

import { annotations } from '../gardener/names.ts';
import type { MachineDeployment } from '../gardener/schema/machine-deployment.ts';

/** Bounds of a deployment's strategy, in machines. */
export interface Bounds {
  /** Machines that may exist above replicas. */
  readonly maxSurge: number;
  /** Machines that may be missing: at least 1 where nothing may be too many, and never more than replicas. */
  readonly maxUnavailable: number;
}

/** As in Kubernetes: percentages of the surge round up, those of what may be missing down. */
export function boundsOf(spec: MachineDeployment['spec']): Bounds {
  const { type, rollingUpdate, inPlaceUpdate } = spec?.strategy ?? {};
  const block = { RollingUpdate: rollingUpdate, InPlaceUpdate: inPlaceUpdate }[type ?? ''];
  const replicas = spec?.replicas ?? 0;
  const maxSurge = resolve(block?.maxSurge, replicas, Math.ceil);
  const unavailable = resolve(block?.maxUnavailable, replicas, Math.floor);
  const isStuck = maxSurge === 0 && unavailable === 0;
  return { maxSurge, maxUnavailable: Math.min(isStuck ? 1 : unavailable, replicas) };
}

function resolve(value: number | string | undefined, replicas: number, round: (x: number) => number): number {
  if (typeof value !== 'string') return value ?? 0;
  return isPercentage(value) ? round((replicas * Number.parseInt(value, 10)) / 100) : 0;
}

/** Whether a text is a percentage such as '25%'. */
export function isPercentage(text: string): boolean {
  return /^[0-9]+%$/.test(text);
}

/** Annotations by which a set knows what its deployment asks for. @param told replicas that it tells, see `replicasToAnnounce` */
export function replicasAnnotations({ spec }: MachineDeployment, told = spec?.replicas ?? 0) {
  return {
    [annotations.desiredReplicas]: String(told),
    [annotations.maxReplicas]: String((spec?.replicas ?? 0) + boundsOf(spec).maxSurge),
  };
}
