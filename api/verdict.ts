/** What is wrong with a source of machines. It is kept on the source object, so that Machines need not ask for it. */
import { z } from 'zod';
import { names } from './names.ts';
import type { KubeObject } from './objects.ts';

/** What was found when a version of a source was checked. */
export const Verdict = z.object({
  version: z.string().describe('Of the source and its Secrets. The verdict counts only for this one.'),
  problems: z.array(z.string()).describe('Empty: accepted.'),
  tags: z.record(z.string(), z.string()).optional().describe('Of its VMs. Left out where the provider changes none.'),
  interruptionScope: z
    .string()
    .optional()
    .describe(
      'Equal for sources whose interruptions are listed together. Left out where none of its VMs is taken away.',
    ),
});
export type Verdict = z.infer<typeof Verdict>;

/** The verdict on a source object; undefined where it has none that can be read. */
export function verdictOf(source: Annotated): Verdict | undefined {
  return Verdict.safeParse(readJson(source, names.verdict)).data;
}

type Annotated = Pick<KubeObject, 'metadata'>;
type Tags = Readonly<Record<string, string>>;

/** Tags that all VMs of a source have; null for the value of one that only some may have. undefined: that is not known. */
export function vmTagsOf(source: Annotated): Readonly<Record<string, string | null>> | undefined {
  return z.record(z.string(), z.string().nullable()).safeParse(readJson(source, names.vmTags)).data;
}

/** The annotation of a source object whose VMs are being given these tags. */
export function vmTagsDuring(source: Annotated, tags: Tags): Readonly<Record<string, string>> {
  const before = vmTagsOf(source) ?? {};
  const keys = [...new Set([...Object.keys(before), ...Object.keys(tags)])];
  const certain = keys.map((key) => [key, before[key] === tags[key] ? before[key] : null]);
  return { [names.vmTags]: JSON.stringify(Object.fromEntries(certain)) };
}

/** How the VMs of an accepted source have to be tagged anew; undefined where they are as it says, or nobody knows. */
export function tagChangeOf(source: Annotated): { readonly tags: Tags; readonly removedTags: string[] } | undefined {
  const { problems = [], tags } = verdictOf(source) ?? {};
  const before = vmTagsOf(source);
  if (tags === undefined || before === undefined || problems.length > 0) return undefined;
  const removedTags = Object.keys(before).filter((key) => tags[key] === undefined);
  const isSame = removedTags.length === 0 && Object.entries(tags).every(([key, value]) => before[key] === value);
  return isSame ? undefined : { tags, removedTags };
}

function readJson({ metadata }: Annotated, annotation: string): unknown {
  try {
    return JSON.parse(metadata.annotations?.[annotation] ?? '');
  } catch {
    return undefined;
  }
}

/** The annotation of a source object that has this verdict. */
export function verdictAnnotation(verdict: Verdict): Readonly<Record<string, string>> {
  return { [names.verdict]: JSON.stringify(verdict) };
}
