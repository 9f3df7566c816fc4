import { describeLostDatabases } from '../support/lost-databases.ts';

describeLostDatabases({ running: 100, creating: 20, draining: 10, gapMs: 5 * 60_000, patienceMs: 600_000 });
