import type { RequestOptions } from '../kube/client.ts';

/** For requests of local activities: they end within seconds, and waiting is for the workflow. */
export const quick: RequestOptions = { timeoutMs: 2_500, failFast: true };
