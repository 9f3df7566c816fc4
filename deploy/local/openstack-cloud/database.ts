import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

/** Opens a service's database in a folder for a moment. */
export function withDatabase<T>(dir: string, name: string, use: (database: DatabaseSync) => T): T {
  const database = new DatabaseSync(join(dir, `${name}.db`), { timeout: 10_000 });
  try {
    return use(database);
  } finally {
    database.close();
  }
}
