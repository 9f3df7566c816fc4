/** Workflows with a defect, and one without. */
import { condition, defineSignal, setHandler, workflowInfo } from '@temporalio/workflow';

export const proceedSignal = defineSignal('proceed');

export async function waits(): Promise<string> {
  let mayProceed = false;
  setHandler(proceedSignal, () => {
    mayProceed = true;
  });
  await condition(() => mayProceed);
  return 'done';
}

export async function spins(): Promise<void> {
  for (;;);
}

export async function spinsInPromise(): Promise<void> {
  await Promise.resolve();
  for (;;);
}

/** Twice 300 ms in one activation. */
export async function spinsInParts(): Promise<void> {
  spinFor(300);
  await condition(() => spinFor(300));
}

export async function rejects(): Promise<void> {
  void Promise.reject(new Error('nobody listens'));
  await condition(() => false);
}

function spinFor(ms: number): true {
  const { now } = workflowInfo().unsafe; // the time in a workflow stands still
  const end = now() + ms;
  while (now() < end);
  return true;
}
