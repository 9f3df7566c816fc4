import { dialectOf } from '../../api/dialects.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import type { SourceSnapshot } from '../../api/model/source.ts';
import type { KubeClient } from '../../kube/client.ts';
import { coalesceReads } from '../../kube/shared-finds.ts';
import { localRequestOptions } from '../local-request.ts';

/** How long a reading of a source serves machines of which a watcher has seen the same version of it, ms. */
const sharedMs = 30_000;

/** @param deps `control` holds the sources and their Secrets. */
export function createSourceActivities({ control }: { readonly control: KubeClient }) {
  const find = coalesceReads(control, { ...localRequestOptions, timeoutMs: localRequestOptions.timeoutMs / 2 }); // some wait for two
  const recent = new Map<string, { readonly reading: SourceSnapshot; readonly untilMs: number }>();

  return {
    /**
     * Reads the source of a machine. What is wrong with it, or with its Secrets, is in the answer, not an error.
     * @param seenVersion as a watcher has seen it. A reading of this version may be 30 s old; without it none is.
     */
    async readSource(ref: ObjectRef, source: string, seenVersion?: string): Promise<SourceSnapshot> {
      const { dialect, namespace } = ref;
      const key = [dialect, namespace, source].join('/');
      const known = recent.get(key);
      if (known !== undefined && known.reading.version === seenVersion && performance.now() < known.untilMs)
        return known.reading;
      const nowMs = performance.now();
      const reading = await dialectOf(dialect).source.read(find, ref, source);
      for (const [each, { untilMs }] of recent) if (untilMs < nowMs) recent.delete(each);
      const isGood = reading.problem === undefined && reading.refusal === undefined;
      // A check reads without a version, and is about to write a verdict.
      if (isGood && seenVersion !== undefined) recent.set(key, { reading, untilMs: nowMs + sharedMs });
      return reading;
    },
  };
}
