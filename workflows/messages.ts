/** Signals that the workflow of every object takes. Watchers and the CLI import this file, too. */
import { defineSignal } from '@temporalio/workflow';

/** What was observed may be wrong, or the object may be gone: it is read live. */
export const refreshSignal = defineSignal('refresh');
/** An operator wants the workflow to try again now what it waits for. */
export const retryNowSignal = defineSignal('retryNow');
