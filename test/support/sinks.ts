import type { InjectedSinks } from '@temporalio/worker';
import type { ProgressSinks } from '../../workflows/interceptors.ts';

/** For workers of which nobody wants to know what they have seen. */
export const sinks: InjectedSinks<ProgressSinks> = { progress: { seen: { fn: () => undefined } } };
