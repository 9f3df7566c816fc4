/**
 * The tags that the VM of a Machine has of its source. They are kept on the Machine, so that an edit of the source is
 * seen.
 */
import { z } from 'zod';
import type { MachineSnapshot, MachineStage } from './model/machine.ts';
import { names } from './names.ts';
import type { KubeObject } from './objects.ts';

type Annotated = Pick<KubeObject, 'metadata'>;
type Tags = Readonly<Record<string, string>>;
/** null for the value of a tag that may be on some parts of the VM only. */
type NotedTags = Readonly<Record<string, string | null>>;
const Noted = z.record(z.string(), z.string().nullable());

const inCreation: readonly MachineStage[] = ['new', 'creating', 'joining', 'deleting'];

/**
 * Whether the tags of a machine's VM follow its source: its Node has joined, so its cloud lists all that was made for
 * it.
 */
export function isTagged({ providerID, deletingSince, stage }: MachineSnapshot): boolean {
  return providerID !== undefined && deletingSince === undefined && !inCreation.includes(stage);
}

/** The annotation of a Machine whose VM has these tags of its source. */
export function withVmTags(tags: NotedTags): Readonly<Record<string, string>> {
  const sorted = Object.entries(tags).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return { [names.vmTags]: JSON.stringify(Object.fromEntries(sorted)) };
}

/** The annotation of a Machine whose VM is being given `tags`, where it is unknown which of its parts have them. */
export function withUncertainVmTags(machine: Annotated, tags: Tags): Readonly<Record<string, string>> {
  const before = read(vmTagsOf(machine)) ?? {};
  const keys = [...new Set([...Object.keys(before), ...Object.keys(tags)])];
  const certain = (key: string) => (valueOf(before, key) === valueOf(tags, key) ? (before[key] ?? null) : null);
  return withVmTags(Object.fromEntries(keys.map((key) => [key, certain(key)])));
}

/** What a Machine says of the tags of its VM, as text to compare; undefined: nothing. */
export function vmTagsOf({ metadata }: Annotated): string | undefined {
  return metadata.annotations?.[names.vmTags];
}

/** How the tags of a VM have to be changed. */
export interface VmTagChange {
  /** Keys. Left out where the Machine says nothing of its VM's tags. */
  readonly removed?: readonly string[];
}

/** Makes the function that finds how the VM of a Machine gets `tags`; undefined: it has them. */
export function toTagChange(tags: Tags): (machine: Annotated) => VmTagChange | undefined {
  const wanted = withVmTags(tags)[names.vmTags];
  return (machine) => {
    const text = vmTagsOf(machine);
    if (text === wanted) return undefined; // nearly always so
    if (text === undefined) return {};
    const before = read(text);
    if (before === undefined) return { removed: [] };
    const removed = Object.keys(before).filter((key) => !Object.hasOwn(tags, key));
    const isSame = removed.length === 0 && Object.keys(tags).every((key) => valueOf(before, key) === tags[key]);
    return isSame ? undefined : { removed };
  };
}

function valueOf(tags: NotedTags, key: string): string | null | undefined {
  return Object.hasOwn(tags, key) ? tags[key] : undefined;
}

function read(text: string | undefined): NotedTags | undefined {
  try {
    return Noted.safeParse(JSON.parse(text ?? '')).data;
  } catch {
    return undefined;
  }
}
