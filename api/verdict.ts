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
export function verdictOf({ metadata }: Pick<KubeObject, 'metadata'>): Verdict | undefined {
  try {
    return Verdict.safeParse(JSON.parse(metadata.annotations?.[names.verdict] ?? '')).data;
  } catch {
    return undefined;
  }
}

/** The annotations of a source object that has this verdict. */
export function verdictAnnotations(verdict: Verdict): Readonly<Record<string, string>> {
  return { [names.verdict]: JSON.stringify(verdict), [names.accepted]: String(verdict.problems.length === 0) };
}
