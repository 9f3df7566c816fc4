import { asyncLocalStorage } from '@temporalio/activity';
import type { RequestOptions } from '../kube/client.ts';

/** How requests of local activities end within seconds, for waiting is up to the workflow. */
export const localRequestOptions = { timeoutMs: 2_500, failFast: true } as const;

/**
 * For requests of local activities that are not shared. What an attempt that has timed out would still write is not
 * sent any more.
 */
export function localRequest(): RequestOptions {
  return { ...localRequestOptions, signal: asyncLocalStorage.getStore()?.cancellationSignal };
}
