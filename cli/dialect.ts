import type { Dialect } from '../api/dialect.ts';
import { dialectOf } from '../api/dialects.ts';

/** Name of the API of machines that the command line serves. */
export const dialectName = 'gardener';

/** The API of machines that the command line serves. */
export const dialect: Dialect = dialectOf(dialectName);

/** The flags of the workers are not known to the commands that look, and none of them depends on them. */
export const noLimits = { creationSeconds: 0, drainSeconds: 0, maxEvictRetries: 0, nodeConditions: [] };
