/** Signals that the workflow of every object takes. Watchers and the CLI import this file, too. */
import { defineSignal } from '@temporalio/workflow';

/** What was observed may be wrong, or the object may be gone: reads it live. Sent by the controllers. */
export const refreshSignal = defineSignal('refresh');
/**
 * Retries at once what the workflow waits for. Safe at any time. The argument says who wants it. Sent by `millwright retry` and
 * `rollout retry`.
 */
export const retryNowSignal = defineSignal<[by?: string]>('retryNow');
