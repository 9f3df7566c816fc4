/** The tags that the VM of a Machine has of its source. They are kept on the Machine, so that an edit of the source is seen. */
import { z } from 'zod';
import { names } from './names.ts';
import type { KubeObject } from './objects.ts';

type Annotated = Pick<KubeObject, 'metadata'>;
type Tags = Readonly<Record<string, string>>;
/** null for the value of a tag that may be on some parts of the VM only. */
type NotedTags = Readonly<Record<string, string | null>>;

/** Tags that a Machine says its VM has; undefined where it says nothing that can be read. */
function vmTagsOf({ metadata }: Annotated): NotedTags | undefined {
  try {
    const noted = JSON.parse(metadata.annotations?.[names.vmTags] ?? '');
    return z.record(z.string(), z.string().nullable()).safeParse(noted).data;
  } catch {
    return undefined;
  }
}

/** The annotation of a Machine whose VM has these tags of its source. */
export function withVmTags(tags: NotedTags): Readonly<Record<string, string>> {
  return { [names.vmTags]: JSON.stringify(tags) };
}

/** The annotation of a Machine whose VM was to get `tags`, where it is unknown which of its parts have them. */
export function withUncertainVmTags(machine: Annotated, tags: Tags): Readonly<Record<string, string>> {
  const before = vmTagsOf(machine) ?? {};
  const keys = [...new Set([...Object.keys(before), ...Object.keys(tags)])];
  return withVmTags(
    Object.fromEntries(keys.map((key) => [key, before[key] === tags[key] ? (before[key] ?? null) : null])),
  );
}

/** Keys that have to be removed from a VM that is to have `tags`; undefined where it has them. `unknown`: it says nothing. */
export function tagsToRemove(machine: Annotated, tags: Tags): readonly string[] | 'unknown' | undefined {
  if (machine.metadata.annotations?.[names.vmTags] === JSON.stringify(tags)) return undefined; // nearly always so
  const before = vmTagsOf(machine);
  if (before === undefined) return 'unknown';
  const removed = Object.keys(before).filter((key) => tags[key] === undefined);
  const isSame = removed.length === 0 && Object.entries(tags).every(([key, value]) => before[key] === value);
  return isSame ? undefined : removed;
}
