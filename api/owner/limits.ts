/** The annotations by which an owner takes part in limits of its namespace: pure. */
import type { Limits } from '../model/limits.ts';
import { names } from '../names.ts';
import type { KubeObject } from '../objects.ts';

const annotations = { surge: names.maxSurge, provisioning: names.maxProvisioning } as const;

/**
 * The limits that an owner takes part in; undefined: none. Values that are no limit are left out: see problemOfLimits.
 */
export function limitsOf({ metadata }: Pick<KubeObject, 'metadata'>): Limits | undefined {
  const found = Object.entries(annotations).flatMap(([limit, key]) => {
    const value = metadata.annotations?.[key];
    return value !== undefined && isLimit(value) ? [[limit, Number(value)] as const] : [];
  });
  return found.length === 0 ? undefined : Object.fromEntries(found);
}

/** What is wrong with the annotations, with the value and the fix; undefined when nothing is. */
export function problemOfLimits({ metadata }: Pick<KubeObject, 'metadata'>): string | undefined {
  for (const key of Object.values(annotations)) {
    const value = metadata.annotations?.[key];
    if (value === undefined || isLimit(value)) continue;
    return `metadata.annotations['${key}'] is '${value}': set it to a whole number from 1 to 99999, or remove it`;
  }
  return undefined;
}

function isLimit(value: string): boolean {
  return /^[1-9][0-9]{0,4}$/.test(value);
}
