/** Keeps an installation in the cluster that it has its Nodes in: in another one, "not found" does not mean "gone". */
import type { KubeClient } from './client.ts';
import { leases, namespaces } from './core.ts';
import { ConnectionError, isAlreadyExists, isNamespaceTerminating, isRefused } from './errors.ts';
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

/** Name of the Lease. */
export function clusterRecordName(installation: string): string {
  return `millwright-${installation}-target`;
}

/**
 * Whether a cluster is another one than the installation knows, with both UIDs and the fix. undefined: it is the same, the
 * installation knows none, or nobody may read its kube-system. Throws where an API server does not answer or refuses.
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
  const now = (await target.find(namespaces, { name: systemNamespace }, request))?.metadata.uid;
  const lease = await control.find(leases, { namespace, name: clusterRecordName(installation) }, request);
  return { now, known: lease?.spec?.holderIdentity };
}

function problemOf({ namespace, installation }: ClusterRecord, { now, known }: Uids): string | undefined {
  if (now === undefined || known === undefined || now === known) return undefined;
  return (
    `the cluster of the Nodes is another one than before: the UID of its namespace ${systemNamespace} is ${now} and was ` +
    `${known}. Correct --target-kubeconfig. If the Nodes have moved on purpose: kubectl delete lease ` +
    `${clusterRecordName(installation)} -n ${namespace}`
  );
}

/** Another process may have been faster: the next check compares with what that has seen. A namespace that goes remembers nothing. */
async function remember({ control, namespace, installation }: ClusterRecord, uid: string): Promise<void> {
  const metadata = { namespace, name: clusterRecordName(installation) };
  try {
    await control.create(leases, { metadata, spec: { holderIdentity: uid } }, request);
  } catch (error) {
    if (!isAlreadyExists(error) && !isNamespaceTerminating(error)) throw error;
  }
}

/**
 * A client of the cluster of the Nodes that answers no request while that is another one than the installation knows: it
 * throws ConnectionError, as for an outage, which says nothing about a machine. So it does until the first check is answered.
 * Where the check is refused, such as for a missing right, requests are sent, with a warning in the log.
 */
export function onlyKnownCluster(target: KubeClient, record: ClusterRecord, logger: Pick<Logger, 'warn'>): KubeClient {
  let checked: { readonly atMs: number; readonly problem: Promise<string | undefined> } | undefined;
  /** undefined before the first answer. */
  let known: { readonly problem: string | undefined } | undefined;
  let isWarned = false;

  async function check(): Promise<string | undefined> {
    try {
      const uids = await readUids(target, record);
      known = { problem: problemOf(record, uids) };
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

  return {
    server: target.server,
    async get(...args) {
      await refuseAnother();
      return target.get(...args);
    },
    async find(...args) {
      await refuseAnother();
      return target.find(...args);
    },
    async list(...args) {
      await refuseAnother();
      return target.list(...args);
    },
    async *pages(...args) {
      await refuseAnother();
      yield* target.pages(...args);
    },
    async create(...args) {
      await refuseAnother();
      return target.create(...args);
    },
    async patch(...args) {
      await refuseAnother();
      return target.patch(...args);
    },
    async delete(...args) {
      await refuseAnother();
      return target.delete(...args);
    },
    async evict(...args) {
      await refuseAnother();
      return target.evict(...args);
    },
    async *watch(...args) {
      await refuseAnother();
      yield* target.watch(...args);
    },
    async getRaw(...args) {
      await refuseAnother();
      return target.getRaw(...args);
    },
    close: () => target.close(),
  };
}
