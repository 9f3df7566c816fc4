/** The kubelets of all VMs: one connection pool and one watch on pods serve every one of them. */
import { setTimeout as sleep } from 'node:timers/promises';
import { createKubeClient, type KubeClient } from '../../../kube/client.ts';
import { loadKubeconfig } from '../../../kube/config.ts';
import { leases, nodes } from '../../../kube/core.ts';
import { isAlreadyExists, isConflict, isNotFound } from '../../../kube/errors.ts';
import type { Logger } from '../../../kube/logger.ts';
import { mergePatch, strategicMergePatch } from '../../../kube/patch.ts';
import { heartbeatOf, leaseOf, microTime, nodeOf, providerIdOf } from './node.ts';
import { startPods } from './pods.ts';
import { type CloudState, isAlive, type StoredVm } from './state.ts';

/** Options of the kubelets; a kubelet of its own has 10 s and 5 minutes for the first two. */
interface KubeletOptions {
  readonly state: CloudState;
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

/** Serves the Nodes of VMs in one cluster. A VM needs no stop: time and the cloud's state tell when its kubelet ends. */
export function startKubelets(options: KubeletOptions) {
  const { state, kubeconfig, leaseRenewMs, statusUpdateMs, maxGraceMs, logger } = options;
  const access = loadKubeconfig(kubeconfig);
  const client = createKubeClient({ access, userAgent: 'kubelet/simulated', qps: 500, burst: 1000 });
  const stopped = new AbortController();
  const { signal } = stopped;
  const pause = (ms: number) => sleep(Math.max(0, ms), undefined, { signal });
  /** Start of the VM whose kubelet serves the Node of this name. */
  const joined = new Map<string, StoredVm>();
  const pods = startPods({
    client,
    maxGraceMs,
    logger,
    isServed: (nodeName) => {
      const boot = joined.get(nodeName);
      return boot !== undefined && isOn(boot);
    },
  });

  function isOn(boot: StoredVm): boolean {
    const vm = state.vm(boot.id);
    return vm !== undefined && vm.restarts === boot.restarts && isAlive(vm, Date.now());
  }

  /** A kubelet from the start of its VM to its end. `boot` is the VM as it started. */
  async function run(boot: StoredVm): Promise<void> {
    await pause(boot.bootedAt + boot.joinMs - Date.now());
    const nodeUid = boot.nodeUid ?? (await register(boot));
    if (nodeUid === undefined) return;
    joined.set(boot.name, boot);
    pods.serve(boot.name);
    await Promise.all([renewLease(boot, nodeUid), updateStatus(boot, nodeUid)]);
    if (joined.get(boot.name) === boot) joined.delete(boot.name);
  }

  /** Registers the Node and answers with its UID; undefined when the kubelet has ended before. */
  async function register(vm: StoredVm): Promise<string | undefined> {
    for (let retryMs = firstRetryMs; isOn(vm); retryMs = Math.min(2 * retryMs, maxRetryMs)) {
      const node = await ensureNode(client, vm, signal).catch(report(vm, 'registering a node'));
      if (node) {
        state.update(vm.id, { nodeUid: node });
        return node;
      }
      await pause(retryMs);
    }
    return undefined;
  }

  async function renewLease(vm: StoredVm, nodeUid: string): Promise<void> {
    // Spread over the interval, so that a fleet that booted together does not renew together.
    for (let due = leaseRenewMs * Math.random(); isOn(vm); due = leaseRenewMs) {
      await ensureLease(client, vm, nodeUid, signal).catch(report(vm, 'renewing a lease'));
      await pause(due);
    }
  }

  async function updateStatus(vm: StoredVm, uid: string): Promise<void> {
    for (let due = statusUpdateMs * Math.random(); ; due = statusUpdateMs) {
      await pause(due);
      if (!isOn(vm)) return;
      const patch = strategicMergePatch({ metadata: { uid }, status: heartbeatOf(vm) });
      try {
        await client.patch(nodes, { name: vm.name }, patch, { signal, subresource: 'status' });
      } catch (error) {
        // As a kubelet: a Node that was deleted comes back with the next start only.
        if (isNotFound(error) || isConflict(error)) return;
        report(vm, 'updating the status of a node')(error);
      }
    }
  }

  function report(vm: StoredVm, doing: string) {
    return (err: unknown) => {
      signal.throwIfAborted();
      logger.warn({ err, node: vm.name }, `${doing} failed`);
      return undefined;
    };
  }

  return {
    /** Starts the kubelet of a VM that was created, restarted or loaded. */
    start(vm: StoredVm): void {
      if (vm.neverJoins) return;
      run(vm).catch((err: unknown) => {
        if (!signal.aborted) logger.error({ err, node: vm.name }, 'a kubelet has ended');
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
async function ensureNode(client: KubeClient, vm: StoredVm, signal: AbortSignal): Promise<string> {
  try {
    return (await client.create(nodes, nodeOf(vm), { signal })).metadata.uid;
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
    const { metadata, spec } = await client.get(nodes, { name: vm.name }, { signal });
    if (spec?.providerID !== providerIdOf(vm)) throw error;
    const patch = strategicMergePatch({ metadata: { uid: metadata.uid }, status: heartbeatOf(vm) });
    await client.patch(nodes, { name: vm.name }, patch, { signal, subresource: 'status' });
    return metadata.uid;
  }
}

async function ensureLease(client: KubeClient, vm: StoredVm, nodeUid: string, signal: AbortSignal): Promise<void> {
  const key = { namespace: 'kube-node-lease', name: vm.name };
  const renewal = mergePatch({ spec: { holderIdentity: vm.name, renewTime: microTime(Date.now()) } });
  try {
    await client.patch(leases, key, renewal, { signal });
  } catch (error) {
    if (!isNotFound(error)) throw error;
    await client.create(leases, leaseOf(vm, nodeUid), { signal });
  }
}
