/** The metrics of controllers. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { Dialect } from '../../api/dialect.ts';
import type { MachineChange, ObjectMetric, Sample, WatchedObjects } from '../../api/metrics.ts';
import type { BlockedGroup } from './blocked.ts';
import type { SweepStanding } from './last-sweep.ts';
import type { ScrapeKind } from './metrics.ts';

/** What the controllers say of themselves at each scrape. */
export interface ControllerFacts {
  isLeader(): boolean;
  /** undefined while they do not act: no two replicas show the same objects. */
  objects(): WatchedObjects | undefined;
  /** The task queues of the installation with the tasks that wait in them. May throw. */
  backlogs(): Promise<readonly Backlog[]>;
  /** What is blocked, by type of workflow and cause. May throw. */
  blocked(): Promise<readonly BlockedGroup[]>;
  /** The last sweep; none where there is no Schedule of sweeps. May throw. */
  sweeps(): Promise<readonly SweepStanding[]>;
  /** Pause between two sweeps; 0: there is no Schedule. */
  readonly sweepPeriodSeconds: number;
  countScrapeFailure(kind: ScrapeKind): void;
}

/** Tasks that wait for a worker. */
export interface Backlog {
  readonly installation: string;
  readonly queue: string;
  readonly kind: 'workflow' | 'activity';
  readonly count: number;
}

/** Registers what is asked at each scrape. */
export function showStanding(
  registry: Registry,
  { metrics }: Dialect,
  { isLeader, objects, backlogs, blocked, sweeps, sweepPeriodSeconds, countScrapeFailure }: ControllerFacts,
): void {
  const ask = askWhileLeading({ isLeader, countScrapeFailure });
  new Gauge({
    name: 'millwright_leader',
    help: '1 where the controllers act, 0 where they stand by.',
    registers: [registry],
    collect() {
      this.set(isLeader() ? 1 : 0);
    },
  });
  new Gauge({
    name: 'millwright_task_queue_backlog',
    help: 'Tasks that wait for a worker, as far as Temporal knows. Only the leading controllers ask.',
    labelNames: ['installation', 'queue', 'kind'],
    registers: [registry],
    async collect() {
      const found = await ask('backlogs', backlogs);
      this.reset();
      for (const { count, ...labels } of found) this.set(labels, count);
    },
  });
  const ofBlocked = { labelNames: ['type', 'cause'], registers: [registry] };
  new Gauge({
    ...ofBlocked,
    name: 'millwright_blocked_workflows',
    help: 'Workflows that wait for people or other systems, or whose code fails, as `millwright stuck` lists them; seldom older than 10 s.',
    async collect() {
      const found = await ask('blocked', blocked);
      this.reset();
      for (const { type, cause, count } of found) this.set({ type, cause }, count);
    },
  });
  new Gauge({
    ...ofBlocked,
    name: 'millwright_blocked_longest_seconds',
    help: 'How long the one of the blocked workflows that waits longest has waited for its cause, counted since these controllers lead.',
    async collect() {
      const found = await ask('blocked', blocked);
      this.reset();
      for (const { type, cause, longestSeconds } of found) this.set({ type, cause }, longestSeconds);
    },
  });
  new Gauge({
    name: 'millwright_sweep_period_seconds',
    help: 'Pause between two sweeps of the Schedule; 0: there is no Schedule.',
    registers: [registry],
    collect() {
      this.set(sweepPeriodSeconds);
    },
  });
  const showSweep = (name: string, help: string, valueOf: (sweep: SweepStanding) => number) =>
    new Gauge({
      ...{ name, help, registers: [registry] },
      async collect() {
        const [last] = await ask('sweeps', sweeps);
        if (last === undefined) this.remove();
        else this.set(valueOf(last));
      },
    });
  showSweep(
    'millwright_sweep_age_seconds',
    'How long ago the last sweep has completed, dry runs left out; if Temporal knows none, since these controllers lead. Only with a Schedule.',
    ({ ageSeconds }) => ageSeconds,
  );
  showSweep(
    'millwright_sweep_unlisted_sources',
    'Classes whose clouds the last completed sweep could not list. Only with a Schedule.',
    ({ unlisted }) => unlisted,
  );
  showObjects(registry, metrics?.ofObjects ?? [], objects);
}

/** Asks while these controllers lead. Where there is no answer nothing is shown, and that is counted. */
function askWhileLeading({ isLeader, countScrapeFailure }: Pick<ControllerFacts, 'isLeader' | 'countScrapeFailure'>) {
  return async <T>(kind: ScrapeKind, question: () => Promise<readonly T[]>): Promise<readonly T[]> => {
    if (!isLeader()) return [];
    try {
      return await question();
    } catch {
      countScrapeFailure(kind);
      return [];
    }
  };
}

/**
 * Shows the objects of an API of machines. Values are made anew for each scrape; `read` answers undefined while there
 * are none.
 */
function showObjects(
  registry: Registry,
  metrics: readonly ObjectMetric[],
  read: () => WatchedObjects | undefined,
): void {
  for (const { name, help, labelNames, samplesOf } of metrics) {
    new Gauge({
      ...{ name, help, labelNames: [...labelNames], registers: [registry] },
      collect() {
        this.reset();
        const objects = read();
        if (objects !== undefined) for (const { labels, value } of samplesOf(objects)) this.set(labels, value);
        else if (labelNames.length === 0) this.remove(); // which reset() has set to 0
      },
    });
  }
}

/** Of what takes a machine minutes to hours, s. */
const buckets = [30, 60, 120, 180, 300, 600, 1_200, 1_800, 3_600, 7_200, 6 * 3_600];

/**
 * Registers what is counted of changes of Machines. The answer is to be called with each.
 * @param objects asked at each scrape; undefined: unknown, and no series ends
 */
export function countChanges(
  registry: Registry,
  dialect: Dialect,
  objects: () => WatchedObjects | undefined,
): (change: MachineChange) => void {
  const metrics = dialect.metrics?.ofMachines ?? [];

  /** Labels of the series that are about nothing any more, which are taken from those that are known. */
  function takeEnded(known: Map<string, Sample['labels']>): Sample['labels'][] {
    const present = objects();
    const isLive = present && dialect.metrics?.toLive(present);
    const ended = isLive === undefined ? [] : [...known].filter(([, labels]) => !isLive(labels));
    for (const [key] of ended) known.delete(key);
    return ended.map(([, labels]) => labels);
  }

  const shown = metrics.map(({ name, help, type, labelNames }) => {
    const known = new Map<string, Sample['labels']>();
    const configuration = {
      ...{ name, help, labelNames: [...labelNames], registers: [registry] },
      collect() {
        for (const labels of takeEnded(known)) metric.remove(labels);
      },
    };
    const metric =
      type === 'histogram'
        ? new Histogram({ ...configuration, buckets })
        : type === 'gauge'
          ? new Gauge(configuration)
          : new Counter(configuration);
    return ({ labels, value }: Sample) => {
      known.set(JSON.stringify(labels), labels);
      if (metric instanceof Histogram) metric.observe(labels, value);
      else if (metric instanceof Gauge) metric.set(labels, value);
      else metric.inc(labels, value);
    };
  });
  return (change) => {
    for (const [i, { sampleOf }] of metrics.entries()) {
      const sample = sampleOf(change);
      if (sample !== undefined) shown[i]?.(sample);
    }
  };
}
