/**
 * A Node of its own for a test of the drain, with pods, budgets and volumes. Nothing but the test ends pods or moves
 * volumes.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type WatchAttachments, watchAttachments } from '../../activities/machine/drain/attachments.ts';
import {
  type DrainOutcome,
  type DrainProgress,
  type DrainRequest,
  drain,
} from '../../activities/machine/drain/index.ts';
import type { VolumePolicy } from '../../activities/machine/drain/moves.ts';
import { labels } from '../../api/gardener/names.ts';
import type { KubeClient } from '../../kube/client.ts';
import { nodes, type Pod, podDisruptionBudgets, pods } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { newNamespace, recordingLogger } from './kube.ts';
import { until } from './until.ts';

const ref = { dialect: 'gardener', namespace: 'n', name: 'machine', uid: 'uid' } as const;

/** A drain that is called again as often as it comes back. */
export interface Drain {
  readonly ended: Promise<void>;
  readonly beats: DrainProgress[];
  /** How each call has come back. */
  readonly outcomes: DrainOutcome[];
  readonly cancel: AbortController;
}

export interface DrainSetting {
  readonly target?: KubeClient;
  readonly evictionRetryMs?: number;
  readonly stuckAfterMs?: number;
  readonly policy?: Partial<VolumePolicy>;
  /** Called with each heartbeat, in the middle of a look. */
  readonly onBeat?: (progress: DrainProgress) => void;
  /** The IDs of the volumes that are the cloud's, by name. Default: none is. */
  readonly volumeIds?: Readonly<Record<string, string>>;
}

export type DrainedNode = Awaited<ReturnType<typeof createDrainedNode>>;

/** Creates a namespace and a Node. `stop` ends what was started and not awaited. */
export async function createDrainedNode(client: KubeClient) {
  const namespace = await newNamespace(client);
  const nodeName = `node-${randomBytes(6).toString('hex')}`;
  await client.create(nodes, { metadata: { name: nodeName, labels: { [labels.machineName]: ref.name } } });
  const started: Drain[] = [];
  const watches: WatchAttachments[] = [];

  /** Deps of the activity that drains. */
  function depsOf({ target = client, evictionRetryMs = 50, stuckAfterMs = 600_000, policy = {} }: DrainSetting = {}) {
    const logger = recordingLogger();
    const attachments = watchAttachments({ target, logger });
    watches.push(attachments);
    const volumes = { detachMs: 60_000, reattachMs: 60_000, isSerial: false, ...policy };
    const defaults = { creationSeconds: 0, drainSeconds: 0, maxEvictRetries: 0, nodeConditions: [] };
    return { control: client, target, defaults, logger, evictionRetryMs, stuckAfterMs, attachments, volumes };
  }

  /** What a workflow asks for. */
  function requestOf(change: Partial<DrainRequest> = {}): DrainRequest {
    const deadline = new Date(Date.now() + 3_600_000).toISOString();
    return { ref, purpose: 'deletion', nodeName, deadline, force: false, maxEvictRetries: 360, ...change };
  }

  /** Starts a drain of the node. Its end is awaited by the test. */
  function start(change: Partial<DrainRequest> = {}, setting: DrainSetting = {}): Drain {
    const beats: DrainProgress[] = [];
    const outcomes: DrainOutcome[] = [];
    const cancel = new AbortController();
    const { signal } = cancel;
    const deps = depsOf(setting);
    const heartbeat = (progress: unknown) => {
      beats.push(progress as DrainProgress);
      setting.onBeat?.(progress as DrainProgress);
    };
    const call = async (request: DrainRequest): Promise<void> => {
      const outcome = await drain(deps, request, { attempt: 1, signal, heartbeat });
      outcomes.push(outcome);
      if (outcome.kind === 'drained') return;
      const { refusals } = outcome;
      if (outcome.kind === 'blocked') {
        await sleep(outcome.retryMs, undefined, { signal });
        await call({ ...request, refusals, reported: 'budgets' });
      } else if (outcome.kind === 'stuck') await call({ ...request, refusals, reported: outcome.reported });
      else if (outcome.kind === 'goesOn') {
        const { reported: _, ...others } = request;
        await call({ ...others, refusals });
      } else {
        const known = outcome.volumes.map(({ name }) => {
          const id = setting.volumeIds?.[name];
          return [name, id === undefined ? null : { id }] as const;
        });
        await call({ ...request, refusals, volumes: { ...request.volumes, ...Object.fromEntries(known) } });
      }
    };
    const ended = call(requestOf(change));
    ended.catch(() => undefined); // each test says what it expects
    const drainOfNode = { ended, beats, outcomes, cancel };
    started.push(drainOfNode);
    return drainOfNode;
  }

  return {
    namespace,
    nodeName,
    depsOf,
    requestOf,
    start,

    /** A pod that runs: budgets say nothing about others. */
    async newPod(
      name: string,
      metadata: Partial<Pod['metadata']> = {},
      spec: Partial<Pod['spec']> = {},
    ): Promise<void> {
      await client.create(pods, {
        metadata: { namespace, name, ...metadata },
        spec: { nodeName, containers: [{ name: 'c', image: 'i' }], terminationGracePeriodSeconds: 30, ...spec },
      });
      const status = { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] };
      await client.patch(pods, { namespace, name }, mergePatch({ status }), { subresource: 'status' });
    },

    async stateOf(name: string): Promise<'gone' | 'terminating' | 'running'> {
      const pod = await client.find(pods, { namespace, name });
      if (pod === undefined) return 'gone';
      return pod.metadata.deletionTimestamp === undefined ? 'running' : 'terminating';
    },

    async untilTerminating(name: string): Promise<void> {
      await until(`the pod ${name} is terminating`, async (see) => see(await this.stateOf(name)) === 'terminating');
    },

    /** What a kubelet does when a pod has ended. */
    async finish(name: string): Promise<void> {
      await client.delete(pods, { namespace, name }, { gracePeriodSeconds: 0 });
    },

    /** A budget that allows so many disruptions. There is no controller that would count them. */
    async newBudget(name: string, allowed: number): Promise<void> {
      const { metadata } = await client.create(podDisruptionBudgets, {
        metadata: { namespace, name },
        spec: { selector: { matchLabels: { app: name } }, maxUnavailable: 1 },
      });
      await this.allow(name, allowed, metadata.generation ?? 1);
    },

    async allow(name: string, disruptionsAllowed: number, observedGeneration = 1): Promise<void> {
      const counts = { currentHealthy: 1, desiredHealthy: 0, expectedPods: 1 };
      const status = { observedGeneration, disruptionsAllowed, ...counts };
      await client.patch(podDisruptionBudgets, { namespace, name }, mergePatch({ status }), { subresource: 'status' });
    },

    async stop(): Promise<void> {
      for (const { cancel, ended } of started) {
        cancel.abort();
        await ended.catch(() => undefined);
      }
      for (const watch of watches) await watch.stop();
    },
  };
}
