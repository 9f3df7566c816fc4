import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import type { KubeObject, ObjectKey, Resource } from '../api/objects.ts';
import type { KubeClient, RequestOptions } from './client.ts';

/** `find` of a client, with options that are the same for all callers. */
export type SharedFind = <T extends KubeObject>(resource: Resource<T>, key: ObjectKey) => Promise<T | undefined>;

interface Read<T> {
  readonly answer: Promise<T>;
  /** Until it is, every caller gets its answer. */
  isSent: boolean;
  /** The read for callers that came after this one was sent. */
  next?: Promise<T>;
}

/**
 * Reads something once for all callers of the same moment. Callers that come after a read was sent share the next one,
 * so that no answer is older than its question.
 * @param gatherMs how long a read waits for more callers. 0: until the next turn of the event loop
 */
export function coalesce<T>(gatherMs = 0): (id: string, send: () => Promise<T>) => Promise<T> {
  const underWay = new Map<string, Read<T>>();

  function start(id: string, send: () => Promise<T>): Promise<T> {
    const sendTogether = async () => {
      await (gatherMs === 0 ? turn() : sleep(gatherMs));
      read.isSent = true;
      return send();
    };
    const answer = sendTogether();
    const read: Read<T> = { answer, isSent: false };
    underWay.set(id, read);
    const end = () => {
      if (read.next === undefined) underWay.delete(id);
    };
    answer.then(end, end);
    return answer;
  }

  return (id, send) => {
    const read = underWay.get(id);
    if (read === undefined) return start(id, send);
    if (!read.isSent) return read.answer;
    const again = () => start(id, send);
    read.next ??= read.answer.then(again, again);
    return read.next;
  };
}

/** Objects that many read at once: a hundred machines that start together read their class a few times. */
export function coalesceReads(
  client: KubeClient,
  options: Omit<RequestOptions, 'signal'> = {},
  gatherMs = 0,
): SharedFind {
  const share = coalesce<KubeObject | undefined>(gatherMs);
  return <T extends KubeObject>(resource: Resource<T>, key: ObjectKey) => {
    const id = `${resource.group}/${resource.plural}/${key.namespace ?? ''}/${key.name}`;
    return share(id, () => client.find(resource, key, options)) as Promise<T | undefined>; // one id is one resource
  };
}
