/** What the node lifecycle controller and a cloud controller manager do with the Nodes of VMs. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { CloudAdmin } from '../../deploy/local/simulated-cloud/admin.ts';
import type { KubeClient } from '../../kube/client.ts';
import { nodes } from '../../kube/core.ts';
import { reportCondition } from '../support/node-conditions.ts';

const pauseMs = 2_000;

/** Reports Nodes as silent whose kubelets are, and deletes those whose VMs are gone, until `stop`. */
export function startNodeControllers(target: KubeClient, cloud: CloudAdmin) {
  const stopping = new AbortController();

  async function look(): Promise<void> {
    const vms = await cloud.vms({ all: true });
    const { items } = await target.list(nodes, { timeoutMs: 5_000 });
    for (const { metadata, spec, status } of items) {
      const vm = vms.find(({ id }) => spec?.providerID?.endsWith(`/${id}`));
      if (vm === undefined || vm.state === 'creating') continue;
      const isSilent = status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'Unknown');
      if (vm.state === 'terminated' && metadata.deletionTimestamp === undefined) await target.delete(nodes, metadata);
      else if (!vm.alive && !isSilent) await reportCondition(target, metadata.name, 'Ready', 'Unknown');
    }
  }

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      await look().catch(() => undefined); // a server is down: they look again
      await sleep(pauseMs, undefined, { signal: stopping.signal }).catch(() => undefined);
    }
  }
  const running = run();
  return {
    async stop(): Promise<void> {
      stopping.abort();
      await running;
    },
    /** Starts the kubelets again of VMs that run without a Node: after a restore of etcd they have none. */
    async restartKubelets(): Promise<void> {
      const present = new Set((await target.list(nodes)).items.map(({ metadata }) => metadata.name));
      for (const { id, name, alive, nodeUid } of await cloud.vms()) {
        if (alive && nodeUid !== null && !present.has(name)) await cloud.restartVm(id);
      }
    },
  };
}
