/** The kubelets of all VMs of a cloud: one connection pool and one watch on pods serve every one of them. */
import { setTimeout as sleep } from 'node:timers/promises';
import { createKubeClient, type KubeClient } from '../../../kube/client.ts';
import { loadKubeconfig } from '../../../kube/config.ts';
import { leases, nodes } from '../../../kube/core.ts';
import { isAlreadyExists, isConflict, isNotFound } from '../../../kube/errors.ts';
import type { Logger } from '../../../kube/logger.ts';
import { mergePatch, strategicMergePatch } from '../../../kube/patch.ts';
import { type Host, heartbeatOf, leaseOf, microTime, nodeOf } from './node.ts';
import { startPods } from './pods.ts';

/** Options of the kubelets; a kubelet of its own has 10 s and 5 minutes for the first two. */
interface KubeletOptions {
  /** Kubeconfig of the cluster that the Nodes join. */
  readonly kubeconfig: string;
  readonly leaseRenewMs: number;
  readonly statusUpdateMs: number;
  /** The longest a pod takes to end, whatever its grace period. */
  readonly maxGraceMs: number;
  readonly logger: Logger;
}

/** Pauses between tries to register. The longest counts where another VM has the Node's name. */
const firstRetryMs = 250;
const maxRetryMs = 10_000;

/** Serves the Nodes of VMs in one cluster. A kubelet ends once `isOn` of its VM answers false. */
export function startKubelets(options: KubeletOptions) {
  const { kubeconfig, leaseRenewMs, statusUpdateMs, maxGraceMs, logger } = options;
  const access = loadKubeconfig(kubeconfig);
  const client = createKubeClient({ access, userAgent: 'kubelet/simulated', qps: 500, burst: 1000 });
  const stopped = new AbortController();
  const { signal } = stopped;
  const pause = (ms: number) => sleep(Math.max(0, ms), undefined, { signal });
  /** The VM whose kubelet serves the Node of this name. */
  const joined = new Map<string, Host>();
  const pods = startPods({
    client,
    maxGraceMs,
    logger,
    isServed: (nodeName) => joined.get(nodeName)?.isOn() ?? false,
  });

  /** A kubelet from the start of its VM to its end. */
  async function run(host: Host): Promise<void> {
    await pause(host.joinsAt - Date.now());
    const nodeUid = host.nodeUid ?? (await register(host));
    if (nodeUid === undefined) return;
    joined.set(host.name, host);
    pods.serve(host.name);
    await Promise.all([renewLease(host, nodeUid), updateStatus(host, nodeUid)]);
    if (joined.get(host.name) === host) joined.delete(host.name);
  }

  /** Registers the Node and answers with its UID; undefined when the kubelet has ended before. */
  async function register(host: Host): Promise<string | undefined> {
    for (let retryMs = firstRetryMs; host.isOn(); retryMs = Math.min(2 * retryMs, maxRetryMs)) {
      const node = await ensureNode(client, host, signal).catch(report(host, 'registering a node'));
      if (node) {
        host.onRegistered?.(node);
        return node;
      }
      await pause(retryMs);
    }
    return undefined;
  }

  async function renewLease(host: Host, nodeUid: string): Promise<void> {
    // Spread over the interval, so that a fleet that booted together does not renew together.
    for (let due = leaseRenewMs * Math.random(); host.isOn(); due = leaseRenewMs) {
      await ensureLease(client, host, nodeUid, signal).catch(report(host, 'renewing a lease'));
      await pause(due);
    }
  }

  async function updateStatus(host: Host, uid: string): Promise<void> {
    // Spread over half of the interval. Not at once: tests that want no update give an interval of weeks.
    for (let due = statusUpdateMs * (0.5 + Math.random() / 2); ; due = statusUpdateMs) {
      await pause(due);
      if (!host.isOn()) return;
      try {
        const { status } = await client.get(nodes, { name: host.name }, { signal });
        const patch = strategicMergePatch({ metadata: { uid }, status: heartbeatOf(host, status?.conditions) });
        await client.patch(nodes, { name: host.name }, patch, { signal, subresource: 'status' });
      } catch (error) {
        // As a kubelet: a Node that was deleted comes back with the next start only.
        if (isNotFound(error) || isConflict(error)) return;
        report(host, 'updating the status of a node')(error);
      }
    }
  }

  function report(host: Host, doing: string) {
    return (err: unknown) => {
      signal.throwIfAborted();
      logger.warn({ err, node: host.name }, `${doing} failed`);
      return undefined;
    };
  }

  return {
    /** Starts the kubelet of a VM that was created, restarted or loaded. */
    start(host: Host): void {
      run(host).catch((err: unknown) => {
        if (!signal.aborted) logger.error({ err, node: host.name }, 'a kubelet has ended');
      });
    },
    async stop(): Promise<void> {
      stopped.abort();
      await pods.stop();
      await client.close();
    },
  };
}

/** Creates the Node, or finds the one that this VM has registered before. Throws while another VM has the name. */
async function ensureNode(client: KubeClient, host: Host, signal: AbortSignal): Promise<string> {
  try {
    return (await client.create(nodes, nodeOf(host), { signal })).metadata.uid;
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
    const { metadata, spec, status } = await client.get(nodes, { name: host.name }, { signal });
    if (spec?.providerID !== host.providerID) throw error;
    const patch = strategicMergePatch({
      metadata: { uid: metadata.uid },
      status: heartbeatOf(host, status?.conditions),
    });
    await client.patch(nodes, { name: host.name }, patch, { signal, subresource: 'status' });
    return metadata.uid;
  }
}

async function ensureLease(client: KubeClient, host: Host, nodeUid: string, signal: AbortSignal): Promise<void> {
  const key = { namespace: 'kube-node-lease', name: host.name };
  const renewal = mergePatch({ spec: { holderIdentity: host.name, renewTime: microTime(Date.now()) } });
  try {
    await client.patch(leases, key, renewal, { signal });
  } catch (error) {
    if (!isNotFound(error)) throw error;
    await client.create(leases, leaseOf(host, nodeUid), { signal });
  }
}
