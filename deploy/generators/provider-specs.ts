/** docs/reference/provider-specs.md: the `providerSpec` of each provider that ships, from the schema that checks it. */
import { AwsProviderSpec } from '../../activities/providers/aws/schema.ts';
import { AzureProviderSpec } from '../../activities/providers/azure/schema.ts';
import { OpenstackDocument } from '../../activities/providers/openstack/schema.ts';
import { SimulatedProviderSpec } from '../../activities/providers/simulated/schema.ts';
import { fieldTable } from './field-table.ts';

const sections = {
  AWS: AwsProviderSpec,
  Azure: AzureProviderSpec,
  OpenStack: OpenstackDocument,
  simulated: SimulatedProviderSpec,
};

/** Content of docs/reference/provider-specs.md. */
export function providerSpecsDoc(): string {
  const tables = Object.entries(sections).map(([name, schema]) => `## ${name}\n\n${fieldTable(schema)}\n`);
  return `<!-- Made from activities/providers by \`npm run generate\`. Do not edit. -->
# providerSpec of each provider

\`[]\` stands for the elements of a list. [AWS](../providers/aws.md), [Azure](../providers/azure.md) and
[OpenStack](../providers/openstack.md) have pages of their own.

${tables.join('\n')}`;
}
