/** Signals that the workflow of every object takes. Watchers and the CLI import this file, too. */
import { defineSignal } from '@temporalio/workflow';

/** What was observed may be wrong, or the object may be gone: read it live. */
export const refreshSignal = defineSignal('refresh');
/** An operator wants whatever the workflow waits for to be tried again now. */
export const retryNowSignal = defineSignal('retryNow');
