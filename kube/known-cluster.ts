/** Keeps an installation in the cluster that it has its Nodes in: in another one, "not found" does not mean "gone". */
import { clusterRecordName } from '../api/names.ts';
import type { KubeClient } from './client.ts';
import { leases, namespaces } from './core.ts';
import {
  ConnectionError,
  isAlreadyExists,
  isConflict,
  isNamespaceTerminating,
  isNotFound,
  isRefused,
} from './errors.ts';
import type { Logger } from './logger.ts';

/** A namespace that every cluster has and that nobody deletes: its UID tells clusters apart. */
const systemNamespace = 'kube-system';

/** How long an answer counts, ms. */
const checkedMs = 10_000;

const request = { timeoutMs: 2_500, failFast: true } as const;

/** Where an installation remembers the cluster of its Nodes: the holder of a Lease is the UID of its kube-system. */
export interface ClusterRecord {
  /** Holds the Lease. */
  readonly control: KubeClient;
  /** The watched namespace. */
  readonly namespace: string;
  readonly installation: string;
}

/**
 * Whether a cluster is another one than the installation knows, with both UIDs and the fix. undefined: it is the same,
 * the installation knows none, or nobody may read its kube-system. Throws where an API server does not answer or
 * refuses.
 */
export async function findOtherCluster(target: KubeClient, record: ClusterRecord): Promise<string | undefined> {
  return problemOf(record, await readUids(target, record));
}

interface Uids {
  /** Of the cluster as it is; undefined: it has no kube-system. */
  readonly now: string | undefined;
  /** Of the one that the installation knows; undefined: none. */
  readonly known: string | undefined;
}

async function readUids(target: KubeClient, { control, namespace, installation }: ClusterRecord): Promise<Uids> {
  const now = await readUid(target);
  const lease = await control.find(leases, { namespace, name: clusterRecordName(installation) }, request);
  return { now, known: lease?.spec?.holderIdentity };
}

async function readUid(target: KubeClient): Promise<string | undefined> {
  return (await target.find(namespaces, { name: systemNamespace }, request))?.metadata.uid;
}

function problemOf({ namespace, installation }: ClusterRecord, { now, known }: Uids): string | undefined {
  if (now === undefined || known === undefined || now === known) return undefined;
  return (
    `the cluster of the Nodes is another one than before: the UID of its namespace ${systemNamespace} is ${now} and was ` +
    `${known}. Correct --target-kubeconfig. If the Nodes have moved on purpose: kubectl delete lease ` +
    `${clusterRecordName(installation)} -n ${namespace}`
  );
}

/**
 * Another process may have been faster: the next check compares with what that has seen. A namespace that goes
 * remembers nothing.
 */
async function remember({ control, namespace, installation }: ClusterRecord, uid: string): Promise<void> {
  const metadata = { namespace, name: clusterRecordName(installation) };
  try {
    await control.create(leases, { metadata, spec: { holderIdentity: uid } }, request);
  } catch (error) {
    if (!isAlreadyExists(error) && !isNamespaceTerminating(error)) throw error;
  }
}

/**
 * A client of the cluster of the Nodes that answers no request while that is another one than the installation knows:
 * it throws ConnectionError, as for an outage, which says nothing about a machine. So it does until the first check is
 * answered. The address may lead to another cluster while a check still counts: a list, "not found" and a conflict are
 * answered only if the UID is the same after them. Where the check is refused, such as for a missing right, requests
 * are sent, with a warning in the log.
 */
export function onlyKnownCluster(target: KubeClient, record: ClusterRecord, logger: Pick<Logger, 'warn'>): KubeClient {
  let checked: { readonly atMs: number; readonly problem: Promise<string | undefined> } | undefined;
  /** undefined before the first answer. */
  let known: { readonly problem: string | undefined; readonly uid?: string | undefined } | undefined;
  let isWarned = false;
  const readUidAfter = latest(() => readUid(target));

  async function check(): Promise<string | undefined> {
    try {
      const uids = await readUids(target, record);
      known = { problem: problemOf(record, uids), uid: uids.now };
      if (uids.now !== undefined && uids.known === undefined) await remember(record, uids.now);
    } catch (err) {
      if (!isRefused(err)) return known === undefined ? unanswered(err) : known.problem;
      known ??= { problem: undefined };
      if (!isWarned) {
        isWarned = true;
        const message = `cannot check whether the cluster of the Nodes is the same as before: allow get on the namespace ${systemNamespace} there, and get and create on leases in ${record.namespace}`;
        logger.warn({ err }, message);
      }
    }
    return known.problem;
  }

  /** The next request checks again. */
  function unanswered(err: unknown): string {
    checked = undefined;
    const reason = err instanceof Error ? err.message : String(err);
    return `cannot check whether the cluster of the Nodes is the same as before: ${reason}`;
  }

  async function refuseAnother(): Promise<void> {
    if (checked === undefined || performance.now() > checked.atMs + checkedMs) {
      checked = { atMs: performance.now(), problem: check() };
    }
    const problem = await checked.problem;
    if (problem !== undefined) throw new ConnectionError(problem, { cause: undefined, notSent: true });
  }

  /** Throws where an answer that has just come may be that of another cluster. */
  async function confirm(): Promise<void> {
    if (known?.uid === undefined) return;
    const { uid } = known;
    try {
      if ((await readUidAfter()) === uid && known.problem === undefined) return;
    } catch (err) {
      if (isRefused(err)) return;
      throw err;
    }
    checked = undefined;
    await refuseAnother();
    throw new ConnectionError('the cluster of the Nodes has changed during a request', {
      cause: undefined,
      notSent: false,
    });
  }

  /**
   * Sends a request to the known cluster.
   * @param isConfirmed whether an answer is to be confirmed; some errors always are
   */
  async function send<T>(call: () => Promise<T>, isConfirmed: (answer: T) => boolean = () => false): Promise<T> {
    await refuseAnother();
    try {
      const answer = await call();
      if (isConfirmed(answer)) await confirm();
      return answer;
    } catch (error) {
      if (isNotFound(error) || isConflict(error)) await confirm();
      throw error;
    }
  }

  return {
    server: target.server,
    get: (...args) => send(() => target.get(...args)),
    find: (...args) => send(() => target.find(...args), isMissing),
    list: (...args) => send(() => target.list(...args), always),
    async *pages(...args) {
      await refuseAnother();
      for await (const page of target.pages(...args)) {
        await confirm();
        yield page;
      }
    },
    create: (...args) => send(() => target.create(...args)),
    patch: (...args) => send(() => target.patch(...args)),
    delete: (...args) => send(() => target.delete(...args)),
    evict: (...args) => send(() => target.evict(...args)),
    async *watch(...args) {
      await refuseAnother();
      yield* target.watch(...args);
    },
    getRaw: (...args) => send(() => target.getRaw(...args)),
    close: () => target.close(),
  };
}

const isMissing = (found: unknown) => found === undefined;
const always = () => true;

/** Calls a function after each request for it: those that come while it runs share the next call. */
function latest<T>(call: () => Promise<T>): () => Promise<T> {
  let running: Promise<unknown> = Promise.resolve();
  let next: Promise<T> | undefined;
  return () => {
    next ??= running.then(() => {
      next = undefined;
      const answer = call();
      running = answer.catch(() => undefined);
      return answer;
    });
    return next;
  };
}
