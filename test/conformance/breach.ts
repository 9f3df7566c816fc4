/** The provider has not done what it promises. The message is what was seen. */
export class Breach extends Error {
  override readonly name = 'Breach';
}

/** The case says nothing about this provider. The message is the reason. */
export class NotRun extends Error {
  override readonly name = 'NotRun';
}

/** Throws Breach with what was seen unless the condition holds. */
export function check(holds: boolean, seen: string): asserts holds {
  if (!holds) throw new Breach(seen);
}
