import type { Dialect } from '../api/dialect.ts';
import { dialectOf } from '../api/dialects.ts';

/** Name of the API of machines that the command line serves. */
export const dialectName = 'gardener';

/** The API of machines that the command line serves. */
export const dialect: Dialect = dialectOf(dialectName);
