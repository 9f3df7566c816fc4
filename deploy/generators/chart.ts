/** docs/reference/chart.md: the values of the helm chart, from their schema and their defaults. */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { z } from 'zod';
import { root } from './root.ts';

interface Value {
  readonly description?: string | undefined;
  readonly properties?: Readonly<Record<string, Value>> | undefined;
}
const Value: z.ZodType<Value> = z.object({
  description: z.string().optional(),
  get properties() {
    return z.record(z.string(), Value).optional();
  },
});

/** Content of docs/reference/chart.md. */
export function chartDoc(): string {
  const schema = Value.parse(JSON.parse(readFileSync(`${root}deploy/chart/values.schema.json`, 'utf8')));
  const defaults: unknown = parse(readFileSync(`${root}deploy/chart/values.yaml`, 'utf8'));
  return `<!-- Made from deploy/chart/values.schema.json and values.yaml by \`npm run generate\`. Do not edit. -->
# Values of the helm chart

helm refuses values that are not listed here. [Install](../how-to/install.md) has examples.

| value | default | meaning |
|---|---|---|
${rowsOf(schema, defaults, '').join('\n')}
`;
}

function rowsOf({ properties = {} }: Value, defaults: unknown, path: string): string[] {
  return Object.entries(properties).flatMap(([name, value]) => {
    const given = z.record(z.string(), z.unknown()).safeParse(defaults).data?.[name];
    if (value.properties) return rowsOf(value, given, `${path}${name}.`);
    const text = given === undefined ? '' : `\`${JSON.stringify(given)}\``;
    return [`| \`${path}${name}\` | ${text} | ${value.description ?? ''} |`];
  });
}
