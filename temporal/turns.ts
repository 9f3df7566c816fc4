/** A queue in which many have their turns, again and again. */
export interface Turns {
  /** Puts it at the end, unless it is in the queue. */
  add(id: string): void;
  remove(id: string): void;
  /** The front of the queue: so many that all are in front once within `rounds` calls. They stay there until `pass`. */
  next(rounds: number): readonly string[];
  /** It has had its turn, and goes to the end. */
  pass(id: string): void;
}

/** An empty queue. */
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
