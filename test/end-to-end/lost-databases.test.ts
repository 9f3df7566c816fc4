import { describeLostDatabases } from '../support/lost-databases.ts';

describeLostDatabases({ running: 10, creating: 4, draining: 2, gapMs: 2_000, resyncMs: 2_000, patienceMs: 180_000 });
