/** docs/reference/events.md, from the one list of Events on a Machine. */
import { machineEvents } from '../../api/events.ts';

/** Content of docs/reference/events.md. */
export function eventsDoc(): string {
  const rows = Object.entries(machineEvents).map(([reason, { type, when }]) => `| \`${reason}\` | ${type} | ${when} |`);

  return `<!-- Made from api/events.ts by \`npm run generate\`. Do not edit. -->
# Events of a Machine

\`kubectl describe machine <name>\` shows them. Every change of phase is one, and every refusal of a cloud. That of a
refusal begins with its code, as in \`ResourceExhausted: the cloud answered 409 …\`, and ends with what would help;
[Failures](failures.md) tells what each code means. A refusal that comes again is the same Event with a count, also where
the id of its request differs.

| reason | type | when |
|---|---|---|
${rows.join('\n')}
`;
}
