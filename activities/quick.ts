import { asyncLocalStorage } from '@temporalio/activity';
import type { RequestOptions } from '../kube/client.ts';

/**
 * For requests of local activities: they end within seconds, for waiting is up to the workflow. What an attempt that has
 * timed out would still write is not sent any more.
 */
export function quick(): RequestOptions {
  return { timeoutMs: 2_500, failFast: true, signal: asyncLocalStorage.getStore()?.cancellationSignal };
}
