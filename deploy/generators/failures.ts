/** docs/reference/failures.md, from the one list of failure codes. */
import { type FailureCode, failures } from '../../api/failures.ts';
import { blockers, searchAttributes } from '../../api/names.ts';
import { retryPauseMs } from '../../workflows/machine/outcome.ts';

/** Content of docs/reference/failures.md. */
export function failuresDoc(): string {
  const codes = (Object.keys(failures) as FailureCode[]).map((code, at) => {
    const { meaning, transient, outcomeUnknown, nothingMade, blockedOn } = failures[code];
    // The list is in the order of machine-controller-manager's numbers; its 0 is success.
    const marks = [transient, outcomeUnknown, nothingMade].map(yes).join(' | ');
    const pauses = (['creation', 'deletion'] as const).map((during) => pauseText(retryPauseMs({ code }, during)));
    return `| ${at + 1} | \`${code}\` | ${meaning} | ${marks} | ${blockedOn} | ${pauses.join(' | ')} |`;
  });
  const waits = Object.entries(blockers).map(([name, meaning]) => `| \`${name}\` | ${meaning} |`);

  return `<!-- Made from api/failures.ts and api/names.ts by \`npm run generate\`. Do not edit. -->
# Failures

## Codes of a provider

A provider fails with an \`ApplicationFailure\` whose \`type\` is one of these codes. Codes and numbers are those of
machine-controller-manager. Any other type counts as \`Unknown\`.

- **Transient**: worth another try within seconds. It is reported only when it lasts: after four calls. Any other code is
  a refusal that a person or time has to change.
- **Outcome unknown**: the call may have had its effect although it failed. A create may have left a VM, so the next
  attempt waits for \`settleSeconds\` and looks before it creates.
- **Nothing made**: a create that fails so was turned down before anything was made, no disk or NIC either. A Machine of
  which every create call failed so, and none was lost, is deleted without its class and without asking the cloud.
- **Blocked on**: what the workflow of the machine says it waits for.
- **Created again**, **deleted again**: how long it waits until the next try, which the signal \`retryNow\` and a change of
  the Machine, its class or Secret make at once. Where the cloud asks for more, that long, up to 10 minutes.

| number | code | meaning | transient | outcome unknown | nothing made | blocked on | created again | deleted again |
|---:|---|---|---|---|---|---|---|---|
${codes.join('\n')}

## What a workflow waits for

Values of the search attribute \`${searchAttributes.blockedOn}\`. A workflow that waits for nobody has none.

| value | meaning |
|---|---|
${waits.join('\n')}
`;
}

function pauseText(ms: number): string {
  return ms < 60_000 ? `${ms / 1_000} s` : `${ms / 60_000} min`;
}

function yes(value: boolean): string {
  return value ? 'yes' : '';
}
