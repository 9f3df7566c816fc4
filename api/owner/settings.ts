/** What machines and sets that exist get from the template above them, without being replaced: pure. */
import type { OwnerApi } from '../dialect.ts';
import type { KubeObject } from '../objects.ts';
import { canonical } from './canonical.ts';
import { isActive } from './machines.ts';
import { copiedAnnotations, copiedFields } from './new-objects.ts';
import type { OwnerDeployment, OwnerSet } from './objects.ts';

/**
 * Merge patch that gives the set of the current template what its deployment says by now; undefined: it has that. Of
 * the annotations none is removed, as others may have written them.
 */
export function settingsOfSet(
  api: OwnerApi,
  { metadata, spec }: OwnerDeployment,
  set: OwnerSet,
): { readonly metadata: { readonly annotations: object }; readonly spec: object } | undefined {
  const wanted = Object.entries(copiedAnnotations(api, metadata));
  const annotations = wanted.filter(([key, value]) => set.metadata.annotations?.[key] !== value);
  const { settingsOf, isSameSetting } = api.owner.template;
  const copied = difference(copiedFields(api, set.spec), copiedFields(api, spec), isSameSetting);
  const ofMachines = difference(settingsOf(set.spec?.template?.spec), settingsOf(spec?.template?.spec), isSameSetting);
  if (annotations.length === 0 && copied === undefined && ofMachines === undefined) return undefined;
  return {
    metadata: { annotations: Object.fromEntries(annotations) },
    spec: { ...copied, ...(ofMachines && { template: { spec: ofMachines } }) },
  };
}

/** Merge patch that gives a machine what the template of its set says by now; undefined: it has that. */
export function settingsOfMachine(
  { owner }: OwnerApi,
  set: OwnerSet,
  machine: KubeObject & { readonly spec?: object },
): object | undefined {
  const { settingsOf, isSameSetting } = owner.template;
  const wanted = settingsOf(set.spec?.template?.spec, machine);
  const spec = difference(settingsOf(machine.spec), wanted, isSameSetting);
  return spec && { spec };
}

/**
 * Whether a machine lacks what the template of its set says by now. One that has failed or is being deleted needs it no
 * more.
 */
export function isBehind(api: OwnerApi, set: OwnerSet, machine: KubeObject): boolean {
  const isNeeded = isActive(api, machine) && api.owner.machines.stageOf(machine) !== 'failed';
  return isNeeded && settingsOfMachine(api, set, machine) !== undefined;
}

/**
 * Merge patch (RFC 7386) that makes `wanted` of what an object has; undefined: it is that. Null, an empty object and an
 * empty list count as left out: API servers and other writers leave them out, too.
 * @param isSame of fields of the outermost object; default: they are equal
 */
export function difference(
  has: object,
  wanted: object,
  isSame = (_field: string, a: unknown, b: unknown): boolean => a === b,
): object | undefined {
  const patch: Record<string, unknown> = {};
  const [before, after] = [present(has), present(wanted)];
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [old, next] = [before[key], after[key]];
    if (isObject(next)) {
      const change = difference(isObject(old) ? old : {}, next);
      if (change !== undefined) patch[key] = change;
    } else if (Array.isArray(next) ? canonical(old) !== canonical(next) : !isSame(key, old, next)) {
      patch[key] = next ?? null;
    }
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}

function present(value: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => !isEmpty(each)));
}

function isEmpty(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0;
  return value === null || value === undefined || (isObject(value) && Object.keys(present(value)).length === 0);
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
