/** The APIs of machines that Millwright serves. Only this file imports a dialect's folder. */
import type { Dialect } from './dialect.ts';
import { gardener } from './gardener/index.ts';
import type { DialectName } from './model/ref.ts';

const known = new Map<DialectName, Dialect>([[gardener.name, gardener]]);

/** The dialect of an object reference. Throws an Error that names the known ones. */
export function dialectOf(name: DialectName): Dialect {
  const dialect = known.get(name);
  if (dialect !== undefined) return dialect;
  throw new Error(`no dialect is named "${name}": there are ${[...known.keys()].join(', ')}`);
}

/** All dialects, in the order in which they were registered. */
export function allDialects(): readonly Dialect[] {
  return [...known.values()];
}

/** Adds a dialect, or replaces the one of its name. Before workers and controllers start. */
export function registerDialect(dialect: Dialect): void {
  known.set(dialect.name, dialect);
}
