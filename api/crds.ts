/**
 * From zod schemas to CustomResourceDefinitions. The schema of a CRD is structural: a strict subset of OpenAPI, of
 * which the server drops or refuses the rest. What zod can say and a CRD cannot is an error here, never left out in
 * silence.
 */
import { z } from 'zod';

/** A rule in CEL. The server answers with the path of the field, the reason and the message, not with the value. */
export interface ValidationRule {
  /** True when the object is valid. `self` is the value that carries the rule. */
  rule: string;
  /** Names the field and the fix. */
  message: string;
  /** CEL for a message that has the value in it, see `withValue`. */
  messageExpression?: string;
  /** Path of the field at fault, from the value that carries the rule: `.replicas`. */
  fieldPath?: string;
  /** Default: the field is invalid. */
  reason?: 'FieldValueRequired';
}

/** A rule whose message ends with the value at fault, a CEL expression of type string. */
export function withValue(rule: ValidationRule, value: string): ValidationRule {
  return { ...rule, messageExpression: `${JSON.stringify(`${rule.message}, not '`)} + ${value} + "'"` };
}

/** Schema of a CRD. */
export interface StructuralSchema {
  type?: 'object' | 'array' | 'string' | 'integer' | 'boolean';
  description?: string;
  format?: string;
  pattern?: string;
  enum?: string[];
  default?: unknown;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  maxProperties?: number;
  anyOf?: { type: 'integer' | 'string' }[];
  items?: StructuralSchema;
  properties?: Record<string, StructuralSchema>;
  required?: string[];
  additionalProperties?: StructuralSchema;
  'x-kubernetes-preserve-unknown-fields'?: true;
  'x-kubernetes-int-or-string'?: true;
  'x-kubernetes-list-type'?: 'atomic' | 'set' | 'map';
  'x-kubernetes-list-map-keys'?: string[];
  'x-kubernetes-map-type'?: 'atomic' | 'granular';
  'x-kubernetes-validations'?: ValidationRule[];
}

/** Keys of `.meta({...})` that are taken over; zod itself has no word for them. */
const metaKeys = new Set([
  'description',
  'maxProperties',
  'pattern',
  'x-kubernetes-int-or-string',
  'x-kubernetes-list-type',
  'x-kubernetes-list-map-keys',
  'x-kubernetes-map-type',
  'x-kubernetes-validations',
]);

/** What the checks of a schema say, as far as a CRD has a word for it. */
interface Checks {
  string_format?: { format: string; pattern?: RegExp };
  number_format?: { format: string };
  min_length?: { minimum: number };
  max_length?: { maximum: number };
  greater_than?: { value: number; inclusive: boolean };
  less_than?: { value: number; inclusive: boolean };
}
const knownChecks: Record<keyof Checks, true> = {
  string_format: true,
  number_format: true,
  min_length: true,
  max_length: true,
  greater_than: true,
  less_than: true,
};

/**
 * Structural schema of what a client may send. Throws an Error that names the path for anything that a CRD cannot
 * express (unions other than int-or-string, null, refinements, transforms, look-around in patterns ...) and for a
 * property without a description. CEL rules and `x-kubernetes-*` come from `.meta({...})`.
 */
export function toStructuralSchema(schema: z.ZodType, path = ''): StructuralSchema {
  const checks = checksOf(schema as unknown as z.core.$ZodTypes, path);
  return { ...shapeOf(schema as unknown as z.core.$ZodTypes, checks, path), ...metaOf(schema, path) };
}

/** zod keeps a format such as int32 in the schema itself and everything else in a list. */
function checksOf(schema: z.core.$ZodTypes, path: string): Checks {
  const { def } = schema._zod;
  const checks: Record<string, object> = {};
  for (const check of ['check' in def ? def : [], def.checks?.map((each) => each._zod.def) ?? []].flat()) {
    const name = check.check as string;
    if (!Object.hasOwn(knownChecks, name)) {
      // refine() is 'custom', trim() and toLowerCase() are 'overwrite'.
      throw unsupported(path, `the check '${name}'`, 'write the rule as x-kubernetes-validations');
    }
    if (Object.hasOwn(checks, name)) throw unsupported(path, `the check '${name}' twice`, 'make them one');
    checks[name] = check;
  }
  return checks;
}

function shapeOf(schema: z.core.$ZodTypes, checks: Checks, path: string): StructuralSchema {
  switch (schema._zod.def.type) {
    case 'string':
      return stringSchema(checks, path);
    case 'number':
      return integerSchema(checks, path);
    case 'boolean':
      return { type: 'boolean' };
    case 'enum':
      return { type: 'string', enum: strings(Object.values((schema as z.core.$ZodEnum)._zod.def.entries), path) };
    case 'literal':
      return { type: 'string', enum: strings((schema as z.core.$ZodLiteral)._zod.def.values, path) };
    case 'unknown':
      return { 'x-kubernetes-preserve-unknown-fields': true };
    case 'array':
      return arraySchema(schema as z.core.$ZodArray, checks, path);
    case 'object':
      return objectSchema(schema as z.core.$ZodObject, path);
    case 'record':
      return mapSchema(schema as z.core.$ZodRecord, path);
    case 'optional':
      return toStructuralSchema((schema as z.core.$ZodOptional<z.ZodType>)._zod.def.innerType, path);
    case 'default': {
      const { innerType, defaultValue } = (schema as z.core.$ZodDefault<z.ZodType>)._zod.def;
      return { ...toStructuralSchema(innerType, path), default: defaultValue };
    }
    case 'union':
      // The one union that a structural schema knows; the server takes it in exactly this form only.
      if (z.globalRegistry.get(schema)?.['x-kubernetes-int-or-string'] === true) {
        return { anyOf: [{ type: 'integer' }, { type: 'string' }] };
      }
      throw unsupported(path, 'a union', 'make it int-or-string, or one object with optional fields');
    default:
      throw unsupported(path, `'${schema._zod.def.type}'`, 'use another type');
  }
}

function stringSchema({ min_length, max_length, string_format }: Checks, path: string): StructuralSchema {
  return {
    type: 'string',
    ...(min_length && { minLength: min_length.minimum }),
    ...(max_length && { maxLength: max_length.maximum }),
    ...(string_format && stringFormat(string_format, path)),
  };
}

function stringFormat({ format, pattern }: NonNullable<Checks['string_format']>, path: string): StructuralSchema {
  if (format === 'datetime') return { format: 'date-time' }; // says all that zod's long pattern does
  if (format !== 'regex' || pattern === undefined) {
    throw unsupported(path, `the string format '${format}'`, 'use .regex()');
  }
  if (pattern.flags !== '') throw unsupported(path, `the flags of ${pattern}`, 'write the pattern without flags');
  if (/\(\?<?[=!]|\\[1-9]/.test(pattern.source)) {
    throw unsupported(path, `the look-around or back reference of ${pattern}`, 'write what RE2 understands');
  }
  return { pattern: pattern.source };
}

function integerSchema({ number_format, greater_than, less_than }: Checks, path: string): StructuralSchema {
  const format = number_format?.format;
  if (format !== 'int32' && format !== 'safeint') {
    throw unsupported(path, 'a number that is no integer', 'use z.int32(), z.int() or a quantity');
  }
  if (greater_than?.inclusive === false || less_than?.inclusive === false) {
    throw unsupported(path, 'an exclusive bound', 'use .min() or .max()');
  }
  return {
    type: 'integer',
    format: format === 'int32' ? 'int32' : 'int64',
    ...(greater_than && { minimum: greater_than.value }),
    ...(less_than && { maximum: less_than.value }),
  };
}

function arraySchema(schema: z.core.$ZodArray, { min_length, max_length }: Checks, path: string): StructuralSchema {
  return {
    type: 'array',
    items: toStructuralSchema(schema._zod.def.element as z.ZodType, `${path}[]`),
    ...(min_length && { minItems: min_length.minimum }),
    ...(max_length && { maxItems: max_length.maximum }),
  };
}

function objectSchema(schema: z.core.$ZodObject, path: string): StructuralSchema {
  const { shape, catchall } = schema._zod.def;
  const kind = catchall?._zod.def.type;
  if (kind !== undefined && kind !== 'unknown' && kind !== 'never') {
    throw unsupported(path, 'a catchall with a type', 'use z.looseObject() or z.record()');
  }
  const properties: Record<string, StructuralSchema> = {};
  const required: string[] = [];
  for (const [name, field] of Object.entries(shape)) {
    const property = toStructuralSchema(field as z.ZodType, `${path}.${name}`);
    if (property.description === undefined) {
      throw new Error(`${path}.${name} has no description: add .describe('...')`);
    }
    properties[name] = property;
    if (field._zod.optin === undefined) required.push(name); // else 'optional' or 'defaulted'
  }
  return {
    type: 'object',
    ...(Object.keys(properties).length > 0 && { properties }),
    ...(required.length > 0 && { required }),
    // A strict object needs nothing: the server drops unknown fields, or refuses them when asked to be strict.
    ...(kind === 'unknown' && { 'x-kubernetes-preserve-unknown-fields': true }),
  };
}

function mapSchema(schema: z.core.$ZodRecord, path: string): StructuralSchema {
  const { keyType, valueType } = schema._zod.def;
  if (keyType._zod.def.type !== 'string' || (keyType._zod.def.checks ?? []).length > 0) {
    throw unsupported(path, 'a rule for the keys of a map', 'use z.string() as key and x-kubernetes-validations');
  }
  return { type: 'object', additionalProperties: toStructuralSchema(valueType as z.ZodType, `${path}{}`) };
}

function metaOf(schema: z.ZodType, path: string): StructuralSchema {
  const meta = z.globalRegistry.get(schema) ?? {};
  for (const key of Object.keys(meta)) {
    if (!metaKeys.has(key)) throw unsupported(path, `meta '${key}'`, `use one of ${[...metaKeys].join(', ')}`);
  }
  return meta as StructuralSchema;
}

function strings(values: readonly unknown[], path: string): string[] {
  return values.map((value) => {
    if (typeof value !== 'string') throw unsupported(path, 'a value that is no string', 'use strings');
    return value;
  });
}

function unsupported(path: string, what: string, fix: string): Error {
  return new Error(`${path || 'the root'} uses ${what}, which a CRD cannot express: ${fix}`);
}

/** A column of `kubectl get`. With `priority` 1 it shows with `-o wide` only. */
export interface PrinterColumn {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'date';
  readonly jsonPath: string;
  readonly description: string;
  readonly priority?: number;
}

/** What a CRD is made from. */
export interface KindDefinition {
  readonly resource: {
    readonly group: string;
    readonly version: string;
    readonly plural: string;
    readonly kind: string;
  };
  readonly shortNames: readonly string[];
  /** Everything but apiVersion, kind and metadata. Its description is that of the kind. */
  readonly schema: z.ZodObject;
  readonly columns: readonly PrinterColumn[];
  /** `status` alone, or with `scale` by `.spec.replicas` and `.status.replicas`. */
  readonly subresources: readonly ('status' | 'scale')[];
}

/** A CustomResourceDefinition with one version, as it is sent to the server. */
export type CrdManifest = ReturnType<typeof toCrd>;

/** Column that the server adds by itself only when a CRD has no columns. */
export const ageColumn: PrinterColumn = {
  name: 'Age',
  type: 'date',
  jsonPath: '.metadata.creationTimestamp',
  description: 'Time since the object was created.',
};

/** CRD of a kind, namespaced, with one version that is served and stored. Throws what `toStructuralSchema` throws. */
export function toCrd(definition: KindDefinition) {
  const { resource, shortNames, schema, columns, subresources } = definition;
  const { group, version, plural, kind } = resource;
  const { properties, ...root } = toStructuralSchema(schema, kind);
  return {
    apiVersion: 'apiextensions.k8s.io/v1' as const,
    kind: 'CustomResourceDefinition' as const,
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      names: { kind, listKind: `${kind}List`, plural, singular: kind.toLowerCase(), shortNames: [...shortNames] },
      scope: 'Namespaced',
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          ...(columns.length > 0 && { additionalPrinterColumns: [...columns] }),
          ...(subresources.length > 0 && {
            subresources: {
              ...(subresources.includes('status') && { status: {} }),
              ...(subresources.includes('scale') && {
                scale: { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' },
              }),
            },
          }),
          schema: {
            openAPIV3Schema: {
              ...root,
              properties: {
                apiVersion: { type: 'string', description: `\`${group}/${version}\`.` },
                kind: { type: 'string', description: `\`${kind}\`.` },
                metadata: { type: 'object' },
                ...properties,
              } satisfies Record<string, StructuralSchema>,
            },
          },
        },
      ],
    },
  };
}
