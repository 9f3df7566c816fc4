/** docs/reference/failures.md, from the one list of failure codes. */
import { failures } from '../../api/failures.ts';
import { blockers, searchAttributes } from '../../api/names.ts';

/** Content of docs/reference/failures.md. */
export function failuresDoc(): string {
  const codes = Object.entries(failures).map(([code, about], at) => {
    const { meaning, transient, outcomeUnknown, nothingMade, blockedOn } = about;
    // The list is in the order of machine-controller-manager's numbers; its 0 is success.
    const marks = [transient, outcomeUnknown, nothingMade].map(yes).join(' | ');
    return `| ${at + 1} | \`${code}\` | ${meaning} | ${marks} | ${blockedOn} |`;
  });
  const waits = Object.entries(blockers).map(([name, meaning]) => `| \`${name}\` | ${meaning} |`);

  return `<!-- Made from api/failures.ts and api/names.ts by \`npm run generate\`. Do not edit. -->
# Failures

## Codes of a provider

A provider fails with an \`ApplicationFailure\` whose \`type\` is one of these codes. Codes and numbers are those of
machine-controller-manager. Any other type counts as \`Unknown\`.

- **Transient**: worth another try within seconds. The activity's retry policy makes it, and the workflow sees the
  failure only when it lasts. Any other code is a refusal that a person or time has to change.
- **Outcome unknown**: the call may have had its effect although it failed. A create may have left a VM, so the next
  attempt waits for \`settleSeconds\` and looks before it creates.
- **Nothing made**: a create that fails so was turned down before anything was made, no disk or NIC either. A Machine of
  which every create call failed so, and none was lost, is deleted without its class and without asking the cloud.
- **Blocked on**: what the workflow of the machine says it waits for.

| number | code | meaning | transient | outcome unknown | nothing made | blocked on |
|---:|---|---|---|---|---|---|
${codes.join('\n')}

## What a workflow waits for

Values of the search attribute \`${searchAttributes.blockedOn}\`. A workflow that waits for nobody has none.

| value | meaning |
|---|---|
${waits.join('\n')}
`;
}

function yes(value: boolean): string {
  return value ? 'yes' : '';
}
