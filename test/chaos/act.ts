/** What an act is. */
import type { Dice } from './dice.ts';
import type { World } from './world.ts';

export interface Act {
  /** How often it comes, compared with the others. */
  readonly weight: number;
  /**
   * Resolves when it is over and what it has broken for a while works again. Throws where it cannot be done now.
   * @param tell called once, with what it does
   */
  run(world: World, dice: Dice, tell: (what: string) => void): Promise<void>;
}

/** A table of acts by their names. */
export type Acts = Readonly<Record<string, Act>>;

/** One of these. Throws where there is none. */
export function pickOne<T>(dice: Dice, items: readonly T[], what: string): T {
  const item = dice.pick(items);
  if (item === undefined) throw new Error(`there is no ${what}`);
  return item;
}
