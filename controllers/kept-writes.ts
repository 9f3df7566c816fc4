/** Writes of controllers that are not kept: a change of any object would have them made again. */
import type { ObjectKey } from '../api/objects.ts';
import { isPaced, nextRepeat, type Repeat, repeatedAtMs } from '../api/repeats.ts';
import type { KubeClient } from '../kube/client.ts';
import type { Logger } from '../kube/logger.ts';
import { NotDueError } from './queue.ts';

/** Two resyncs, ms: the same write of each resync is a repetition. */
const soonMs = 120_000;
const maxKnown = 10_000;
/** They differ each time that the same is written. */
const volatile = /"resourceVersion":"\d+"|\d{4}-\d\d-\d\dT[\d:.]+Z/g;

/** The client, whose patches of an object throw NotDueError where the same one has had no effect a moment ago. */
export function withKeptWrites(client: KubeClient, logger: Logger): KubeClient {
  const known = new Map<string, Repeat>();

  function refuseHeld(name: string, text: string): void {
    const last = known.get(name);
    const nowMs = performance.now();
    if (last?.text === text && nowMs < repeatedAtMs(last)) throw new NotDueError(repeatedAtMs(last) - nowMs);
  }

  /** Only what the API server has accepted counts: what has failed says nothing of what is kept. */
  function note(name: string, text: string): void {
    const next = nextRepeat(known.get(name), text, performance.now(), soonMs);
    if (isPaced(next)) logger.warn({ object: name, times: next.times }, 'the API server does not keep what is written');
    known.delete(name);
    known.set(name, next); // the last one again
    const [oldest] = known.keys();
    if (known.size > maxKnown && oldest !== undefined) known.delete(oldest);
  }

  return {
    ...client,
    async patch(resource, key, patch, options) {
      const { namespace = '', name }: ObjectKey = key;
      const path = [resource.plural, namespace, name, options?.subresource].filter(Boolean).join('/');
      const text = JSON.stringify(patch.body).replaceAll(volatile, '');
      refuseHeld(path, text);
      const answer = await client.patch(resource, key, patch, options);
      note(path, text);
      return answer;
    },
  };
}
