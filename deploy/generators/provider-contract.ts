/** docs/reference/provider-contract.md: the JSON of the cloud activities, from the schemas that check it. */
import { z } from 'zod';
import {
  ClassVerdict,
  DeleteVmRequest,
  EnsureVmRequest,
  ListVmsRequest,
  type ProviderActivities,
  UpdateVmRequest,
  ValidateClassRequest,
  Vm,
  VmDeletion,
  VmPage,
  VolumeIds,
  VolumeIdsRequest,
} from '../../api/provider.ts';

/** Request and result of every cloud activity; `updateVm` has no result. */
export const activities = {
  ensureVm: { request: EnsureVmRequest, result: Vm },
  deleteVm: { request: DeleteVmRequest, result: VmDeletion },
  listVms: { request: ListVmsRequest, result: VmPage },
  validateClass: { request: ValidateClassRequest, result: ClassVerdict },
  volumeIds: { request: VolumeIdsRequest, result: VolumeIds },
  updateVm: { request: UpdateVmRequest, result: undefined },
} as const satisfies Record<keyof ProviderActivities, { request: z.ZodType; result: z.ZodType | undefined }>;

/** Content of docs/reference/provider-contract.md. */
export function providerContractDoc(): string {
  const sections = Object.entries(activities).map(([name, { request, result }]) => {
    const answer = result === undefined ? 'No result.' : table(result);
    return `## ${name}\n\n### Request\n\n${table(request)}\n\n### Result\n\n${answer}\n`;
  });
  return `<!-- Made from api/provider.ts by \`npm run generate\`. Do not edit. -->
# Provider contract, version 1: fields

The argument and the result of each cloud activity, both JSON. [Writing a provider](../providers.md) says how they are
used. Ignore fields that are not listed here. \`[]\` stands for the elements of a list.

${sections.join('\n')}`;
}

function table(schema: z.ZodType): string {
  // What a sender has to give: a field with a default may be left out.
  const rows = rowsOf(z.toJSONSchema(schema, { io: 'input' }), '');
  return ['| field | type | required | meaning |', '|---|---|---|---|', ...rows].join('\n');
}

type Schema = z.core.JSONSchema.BaseSchema;

function rowsOf(schema: Schema, path: string): string[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, property]) => {
    if (typeof property === 'boolean') return [];
    const field = `${path}${name}`;
    const required = schema.required?.includes(name) ? 'yes' : '';
    const row = `| \`${field}\` | ${typeOf(property)} | ${required} | ${property.description ?? ''} |`;
    const below = elementsOf(property);
    return [row, ...(below ? rowsOf(below, `${field}[].`) : rowsOf(property, `${field}.`))];
  });
}

function elementsOf({ items }: Schema): Schema | undefined {
  return typeof items === 'object' && !Array.isArray(items) ? items : undefined;
}

function typeOf(schema: Schema): string {
  if (schema.enum) return schema.enum.map((value) => `\`${value}\``).join(', ');
  if (schema.format === 'date-time') return 'string, RFC 3339 in UTC with `Z`';
  const elements = elementsOf(schema);
  if (elements) return `list of ${typeOf(elements)}`;
  if (typeof schema.additionalProperties === 'object') return `map of ${typeOf(schema.additionalProperties)}`;
  return typeof schema.type === 'string' ? schema.type : 'any';
}
