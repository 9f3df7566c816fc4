/** docs/reference/conformance.md, from the cases of the suite. */
import type { Case, Need } from '../../test/conformance/case.ts';
import { leaveNothing } from '../../test/conformance/cases/deletion.ts';
import { cases } from '../../test/conformance/cases.ts';

/** Content of docs/reference/conformance.md. */
export function conformanceDoc(): string {
  return `<!-- Made from test/conformance by \`npm run generate\`. Do not edit. -->
# Conformance

What \`npm run conformance\` checks of a provider, in this order. [Writing a provider](../providers.md#conformance) says how
to run it. **Needs**: the worker has to be one that the suite starts (\`--worker\`); the cloud, or a fault of it, has to be
under the suite's control (\`--all\`). All others run against any
worker, through Temporal; the suite only writes Secrets to the cluster. Without \`--all\` there is one case more, after all
others: "${leaveNothing.title}". ${leaveNothing.promise}

No case tests \`volumeIds\`, \`listInterruptions\`, \`providerSpecDefaults\`, \`cluster\`, or a VM that the cloud accepts and then
has no capacity for. Test these yourself.

| case | what the contract says | needs | section |
|---|---|---|---|
${cases.map(row).join('\n')}
`;
}

function row({ title, promise, needs, section }: Case): string {
  return `| ${title} | ${promise} | ${needs.map(inWords).join(', ')} | ${section} |`;
}

function inWords(need: Need): string {
  if (need === 'severalVms') return 'several VMs of a Machine';
  return need === 'worker' || need === 'cloud' ? `the ${need}` : `the fault ${need}`;
}
