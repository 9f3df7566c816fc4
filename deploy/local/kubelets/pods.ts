import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeClient } from '../../../kube/client.ts';
import { type Pod, pods } from '../../../kube/core.ts';
import { isConflict, isNotFound } from '../../../kube/errors.ts';
import type { Logger } from '../../../kube/logger.ts';
import { strategicMergePatch } from '../../../kube/patch.ts';
import { startReflector } from '../../../kube/reflector.ts';
import { seconds } from './node.ts';

interface PodOptions {
  readonly client: KubeClient;
  /** The longest a pod takes to end, whatever its grace period. */
  readonly maxGraceMs: number;
  /** Whether a live kubelet serves the Node. */
  readonly isServed: (nodeName: string) => boolean;
  readonly logger: Logger;
}

/** Pause after a request that failed. */
const retryMs = 1000;

/** Runs and ends the pods of all Nodes, as a kubelet does with those bound to its own. */
export function startPods({ client, maxGraceMs, isServed, logger }: PodOptions) {
  const stopped = new AbortController();
  const { signal } = stopped;
  /** UID and grace period of pods that are ending. A shorter grace period that comes later ends them earlier. */
  const ending = new Set<string>();

  const reflector = startReflector({
    client,
    logger,
    resource: pods,
    fieldSelector: 'spec.nodeName!=',
    indexes: { node: (pod) => [nodeOf(pod)] },
    transform: slim,
    onEvent: (event) => {
      if (event.kind === 'added' || event.kind === 'updated') tend(event.object);
    },
  });

  function tend(pod: Pod): void {
    if (!isServed(nodeOf(pod))) return;
    const act = pod.metadata.deletionTimestamp !== undefined ? end : run;
    act(pod).catch(async (err: unknown) => {
      if (signal.aborted || isNotFound(err) || isConflict(err)) return;
      logger.warn({ err, namespace: pod.metadata.namespace, pod: pod.metadata.name }, 'serving a pod failed');
      await sleep(retryMs, undefined, { ref: false });
      const now = reflector.store.get(pod.metadata);
      if (now) tend(now);
    });
  }

  async function run(pod: Pod): Promise<void> {
    if (pod.status?.phase !== 'Pending') return;
    const patch = strategicMergePatch({ metadata: { uid: pod.metadata.uid }, status: runningStatus(pod) });
    await client.patch(pods, pod.metadata, patch, { signal, subresource: 'status' });
  }

  async function end(pod: Pod): Promise<void> {
    const { uid, deletionGracePeriodSeconds = 30 } = pod.metadata;
    const key = `${uid}/${deletionGracePeriodSeconds}`;
    if (ending.has(key)) return;
    ending.add(key);
    try {
      await sleep(Math.min(deletionGracePeriodSeconds * 1000, maxGraceMs), undefined, { signal });
      if (!isServed(nodeOf(pod))) return;
      await client.delete(pods, pod.metadata, { signal, gracePeriodSeconds: 0, preconditions: { uid } });
    } finally {
      ending.delete(key);
    }
  }

  return {
    /** Takes the pods that were bound to a Node before its kubelet came. */
    serve(nodeName: string): void {
      for (const pod of reflector.store.byIndex('node', nodeName)) tend(pod);
    },
    async stop(): Promise<void> {
      stopped.abort();
      await reflector.stop();
    },
  };
}

function nodeOf(pod: Pod): string {
  return pod.spec?.nodeName ?? '';
}

/** All that serving a pod needs. */
function slim({ metadata, spec, status }: Pod): Pod {
  const { uid, name, namespace, resourceVersion, creationTimestamp } = metadata;
  const { deletionTimestamp, deletionGracePeriodSeconds } = metadata;
  return {
    metadata: {
      uid,
      name,
      resourceVersion,
      creationTimestamp,
      ...(namespace !== undefined && { namespace }),
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
      ...(deletionGracePeriodSeconds !== undefined && { deletionGracePeriodSeconds }),
    },
    spec: {
      containers: (spec?.containers ?? []).map(({ name, image = '' }) => ({ name, image })),
      ...(spec?.nodeName !== undefined && { nodeName: spec.nodeName }),
    },
    ...(status?.phase !== undefined && { status: { phase: status.phase } }),
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
