/** Tables of the fields of a schema, for reference pages. */
import { z } from 'zod';

/** A table of all fields of an object, with those below them: `[]` stands for the elements of a list. */
export function fieldTable(schema: z.ZodType): string {
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
  if (schema.format === 'date-time') return 'string, RFC 3339';
  const elements = elementsOf(schema);
  if (elements) return `list of ${typeOf(elements)}`;
  if (typeof schema.additionalProperties === 'object') return `map of ${typeOf(schema.additionalProperties)}`;
  return typeof schema.type === 'string' ? schema.type : 'any';
}
