/** docs/reference/events.md, from the one list of Events. */
import { deploymentEvents, machineEvents, setEvents, sourceEvents } from '../../api/events.ts';

/** Content of docs/reference/events.md. */
export function eventsDoc(): string {
  return `<!-- Made from api/events.ts by \`npm run generate\`. Do not edit. -->
# Events

## On a Machine

\`kubectl describe machine <name>\` shows them. Every change of phase and every refusal of a cloud is an Event. The note of
a refusal begins with its code, as in \`ResourceExhausted: the cloud answered 409 …\`, and ends with a remedy;
[Failures](failures.md) explains the codes. Repeated refusals are one Event with a count, even if their request ids differ.

| reason | type | when |
|---|---|---|
${rowsOf(machineEvents)}

## On a MachineClass

\`kubectl describe machineclass <name>\` shows them. The Event \`SourceInUse\` is repeated every half hour while objects use the class.

| reason | type | when |
|---|---|---|
${rowsOf(sourceEvents)}

## On a MachineSet

\`kubectl describe machineset <name>\` shows them. Those that are also in the table of the MachineDeployment are on a MachineSet without a
MachineDeployment only: the machines of a deployment have them on the deployment.

| reason | type | when |
|---|---|---|
${rowsOf(setEvents)}

## On a MachineDeployment

\`kubectl describe machinedeployment <name>\` shows them.

| reason | type | when |
|---|---|---|
${rowsOf(deploymentEvents)}
`;
}

function rowsOf(events: Readonly<Record<string, { readonly type: string; readonly when: string }>>): string {
  return Object.entries(events)
    .map(([reason, { type, when }]) => `| \`${reason}\` | ${type} | ${when} |`)
    .join('\n');
}
