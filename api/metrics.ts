/** Metrics that are read off the objects of an API of machines. Plain values: cli/process gives them to Prometheus. */
import type { KubeObject } from './objects.ts';

/** What the watches know at the moment of a scrape. */
export interface WatchedObjects {
  readonly machines: readonly KubeObject[];
  readonly sets: readonly KubeObject[];
  readonly deployments: readonly KubeObject[];
  /** Whether the API server of the Nodes does not answer, so that no machine is judged by its Node. */
  readonly isFrozen: boolean;
}

/** A value, with a text for each label of its metric. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A gauge whose values follow from the objects alone, so that those of an object end with it. */
export interface ObjectMetric {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
  samplesOf(objects: WatchedObjects): readonly Sample[];
}

/** A change of a Machine that the watches have seen. */
export interface MachineChange {
  readonly previous: KubeObject;
  readonly object: KubeObject;
  /** The object is gone: `object` is its last state. */
  readonly isGone: boolean;
  /** Its source object, such as a class, if there is one. */
  readonly source?: KubeObject | undefined;
  /** Name of the MachineDeployment that controls its MachineSet, if there is one. */
  readonly deployment?: string | undefined;
  /** ms since the epoch. */
  readonly nowMs: number;
}

/**
 * A metric of what happens to Machines: a gauge keeps the last value, a counter adds all, and a histogram of seconds
 * counts them, until `toLive` says that the series ends.
 */
export interface MachineMetric {
  readonly name: string;
  readonly help: string;
  readonly type: 'gauge' | 'counter' | 'histogram';
  readonly labelNames: readonly string[];
  /** undefined: the change says nothing of it. */
  sampleOf(change: MachineChange): Sample | undefined;
}

/** Tells whether the series of MachineMetrics with some labels are still about something. */
export type ToLive = (objects: WatchedObjects) => (labels: Sample['labels']) => boolean;
