import type { FaultKind } from './counterpart.ts';
import type { World } from './world.ts';

/**
 * What a case cannot do without: a worker that the suite may kill, the cloud under its control, several VMs of a
 * Machine in it, a fault of it.
 */
export type Need = 'worker' | 'cloud' | 'severalVms' | FaultKind;

/** A part of the contract, with a test of it. */
export interface Case {
  readonly title: string;
  /** What docs/providers.md promises, in one or two sentences. */
  readonly promise: string;
  /** Heading in docs/providers.md. */
  readonly section: string;
  readonly needs: readonly Need[];
  /** Kills the worker, or reads its log. */
  readonly usesWorker?: true;
  /** Throws Breach when the provider breaks the promise, and NotRun when nothing can be said. */
  run(world: World): Promise<void>;
}
