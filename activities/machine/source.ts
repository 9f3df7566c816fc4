import { dialectOf } from '../../api/dialects.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import type { SourceSnapshot } from '../../api/model/source.ts';
import type { KubeClient } from '../../kube/client.ts';
import { coalesceReads } from '../../kube/shared-finds.ts';
import { localRequestOptions } from '../local-request.ts';

/** @param deps `control` holds the sources and their Secrets. */
export function createClassActivities({ control }: { readonly control: KubeClient }) {
  const find = coalesceReads(control, { ...localRequestOptions, timeoutMs: localRequestOptions.timeoutMs / 2 }); // some wait for two
  return {
    /** Reads the source of a machine. What is wrong with it, or with its Secrets, is in the answer, not an error. */
    readClass(ref: ObjectRef, source: string): Promise<SourceSnapshot> {
      return dialectOf(ref.dialect).source.read(find, ref, source);
    },
  };
}
