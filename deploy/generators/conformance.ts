/** docs/reference/conformance.md, from the cases of the suite, what it asks a cloud, and the mutants that test it. */
import type { Case, Need } from '../../test/conformance/case.ts';
import { leaveNothing } from '../../test/conformance/cases/deletion.ts';
import { cases } from '../../test/conformance/cases.ts';
import { CloudFault, CloudThing, WantedVms } from '../../test/conformance/counterpart.ts';
import { CallCount, HttpCloudFacts, MadeVms } from '../../test/conformance/http-counterpart.ts';
import { mutants, mutantsFromOutside } from '../../test/conformance/mutants.ts';
import { inheritedVariables } from '../../test/conformance/worker-process.ts';
import { fieldTable } from './field-table.ts';

/** Content of docs/reference/conformance.md. */
export function conformanceDoc(): string {
  return `<!-- Made from test/conformance by \`npm run generate\`. Do not edit. -->
# Conformance

What \`npm run conformance\` checks of a provider, in this order. [Writing a provider](../providers.md#conformance) says how
to run it. **Needs**: the worker has to be one that the suite starts (\`--worker\`); the cloud, or a fault of it, has to be
under the suite's control ([\`--counterpart\`](#a-cloud-under-the-suites-control), or \`--all\` for the providers of this repository). All others run
against any worker, through Temporal; the suite only writes Secrets to the cluster. If the cloud is not under the suite's control, there is one case
more, after all others: "${leaveNothing.title}". ${leaveNothing.promise}

No case tests \`volumeIds\`, \`listInterruptions\`, \`providerSpecDefaults\`, \`cluster\`, or a VM that the cloud accepts and then
has no capacity for. Test these yourself.

| case | what the contract says | needs | section |
|---|---|---|---|
${cases.map(row).join('\n')}

## A cloud under the suite's control

With \`--counterpart <url>\`, the suite asks the program at this URL about the cloud: which faults it shows, and what exists in it. Write this program
for a test double of your cloud, or for an account that nothing else uses. It is the same for a provider in any language.
There is one in [Go](../../deploy/examples/go-provider/conformance_test.go), in
[Python](../../deploy/examples/python-provider/test_conformance.py), and in [TypeScript](../../test/support/serve-counterpart.ts), each for the
simulated cloud.

Requests and answers are JSON. Any status from 300 on fails the case, which shows the body of the answer.

| request | body | answer | |
|---|---|---|---|
| \`GET /\` | | \`{${keys(HttpCloudFacts)}}\` | What the suite has to know, once at the start |
| \`PUT /fault\` | \`{fault}\` | nothing | Replaces the fault that is on. Without \`fault\`, the cloud does as it is asked from now on, and answers at once what it has held back |
| \`GET /things\` | | list of \`{${keys(CloudThing)}}\` | All that exists, whatever its tags are, also what is not listed yet |
| \`GET /calls\` | | \`{${keys(CallCount)}}\` | How many calls the provider has made to the cloud so far |
| \`POST /vms\` | \`{${keys(WantedVms)}}\` | \`{${keys(MadeVms)}}\` | Makes VMs without the provider, and answers their provider IDs |
| \`POST /reset\` | | nothing | Ends the fault, and deletes all that exists |

- The cloud serves one run of the suite at a time. Each case begins with \`POST /reset\`.
- Without a fault, the cloud lists a VM at once. Otherwise correct providers fail.
- With the faults \`lostAnswer\`, \`slowAnswer\` and \`listedLate\`, the cloud ignores idempotency tokens, unless the real one promises that they count.
- A VM of \`POST /vms\` with a \`uid\` is younger than all VMs that exist.
- A deletion may take a while, as in the real cloud: some tenths of a second show whether the provider waits for it.

The suite starts the worker with the command of \`--worker\`, kills it with all its children, and starts it again. The worker gets nothing of your
environment but the variables of the first row. If it needs others, set them in the command: \`--worker 'EXAMPLE_REGION=here ./provider'\`.

| variable | |
|---|---|
| ${inheritedVariables.map((name) => `\`${name}\``).join(', ')} | As in your environment |
| \`TEMPORAL_ADDRESS\`, \`TEMPORAL_NAMESPACE\` | The Temporal server |
| \`TEMPORAL_CONFIG_FILE\` | A file that does not exist, so that the SDK reads no profile of yours |
| \`MILLWRIGHT_INSTALLATION\` | The installation: the task queue is \`<installation>.provider-<name>\` |
| \`KUBECONFIG\` | Path of a kubeconfig with the [rights of a provider](../providers.md#what-you-need) and no others |
| \`KUBERNETES_SERVER\`, \`KUBERNETES_TOKEN_FILE\`, \`KUBERNETES_CA_FILE\` | The same for programs that read no kubeconfig: the URL, and paths of the token and of the certificate authority |

### Answer of \`GET /\`

${fieldTable(HttpCloudFacts)}

### Faults

| \`kind\` | further fields | what the cloud does |
|---|---|---|
${CloudFault.options.map(faultRow).join('\n')}

### Things

${fieldTable(CloudThing)}

### Body of \`POST /vms\`

${fieldTable(WantedVms)}

## Mutants

[Tests](../../test/conformance/mutants.test.ts) of the suite run these providers, which break one promise each, with a cloud that the suite asks over
HTTP. The suite may not notice a mistake that is not here.

| the provider | is noticed in the case |
|---|---|
${mutants.map(mutantRow).join('\n')}

It notices these without a cloud under its control:

| the provider | is noticed in the case |
|---|---|
${mutantsFromOutside.map(mutantRow).join('\n')}
`;
}

function keys({ shape }: { readonly shape: object }): string {
  return Object.keys(shape).join(', ');
}

function faultRow({ shape, description }: (typeof CloudFault.options)[number]): string {
  const { kind, ...fields } = shape;
  const names = Object.keys(fields).map((name) => `\`${name}\``);
  return `| \`${kind.value}\` | ${names.join(', ')} | ${description} |`;
}

function mutantRow({ title, caughtBy }: (typeof mutants)[number]): string {
  return `| ${title} | ${caughtBy} |`;
}

function row({ title, promise, needs, section }: Case): string {
  return `| ${title} | ${promise} | ${needs.map(inWords).join(', ')} | ${section} |`;
}

function inWords(need: Need): string {
  if (need === 'severalVms') return 'several VMs of a Machine';
  return need === 'worker' || need === 'cloud' ? `the ${need}` : `the fault ${need}`;
}
