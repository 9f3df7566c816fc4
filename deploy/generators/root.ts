import { fileURLToPath } from 'node:url';

/** The root of the repository, with a slash at the end. */
export const root = fileURLToPath(new URL('../../', import.meta.url));
