/** A workflow of which three builds do something else after a signal. */
import { CancellationScope, condition, defineSignal, setHandler, sleep } from '@temporalio/workflow';

export const proceedSignal = defineSignal('proceed');

/** A test replaces it in the bundle. */
export const build: string = 'that starts another timer';

export async function timers(): Promise<void> {
  let mayProceed = false;
  setHandler(proceedSignal, () => {
    mayProceed = true;
  });
  const scope = new CancellationScope();
  const first = scope.run(() => sleep('1 hour')).catch(() => undefined);
  await condition(() => mayProceed);
  if (build === 'that throws') throw new TypeError('no');
  if (build === 'that cancels its timer') scope.cancel();
  else void sleep('1 hour');
  await first;
  await condition(() => false);
}
