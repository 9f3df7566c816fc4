/** docs/reference/failures.md, from the one list of failure codes. */
import { type FailureCode, failures } from '../../api/failures.ts';
import { blockers, searchAttributes } from '../../api/names.ts';
import { reportedProblems } from '../../temporal/broken-runs.ts';
import { quickPauseMs, retryPauseMs } from '../../workflows/machine/outcome.ts';

/** Content of docs/reference/failures.md. */
export function failuresDoc(): string {
  const codes = (Object.keys(failures) as FailureCode[]).map((code, at) => {
    const { meaning, transient, outcomeUnknown, nothingMade, blockedOn } = failures[code];
    // The list is in the order of machine-controller-manager's numbers; its 0 is success.
    const marks = [transient, outcomeUnknown, nothingMade].map(yes).join(' | ');
    const [creation, deletion] = (['creation', 'deletion'] as const).map((during) => pausesText(code, during));
    return `| ${at + 1} | \`${code}\` | ${meaning} | ${marks} | ${blockedOn} | ${creation} | ${deletion} |`;
  });
  const waits = Object.entries(blockers).map(([name, meaning]) => `| \`${name}\` | ${meaning} |`);

  return `<!-- Made from api/failures.ts and api/names.ts by \`npm run generate\`. Do not edit. -->
# Failures

## Codes of a provider

A provider fails with an \`ApplicationFailure\` whose \`type\` is one of these codes. Codes and numbers are those of
machine-controller-manager. Any other type counts as \`Unknown\`.

- **Transient**: a retry within seconds may succeed. If \`ensureVm\` fails with such a code, and the failure is retryable, the workflow repeats the
  call after ${quickPauses()} without reporting the failure, or after the pause that the cloud asks for. The next failure is reported, and from then
  on the pauses of the table count. A failure that is not retryable, or asks for a pause of 10 s or more, is reported at once. Any other code is a
  refusal that only a person or time can change.
- **Outcome unknown**: the call may have had its effect although it failed. A create call may have left a VM, so the next
  attempt waits for \`settleSeconds\` and looks for the VM before it creates one.
- **Nothing made**: the create call was rejected before anything was made, not even a disk or NIC. If every create call of a
  Machine failed with such a code, and no answer was lost, the deletion of the Machine needs neither its class nor a call
  to the cloud.
- **Blocked on**: what the workflow of the machine reports that it waits for.
- **Retry of a creation**, **retry of a deletion**: the pause before the next attempt, or the pause that the cloud asks for
  if that is longer, up to 10 minutes. The signal \`retryNow\` and a change of the Machine, its class or Secret end the
  pause.

| number | code | meaning | transient | outcome unknown | nothing made | blocked on | retry of a creation | retry of a deletion |
|---:|---|---|---|---|---|---|---|---|
${codes.join('\n')}

## What a workflow waits for

Values of the search attribute \`${searchAttributes.blockedOn}\`. A workflow that is not blocked has no value. \`WorkflowTask\` is never one:
Temporal reports it itself, in \`${reportedProblems}\`.

| value | meaning |
|---|---|
${waits.join('\n')}
`;
}

/** The first pause, and the longest where it grows. */
function pausesText(code: FailureCode, during: 'creation' | 'deletion'): string {
  const texts = [0, Infinity].map((refusedForMs) => pauseText(retryPauseMs({ code }, during, { refusedForMs })));
  return [...new Set(texts)].join(' to ');
}

/** Between the calls of `ensureVm` that are repeated before a failure is reported. */
function quickPauses(): string {
  const lost = {
    code: 'Unavailable',
    message: '',
    outcomeUnknown: true,
    blockedOn: 'CloudApi',
    attemptsUsedUp: true,
  } as const;
  const pauses: string[] = [];
  for (let ms = quickPauseMs(lost, 1); ms !== undefined; ms = quickPauseMs(lost, pauses.length + 1))
    pauses.push(pauseText(ms));
  return `${pauses.slice(0, -1).join(', ')} and ${pauses.at(-1)}`;
}

function pauseText(ms: number): string {
  return ms < 60_000 ? `${ms / 1_000} s` : `${ms / 60_000} min`;
}

function yes(value: boolean): string {
  return value ? 'yes' : '';
}
