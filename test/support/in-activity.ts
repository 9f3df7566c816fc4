import { asyncLocalStorage, type Context } from '@temporalio/activity';

/** Runs code as an activity with this information, without a worker. */
export function inActivity<T>(info: Partial<Context['info']>, run: () => T): T {
  const context = { info, cancellationSignal: new AbortController().signal } as unknown as Context;
  return asyncLocalStorage.run(context, run);
}
