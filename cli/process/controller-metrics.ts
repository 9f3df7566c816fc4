/** The metrics of controllers. */
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Dialect } from '../../api/dialect.ts';
import type { MachineChange, ObjectMetric, Sample, WatchedObjects } from '../../api/metrics.ts';

/** What the controllers say of themselves at each scrape. */
export interface ControllerFacts {
  isLeader(): boolean;
  /** undefined while they do not act: no two replicas show the same objects. */
  objects(): WatchedObjects | undefined;
  /** The task queues of the installation with the tasks that wait in them; empty while Temporal does not answer. */
  backlogs(): Promise<readonly Backlog[]>;
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
  { isLeader, objects, backlogs }: ControllerFacts,
): void {
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
      const found = isLeader() ? await backlogs() : [];
      this.reset();
      for (const { count, ...labels } of found) this.set(labels, count);
    },
  });
  showObjects(registry, metrics?.ofObjects ?? [], objects);
}

/** Shows the objects of an API of machines. Values are made anew for each scrape; `read` answers undefined while there are none. */
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

/** Registers what is counted of changes of Machines. The answer is to be called with each. */
export function countChanges(registry: Registry, dialect: Dialect): (change: MachineChange) => void {
  const metrics = dialect.metrics?.ofMachines ?? [];
  const shown = metrics.map(({ name, help, type, labelNames }) => {
    const configuration = { name, help, labelNames: [...labelNames], registers: [registry] };
    const metric = type === 'gauge' ? new Gauge(configuration) : new Counter(configuration);
    return ({ labels, value }: Sample) =>
      metric instanceof Gauge ? metric.set(labels, value) : metric.inc(labels, value);
  });
  return (change) => {
    for (const [i, { sampleOf }] of metrics.entries()) {
      const sample = sampleOf(change);
      if (sample !== undefined) shown[i]?.(sample);
    }
  };
}
