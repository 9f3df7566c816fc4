/** Steps of an owner that change nothing, as the API server does not keep what they write: they have growing pauses. */
import { patched } from '@temporalio/workflow';
import type { OwnerView } from '../../api/model/owner.ts';
import { isPaced, nextRepeat, repeatedAtMs } from '../../api/repeats.ts';
import { showBlocker } from './report.ts';
import type { OwnerRun } from './state.ts';

/** Notes that a step was done for a view. @param message what is not kept, if that is known */
export function noteStep(run: OwnerRun, view: OwnerView, message?: string): void {
  const step = nextRepeat(run.lastStep, textOf(view), Date.now());
  if (isPaced(step) && !patched('steps-without-effect-have-a-pause')) return;
  run.lastStep = step;
  if (!isPaced(step)) return;
  const unknown = 'the last steps have changed nothing: a webhook, a policy or a controller changes it back';
  const at = new Date().toISOString();
  run.notKept = { message: message ?? unknown, at, since: run.notKept?.since ?? at };
}

/** Whether the step for a view has to wait: everything is as it was before the last one. */
export function isStepHeld(run: OwnerRun, view: OwnerView): boolean {
  const { lastStep } = run;
  const isSame = lastStep?.text === textOf(view);
  if (!isSame) delete run.notKept;
  const isHeld = isSame && Date.now() < repeatedAtMs(lastStep);
  if (isHeld || run.notKept === undefined) showBlocker(run);
  return isHeld;
}

/** How long the step has to wait, ms. */
export function heldMs({ lastStep }: OwnerRun): number {
  return lastStep === undefined ? 0 : Math.max(1, repeatedAtMs(lastStep) - Date.now());
}

/** Whether a watcher has seen something else than the last step has left. */
export function seesOther({ observed, lastStep }: OwnerRun): boolean {
  return observed !== undefined && textOf(observed) !== lastStep?.text;
}

function textOf(view: OwnerView): string {
  return JSON.stringify(view, (key, value: unknown) => (key === 'resourceVersion' ? undefined : value));
}
