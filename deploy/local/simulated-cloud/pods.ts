import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeClient } from '../../../kube/client.ts';
import { type Pod, pods } from '../../../kube/core.ts';
import { isConflict, isNotFound } from '../../../kube/errors.ts';
import { strategicMergePatch } from '../../../kube/patch.ts';
import { seconds } from './node.ts';

interface PodOptions {
  readonly client: KubeClient;
  /** The longest a pod takes to end, whatever its grace period. */
  readonly maxGraceMs: number;
  /** Whether a live kubelet serves the Node. */
  readonly isServed: (nodeName: string) => boolean;
}

/** Runs and ends the pods of all Nodes: what a kubelet does for those bound to its own. */
export function startPods({ client, maxGraceMs, isServed }: PodOptions) {
  const stopped = new AbortController();
  const { signal } = stopped;
  const known = new Map<string, Pod>();
  /** UID and grace period of pods that are ending. */
  const ending = new Set<string>();

  async function tend(pod: Pod): Promise<void> {
    if (!isServed(pod.spec?.nodeName ?? '')) return;
    if (pod.metadata.deletionTimestamp !== undefined) await end(pod);
    else if (pod.status?.phase === 'Pending') {
      const patch = strategicMergePatch({ metadata: { uid: pod.metadata.uid }, status: runningStatus(pod) });
      await client.patch(pods, pod.metadata, patch, { signal, subresource: 'status' });
    }
  }

  async function end(pod: Pod): Promise<void> {
    const { uid, namespace, name, deletionGracePeriodSeconds = 30 } = pod.metadata;
    const key = `${uid}/${deletionGracePeriodSeconds}`;
    if (ending.has(key)) return;
    ending.add(key);
    try {
      await sleep(Math.min(deletionGracePeriodSeconds * 1000, maxGraceMs), undefined, { signal });
      if (!isServed(pod.spec?.nodeName ?? '')) return;
      await client.delete(pods, { namespace, name }, { signal, gracePeriodSeconds: 0, preconditions: { uid } });
    } finally {
      ending.delete(key);
    }
  }

  function look(pod: Pod): void {
    tend(pod).catch((error: unknown) => {
      if (signal.aborted || isNotFound(error) || isConflict(error)) return;
      process.stderr.write(`serving pod ${pod.metadata.namespace}/${pod.metadata.name} failed: ${String(error)}\n`);
      setTimeout(() => {
        const now = known.get(pod.metadata.uid);
        if (now) look(now);
      }, 1000).unref();
    });
  }

  return {
    /** Takes the pods that were bound to a Node before it joined. */
    serve(nodeName: string): void {
      for (const pod of known.values()) if (pod.spec?.nodeName === nodeName) look(pod);
    },
    async stop(): Promise<void> {
      stopped.abort();
    },
  };
}

function runningStatus(pod: Pod) {
  const now = seconds(Date.now());
  const isTrue = (type: string) => ({ type, status: 'True', lastTransitionTime: now });
  return {
    phase: 'Running',
    startTime: now,
    conditions: ['PodReadyToStartContainers', 'Initialized', 'Ready', 'ContainersReady', 'PodScheduled'].map(isTrue),
    containerStatuses: (pod.spec?.containers ?? []).map(({ name, image = '' }) => ({
      name,
      image,
      imageID: image,
      containerID: `simulated://${pod.metadata.uid}/${name}`,
      ready: true,
      started: true,
      restartCount: 0,
      state: { running: { startedAt: now } },
    })),
  };
}
