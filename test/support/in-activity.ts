import { asyncLocalStorage, type Context } from '@temporalio/activity';

/** Runs code as an activity with this information, without a worker. Default: it is never cancelled. */
export function inActivity<T>(info: Partial<Context['info']>, run: () => T, signal = new AbortController().signal): T {
  const context = { info, cancellationSignal: signal } as unknown as Context;
  return asyncLocalStorage.run(context, run);
}
