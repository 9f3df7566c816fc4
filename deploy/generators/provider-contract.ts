/** The JSON of the cloud activities, from the schemas that check it: a page with their fields, and a JSON Schema. */
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import type { ProviderActivities } from '../../api/provider.ts';
import * as contract from '../../api/provider.ts';
import { fieldTable } from './field-table.ts';
import { root } from './root.ts';

/** Types of the contract by their names. */
export const types: ReadonlyMap<string, z.ZodType> = new Map(
  Object.entries(contract).flatMap(([name, each]) => (each instanceof z.ZodType ? [[name, each]] : [])),
);
type TypeName = {
  [K in keyof typeof contract]: (typeof contract)[K] extends z.ZodType ? K : never;
}[keyof typeof contract];

/** Types of api/provider.ts of the request and the result of every cloud activity; `updateVm` has no result. */
export const activities = {
  ensureVm: { request: 'EnsureVmRequest', result: 'Vm' },
  deleteVm: { request: 'DeleteVmRequest', result: 'VmDeletion' },
  listVms: { request: 'ListVmsRequest', result: 'VmPage' },
  validateClass: { request: 'ValidateClassRequest', result: 'ClassVerdict' },
  volumeIds: { request: 'VolumeIdsRequest', result: 'VolumeIds' },
  updateVm: { request: 'UpdateVmRequest', result: undefined },
  listInterruptions: { request: 'ListInterruptionsRequest', result: 'InterruptionPage' },
} as const satisfies Record<keyof ProviderActivities, { request: TypeName; result: TypeName | undefined }>;

/** Content of docs/reference/provider-contract.md. */
export function providerContractDoc(): string {
  const sections = Object.entries(activities).map(([name, { request, result }]) => {
    const answer = result === undefined ? 'No result.' : section(result);
    return `## ${name}\n\n### Request\n\n${section(request)}\n\n### Result\n\n${answer}\n`;
  });
  return `<!-- Made from api/provider.ts by \`npm run generate\`. Do not edit. -->
# Provider contract, version 1: fields

The argument and the result of each cloud activity, both JSON. [Writing a provider](../providers.md) says how they are
used. Ignore fields that are not listed here. \`[]\` stands for the elements of a list.

The same is a JSON Schema: [provider-contract.schema.json](provider-contract.schema.json). Its \`$defs\` have the types that this page names, with
the examples of [Writing a provider](../providers.md).

${sections.join('\n')}
## Failures

The first of the details of a failure. [Failures](../providers.md#failures) has examples.

${section('FailureDetails')}
`;
}

function section(name: TypeName): string {
  const type = types.get(name);
  if (type === undefined) throw new Error(`api/provider.ts has no type ${name}`);
  return `Type \`${name}\`.\n\n${fieldTable(type)}`;
}

/** Content of docs/reference/provider-contract.schema.json. */
export function providerContractSchema(): string {
  const registry = z.registry<{ id: string }>();
  for (const [id, type] of types) registry.add(type, { id });
  const { schemas } = z.toJSONSchema(registry, { io: 'input', uri: (id) => `#/$defs/${id}` });
  const all = contractExamples();
  const definitions = Object.entries(schemas).map(([name, schema]) => {
    const examples = all.filter(({ type }) => type === name).map(({ value }) => value);
    return [name, { ...schema, $schema: undefined, $id: undefined, ...(examples.length > 0 && { examples }) }];
  });
  const document = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    $comment: 'Made from api/provider.ts and docs/providers.md by `npm run generate`. Do not edit.',
    title: 'Provider contract, version 1',
    $defs: Object.fromEntries(definitions),
  };
  return `${JSON.stringify(document, null, 2)}\n`;
}

/** A failure in the table of examples. */
interface FailureExample {
  readonly code: string;
  /** In the words of the column *retryable*. */
  readonly retryable: string;
  readonly details: unknown;
}

/** Failures by example, of docs/providers.md. */
export function failureExamples(): FailureExample[] {
  const rows = page().matchAll(/^\| [^|]+ \| `(\w+)` \| ((?:yes|no)[^|]*) \| `(\{[^|]*\})` \|$/gm);
  return [...rows].map(([, code = '', retryable = '', json = '']) => ({ code, retryable, details: JSON.parse(json) }));
}

/** The examples of docs/providers.md with the types that they are of. */
export function contractExamples(): { readonly type: string; readonly value: unknown }[] {
  const known = new Map(Object.entries(activities));
  const blocks = page().matchAll(/^```json (\w+) (request|result)\n([^`]*)^```$/gm);
  const payloads = [...blocks].map(([, name = '', part, json = '']) => {
    const type = known.get(name)?.[part as 'request' | 'result'];
    if (type === undefined) throw new Error(`docs/providers.md has a ${part} of ${name}, which has none`);
    return { type, value: JSON.parse(json) as unknown };
  });
  return [...payloads, ...failureExamples().map(({ details }) => ({ type: 'FailureDetails', value: details }))];
}

function page(): string {
  return readFileSync(`${root}docs/providers.md`, 'utf8');
}
