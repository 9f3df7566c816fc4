/** Turns that many have one after the other: pure. */
export interface Turns {
  /** Has its first turn after all others. Nothing happens when it is there. */
  add(id: string): void;
  remove(id: string): void;
  /** Those whose turn it is, so many that all have theirs within `rounds` calls. They stay in front until `pass`. */
  next(rounds: number): readonly string[];
  /** Has had its turn: the next one comes after those of all others. */
  pass(id: string): void;
}

/** Nobody waits. */
export function createTurns(): Turns {
  const ids = new Set<string>();
  return {
    add: (id) => void ids.add(id),
    remove: (id) => void ids.delete(id),
    next: (rounds) => [...ids].slice(0, Math.ceil(ids.size / rounds)),
    pass(id) {
      if (ids.delete(id)) ids.add(id);
    },
  };
}
