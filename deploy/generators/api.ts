/** docs/reference/api.md: the fields of every kind, from the schemas that the server checks. */
import { type KindDefinition, type StructuralSchema, toStructuralSchema } from '../../api/crds.ts';
import { kinds } from './crds.ts';

/** Content of docs/reference/api.md. */
export function apiDoc(): string {
  return `<!-- Made from api/ by \`npm run generate\`. Do not edit. -->
# API

The kinds of the group \`machine.sapcloud.io/v1alpha1\`, all namespaced. Fields, names and meaning are those of Gardener's
machine-controller-manager. \`kubectl explain\` shows the same. \`[]\` stands for the elements of a list, \`{}\` for the values
of a map. Objects and lists keep no field that is not listed here, except where it says that other fields are kept.

${kinds.map(section).join('\n')}`;
}

function section({ resource, shortNames, schema, columns, subresources }: KindDefinition): string {
  const root = toStructuralSchema(schema, resource.kind);
  const rules = rulesOf(root, '');
  return `## ${resource.kind}

${root.description}

\`kubectl get ${resource.plural}\`, or ${shortNames.map((name) => `\`${name}\``).join(', ')}. Subresources: ${
    subresources.map((name) => `\`${name}\``).join(', ') || 'none'
  }. Columns: ${columns.map((column) => `${column.name} (\`${column.jsonPath}\`)`).join(', ') || 'the name and age'}.

| field | type | required | meaning |
|---|---|---|---|
${rowsOf(root, '').join('\n')}
${rules.length > 0 ? `\nThe server refuses what breaks one of these rules:\n\n${rules.join('\n')}\n` : ''}`;
}

function rowsOf({ properties = {}, required = [] }: StructuralSchema, path: string): string[] {
  return Object.entries(properties).flatMap(([name, property]) => {
    const field = `${path}${name}`;
    const row = [`\`${field}\``, typeOf(property), required.includes(name) ? 'yes' : '', property.description ?? ''];
    return [`| ${row.map((text) => text.replaceAll('|', '\\|')).join(' | ')} |`, ...rowsBelow(property, field)];
  });
}

function rowsBelow(schema: StructuralSchema, path: string): string[] {
  if (schema.items) return rowsBelow(schema.items, `${path}[]`);
  if (schema.additionalProperties) return rowsBelow(schema.additionalProperties, `${path}{}`);
  return rowsOf(schema, `${path}.`);
}

function typeOf(schema: StructuralSchema): string {
  if (schema['x-kubernetes-int-or-string']) return schema.pattern ? 'quantity' : 'integer or string';
  if (schema.enum) return schema.enum.map((value) => `\`${value}\``).join(', ');
  if (schema.items) return `list of ${typeOf(schema.items)}`;
  if (schema.additionalProperties) return `map of ${typeOf(schema.additionalProperties)}`;
  if (schema['x-kubernetes-preserve-unknown-fields']) return 'object, other fields are kept';
  if (schema.format === 'date-time') return 'time, RFC 3339';
  return schema.format ?? schema.type ?? 'any';
}

/** What the rules of a schema demand, each with the field that it is about. */
function rulesOf(schema: StructuralSchema, path: string): string[] {
  const own = (schema['x-kubernetes-validations'] ?? []).map(
    ({ fieldPath = '', reason, message }) =>
      `- \`${`${path}${fieldPath}`.replace(/^\./, '')}\`${reason ? ' is required' : ''}: ${message}`,
  );
  const below = Object.entries(schema.properties ?? {}).flatMap(([name, property]) =>
    rulesOf(property, `${path}.${name}`),
  );
  return [...own, ...below];
}
