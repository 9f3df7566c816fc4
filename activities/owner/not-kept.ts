/** What an owner has written and the API server does not keep: its CRDs are old, or a webhook changes it. */
import { recordOnOwner } from './report.ts';
import type { Owner, Step } from './step.ts';

/** Of what is not kept, in the report. */
const maxLength = 300;

/** Notes that a written object still lacks `left`; undefined: it lacks nothing. The rest of the step goes on. */
export function noteKept(step: Step, what: string, left: object | undefined): void {
  if (left === undefined) return;
  step.notKept ??= [];
  step.notKept.push(`${what}: ${JSON.stringify(left)}`);
}

/** Reports on the owner what a step has written in vain. Answers it, for people; undefined: nothing. */
export function reportNotKept(step: Step, owner: Owner): string | undefined {
  const { notKept = [] } = step;
  const [first] = notKept;
  if (first === undefined) return undefined;
  const more = notKept.length > 1 ? `, and ${notKept.length - 1} more` : '';
  const what = first.length > maxLength ? `${first.slice(0, maxLength - 1)}…` : first;
  const fix = 'Update the CRDs, or correct the webhook that changes it';
  const note = `the API server does not keep what was written to ${what}${more}. ${fix}`;
  recordOnOwner(step, owner, 'SettingsNotKept', note);
  return note;
}
