import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

/** Opens a service's database in a folder for a moment. */
export function withDatabase<T>(dir: string, name: string, use: (database: DatabaseSync) => T): T {
  const file = join(dir, `${name}.db`);
  // As Python opens it.
  const database = new DatabaseSync(file, { timeout: 10_000, enableForeignKeyConstraints: false });
  try {
    return use(database);
  } finally {
    database.close();
  }
}
