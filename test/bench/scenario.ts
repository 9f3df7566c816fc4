import type { World } from './world.ts';

/** What is measured, and where it begins. */
export interface Scenario {
  readonly description: string;
  /** Brings the world to where it begins. Not measured. */
  prepare(world: World, count: number, tell: (what: string) => void): Promise<void>;
  /** What is measured. May answer with how long parts of it took, s. */
  act(world: World, count: number, tell: (what: string) => void): Promise<void | Readonly<Record<string, number>>>;
  /** Goes on measuring what follows for so long, ms; not in the wall time. */
  readonly aftermathMs?: number;
}
