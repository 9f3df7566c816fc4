import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import type { KubeObject, ObjectKey, Resource } from '../api/objects.ts';
import type { KubeClient, RequestOptions } from './client.ts';

/** `find` of a client, with options that are the same for all callers. */
export type SharedFind = <T extends KubeObject>(resource: Resource<T>, key: ObjectKey) => Promise<T | undefined>;

interface Read {
  readonly answer: Promise<KubeObject | undefined>;
  /** Until it is, every caller gets its answer. */
  isSent: boolean;
  /** The read for callers that came after this one was sent. */
  next?: Promise<KubeObject | undefined>;
}

/**
 * Reads an object once for all callers of the same moment. Callers that come after a read was sent share the next one, so
 * that no answer is older than its question: a hundred machines that start at once read their class a few times.
 * @param gatherMs how long a read waits for more callers. 0: until the next turn of the event loop
 */
export function coalesceReads(
  client: KubeClient,
  options: Omit<RequestOptions, 'signal'> = {},
  gatherMs = 0,
): SharedFind {
  const underWay = new Map<string, Read>();

  function start<T extends KubeObject>(id: string, resource: Resource<T>, key: ObjectKey): Promise<T | undefined> {
    const send = async () => {
      await (gatherMs === 0 ? turn() : sleep(gatherMs));
      read.isSent = true;
      return client.find(resource, key, options);
    };
    const answer = send();
    const read: Read = { answer, isSent: false };
    underWay.set(id, read);
    const end = () => {
      if (read.next === undefined) underWay.delete(id);
    };
    answer.then(end, end);
    return answer;
  }

  return <T extends KubeObject>(resource: Resource<T>, key: ObjectKey) => {
    const id = `${resource.group}/${resource.plural}/${key.namespace ?? ''}/${key.name}`;
    const read = underWay.get(id);
    if (read === undefined) return start(id, resource, key);
    if (!read.isSent) return read.answer as Promise<T | undefined>; // one id is one resource
    const again = () => start(id, resource, key);
    read.next ??= read.answer.then(again, again);
    return read.next as Promise<T | undefined>;
  };
}
