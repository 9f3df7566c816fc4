/** What a controller is. main.ts lists them; a new one is a file and a line there. */
import type { Dialect } from '../api/dialect.ts';
import type { MachineLimits } from '../api/model/machine.ts';
import type { FreezeLimits } from '../api/owner/freeze.ts';
import type { KubeClient } from '../kube/client.ts';
import type { EventRecorder } from '../kube/events.ts';
import type { Logger } from '../kube/logger.ts';
import type { Installation } from '../temporal/workflows.ts';
import { createQueue, type QueueObserver } from './queue.ts';
import type { Change, Kind, Watches } from './watches.ts';

/** Keys of the objects to handle, in a form that the controller chooses. */
type Keys = Iterable<string>;

/**
 * A controller maps changes of objects to keys, and handles each key by what the watches know at that moment. A key
 * that changes often is handled once; one whose handling fails is handled again later.
 */
export interface Controller {
  /** Name of its queue in metrics; a function where its keys are of several kinds. */
  readonly queue: string | ((key: string) => string);
  /** The kinds that it hears, each with the keys to handle after a change of one object. */
  readonly hears: { readonly [K in Kind]?: (change: Change) => Keys };
  /** The kinds whose full lists it hears, each with the keys to handle. */
  readonly hearsLists?: { readonly [K in Kind]?: () => Keys };
  /** How long a key waits for more changes before it is handled, ms. */
  readonly delayMs: number;
  /**
   * The shortest time between two starts of handling a key, ms. A retry after an error does not wait for it. Default:
   * 0.
   */
  readonly restMs?: number;
  handle(key: string): Promise<void>;
  /**
   * Asked after a key was handled: when time alone will change something, ms from now. The key is handled again then.
   */
  againInMs?(key: string): number | undefined;
  /** Keys of everything. All are handled when the controllers start to act, and after a restore from a backup. */
  keys(): Keys;
  /** Called for each of `keys` at every resync, for what no event reports. */
  resync?(key: string): Promise<void>;
  /** A cluster was restored from a backup: its objects may be older than what workflows know. */
  onRestored?(): void;
}

/** What controllers are made with. Each takes the part that it needs. */
export interface ControllerContext {
  readonly control: KubeClient;
  /** Cluster of the Nodes. */
  readonly target: KubeClient;
  /** Synced before a controller is called, except for Nodes. */
  readonly watches: Watches;
  readonly dialect: Dialect;
  readonly installation: Installation;
  /** The watched namespace of the control cluster. */
  readonly namespace: string;
  readonly defaults: MachineLimits;
  /** How often clouds are swept for resources without a Machine; 0: only on demand. */
  readonly sweepPeriodSeconds: number;
  readonly interruptionPeriodSeconds: number;
  readonly freezeLimits: FreezeLimits;
  /** How long a set that a person has thawed is not frozen again unless a machine is added, ms. */
  readonly thawedMs: number;
  /** Whether the cluster autoscaler leaves the Nodes of a deployment alone while it rolls out. */
  readonly keepsAutoscalerAway: boolean;
  /** Time between two resyncs, ms. */
  readonly resyncMs: number;
  readonly events: EventRecorder;
  readonly logger: Logger;
  /** Called with the type of a workflow whose run was ended, and followed by another one. */
  readonly onRunReplaced?: (workflowType: string) => void;
  /** Makes the workflow with this id read its objects live, some seconds later and if it is open then. */
  readonly refresh: (workflowId: string) => void;
}

/** Keys that are resynced at once: events have precedence. */
const resyncConcurrency = 5;
const concurrency = 20;

/** Makes the observer of a queue. @param nameOf name of the queue in metrics, for a key */
export type ObserveQueue = (nameOf: (key: string) => string) => QueueObserver;

export type RunningController = ReturnType<typeof runController>;

/** Gives a controller its queues. */
export function runController(controller: Controller, logger: Logger, observeQueue?: ObserveQueue) {
  const { queue, hears, hearsLists, delayMs, restMs, handle, againInMs, resync } = controller;
  const nameOf = typeof queue === 'string' ? () => queue : queue;
  const observer = observeQueue?.(nameOf);
  const changes = createQueue({ handle, againInMs, concurrency, delayMs, restMs, observer, logger });
  const resyncs =
    resync &&
    createQueue({
      ...{ handle: resync, concurrency: resyncConcurrency, delayMs: 0, logger },
      observer: observeQueue?.((key) => `${nameOf(key)}-resync`),
    });

  function addAll(keys: Keys = []): void {
    for (const key of keys) changes.add(key);
  }

  return {
    onChange: (kind: Kind, change: Change) => addAll(hears[kind]?.(change)),
    onListed: (kind: Kind) => addAll(hearsLists?.[kind]?.()),
    handleAll: () => addAll(controller.keys()),
    onRestored(): void {
      controller.onRestored?.();
      addAll(controller.keys());
    },
    resync(): void {
      if (resyncs !== undefined) for (const key of controller.keys()) resyncs.add(key);
    },
    async stop(): Promise<void> {
      await Promise.all([changes.stop(), resyncs?.stop()]);
    },
  };
}
