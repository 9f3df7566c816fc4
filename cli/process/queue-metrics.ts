/** The metrics of work queues and watches, with the names and labels of machine-controller-manager. */
import { Counter, Gauge, Histogram, type Registry, Summary } from 'prom-client';
import type { ObserveQueue } from '../../controllers/controller.ts';
import type { ObserveWatch } from '../../controllers/watches.ts';

/** Its names of queues and watches that are the same thing here. Others have names of their own. */
const theirNames: Readonly<Record<string, string>> = {
  machines: 'machine',
  sets: 'machineset',
  deployments: 'machinedeployment',
  sources: 'machineclass',
  secrets: 'secret',
  nodes: 'node',
  freeze: 'machinesafetyovershooting',
  'sweep-schedule': 'machinesafetyorphanvms',
};
const toTheirs = (name: string) => theirNames[name] ?? name;

/** What is done with a key, since when by performance.now(). */
interface Pending {
  readonly name: string;
  readonly sinceMs: number;
}

const queueBuckets = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60];
const secondsSince = (ms: number) => (performance.now() - ms) / 1_000;

/** Registers the metrics of queues. The answer is to be called for each queue. */
export function observeQueues(registry: Registry): ObserveQueue {
  const common = { labelNames: ['name'], registers: [registry] };
  const names = new Set<string>();
  const waiting = new Set<Map<string, Pending>>();
  const running = new Set<Map<string, Pending>>();

  /** A gauge that is computed at each scrape, with 0 where nothing is pending. */
  function gauge(name: string, help: string, of: typeof waiting, merge: (value: number, sinceMs: number) => number) {
    new Gauge({
      ...{ ...common, name, help },
      collect() {
        const values = new Map([...names].map((each) => [each, 0]));
        for (const keys of of) {
          for (const { name: queue, sinceMs } of keys.values())
            values.set(queue, merge(values.get(queue) ?? 0, sinceMs));
        }
        for (const [queue, value] of values) this.set({ name: queue }, value);
      },
    });
  }

  gauge('mcm_workqueue_depth', 'Keys that wait for a free place.', waiting, (value) => value + 1);
  const added = new Counter({
    ...{ ...common, name: 'mcm_workqueue_adds_total' },
    help: 'Keys that were queued; one that waits already is not counted again.',
  });
  const waited = new Histogram({
    ...{ ...common, name: 'mcm_workqueue_queue_duration_seconds', buckets: queueBuckets },
    help: 'How long keys have waited for a free place. For machine, this and the work are the time from a change to the signal of its workflow.',
  });
  const worked = new Histogram({
    ...{ ...common, name: 'mcm_workqueue_work_duration_seconds', buckets: queueBuckets },
    help: 'How long handling a key took.',
  });
  const retried = new Counter({
    ...{ ...common, name: 'mcm_workqueue_retries_total' },
    help: 'Keys whose handling has failed and is repeated.',
  });
  gauge(
    'mcm_workqueue_unfinished_work_seconds',
    'How long the keys that are being handled have been handled, together.',
    running,
    (value, sinceMs) => value + secondsSince(sinceMs),
  );
  gauge(
    'mcm_workqueue_longest_running_processor_seconds',
    'How long the key that has been handled longest is being handled.',
    running,
    (value, sinceMs) => Math.max(value, secondsSince(sinceMs)),
  );

  return (nameOf) => {
    const ready = new Map<string, Pending>();
    const handled = new Map<string, Pending>();
    waiting.add(ready);
    running.add(handled);

    /** The name of a key stays the same until it was handled. */
    function move(key: string, from: Map<string, Pending>, to?: Map<string, Pending>): Pending | undefined {
      const pending = from.get(key);
      from.delete(key);
      if (pending !== undefined) to?.set(key, { ...pending, sinceMs: performance.now() });
      return pending;
    }

    return {
      onReady(key) {
        const name = toTheirs(nameOf(key));
        names.add(name);
        ready.set(key, { name, sinceMs: performance.now() });
        added.inc({ name });
      },
      onStarted(key) {
        const pending = move(key, ready, handled);
        if (pending) waited.observe({ name: pending.name }, secondsSince(pending.sinceMs));
      },
      onEnded(key) {
        const pending = move(key, handled);
        if (pending) worked.observe({ name: pending.name }, secondsSince(pending.sinceMs));
      },
      onRetry(key) {
        const name = handled.get(key)?.name;
        if (name !== undefined) retried.inc({ name });
      },
    };
  };
}

/** client-go calls a watch short that ends sooner than this, s. */
const shortWatchSeconds = 1;

/** Registers the metrics of watches. The answer is to be called for each watch. */
export function observeWatches(registry: Registry): ObserveWatch {
  const registers = [registry];
  const common = { labelNames: ['name'], registers };
  const summary = { ...common, percentiles: [] };
  const lists = new Counter({ ...common, name: 'mcm_reflector_lists_total', help: 'Full lists that have succeeded.' });
  const listSeconds = new Summary({
    ...{ ...summary, name: 'mcm_reflector_list_duration_seconds', help: 'How long a full list took.' },
  });
  const listItems = new Summary({
    ...{ ...summary, name: 'mcm_reflector_items_per_list', help: 'Objects in a full list.' },
  });
  const watches = new Counter({ ...common, name: 'mcm_reflector_watches_total', help: 'Watches that have ended.' });
  const shortWatches = new Counter({
    ...{ ...common, name: 'mcm_reflector_short_watches_total' },
    help: 'Watches that have ended within a second without an event.',
  });
  const watchSeconds = new Summary({
    ...{ ...summary, name: 'mcm_reflector_watch_duration_seconds', help: 'How long a watch lasted.' },
  });
  const watchItems = new Summary({
    ...{ ...summary, name: 'mcm_reflector_items_per_watch', help: 'Events of a watch, without bookmarks.' },
  });

  /** By kind: the last resourceVersion, and when the server was heard last by performance.now(). */
  const known = new Map<string, string>();
  const heard = new Map<string, number>();
  new Gauge({
    ...{ ...common, name: 'mcm_reflector_last_resource_version' },
    help: 'Version up to which everything is known.',
    collect() {
      for (const [kind, version] of known) this.set({ name: toTheirs(kind) }, Number(version));
    },
  });
  new Gauge({
    ...{ name: 'millwright_watch_age_seconds', labelNames: ['watch'], registers },
    help: 'How long ago the API server has said something on a watch. It sends a bookmark about every minute: where this is larger than a few minutes, changes are not seen.',
    collect() {
      for (const [watch, sinceMs] of heard) this.set({ watch }, secondsSince(sinceMs));
    },
  });

  return (kind) => {
    const name = toTheirs(kind);
    heard.set(kind, performance.now());
    return {
      onHeard: () => void heard.set(kind, performance.now()),
      onKnown: (version) => void known.set(kind, version),
      onListed({ seconds, items }) {
        lists.inc({ name });
        listSeconds.observe({ name }, seconds);
        listItems.observe({ name }, items);
      },
      onWatchEnded({ seconds, items }) {
        watches.inc({ name });
        if (seconds < shortWatchSeconds && items === 0) shortWatches.inc({ name });
        watchSeconds.observe({ name }, seconds);
        watchItems.observe({ name }, items);
      },
    };
  };
}
