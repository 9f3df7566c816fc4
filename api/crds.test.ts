import { describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import { ageColumn, toCrd, toStructuralSchema, withValue } from './crds.ts';
import { Duration, IntOrString, LabelSelector, Quantity, Time } from './schema.ts';

describe('toStructuralSchema', () => {
  for (const { name, schema, expected } of [
    { name: 'a string', schema: z.string(), expected: { type: 'string' } },
    {
      name: 'a string with bounds and a pattern',
      schema: z
        .string()
        .min(1)
        .max(63)
        .regex(/^[a-z]+$/),
      expected: { type: 'string', minLength: 1, maxLength: 63, pattern: '^[a-z]+$' },
    },
    { name: 'a time', schema: Time, expected: { type: 'string', format: 'date-time' } },
    { name: 'int32', schema: z.int32(), expected: { type: 'integer', format: 'int32' } },
    { name: 'int64', schema: z.int(), expected: { type: 'integer', format: 'int64' } },
    {
      name: 'an integer with bounds',
      schema: z.int32().min(0).max(100),
      expected: { type: 'integer', format: 'int32', minimum: 0, maximum: 100 },
    },
    { name: 'a boolean', schema: z.boolean(), expected: { type: 'boolean' } },
    { name: 'an enum', schema: z.enum(['a', 'b']), expected: { type: 'string', enum: ['a', 'b'] } },
    { name: 'a literal', schema: z.literal('a'), expected: { type: 'string', enum: ['a'] } },
    { name: 'a default', schema: z.boolean().default(true), expected: { type: 'boolean', default: true } },
    { name: 'anything', schema: z.unknown(), expected: { 'x-kubernetes-preserve-unknown-fields': true } },
    {
      name: 'a list with bounds',
      schema: z.array(z.string()).min(1).max(8),
      expected: { type: 'array', items: { type: 'string' }, minItems: 1, maxItems: 8 },
    },
    {
      name: 'a map with a bound',
      schema: z.record(z.string(), z.int32()).meta({ maxProperties: 10 }),
      expected: { type: 'object', additionalProperties: { type: 'integer', format: 'int32' }, maxProperties: 10 },
    },
    {
      name: 'an int-or-string',
      schema: IntOrString,
      expected: { 'x-kubernetes-int-or-string': true, anyOf: [{ type: 'integer' }, { type: 'string' }] },
    },
    {
      name: 'an object that keeps unknown fields',
      schema: z.looseObject({}),
      expected: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
    },
    { name: 'a strict object', schema: z.strictObject({}), expected: { type: 'object' } },
  ]) {
    it(`converts ${name}`, () => {
      expect(toStructuralSchema(schema)).toEqual(expected);
    });
  }

  it('requires the fields that are neither optional nor have a default', () => {
    const schema = z.object({
      given: z.string().describe('A.'),
      left: z.string().optional().describe('B.'),
      filled: z.string().default('x').describe('C.'),
    });

    expect(toStructuralSchema(schema)).toEqual({
      type: 'object',
      required: ['given'],
      properties: {
        given: { type: 'string', description: 'A.' },
        left: { type: 'string', description: 'B.' },
        filled: { type: 'string', description: 'C.', default: 'x' },
      },
    });
  });

  it('takes over CEL rules and list types, also through optional and describe', () => {
    const rule = { rule: 'self.size() > 1', message: 'must be longer' };
    const schema = z.object({
      list: z
        .array(z.string())
        .meta({ 'x-kubernetes-list-type': 'set', 'x-kubernetes-validations': [rule] })
        .optional()
        .describe('A list.'),
    });

    expect(toStructuralSchema(schema).properties?.list).toEqual({
      type: 'array',
      items: { type: 'string' },
      description: 'A list.',
      'x-kubernetes-list-type': 'set',
      'x-kubernetes-validations': [rule],
    });
  });

  it('gives selectors the bounds that a CEL rule over their labels needs', () => {
    expect(toStructuralSchema(LabelSelector)).toMatchObject({
      'x-kubernetes-map-type': 'atomic',
      properties: { matchLabels: { maxProperties: 1000, additionalProperties: { maxLength: 63 } } },
    });
  });

  for (const { name, schema, message } of [
    { name: 'null', schema: z.string().nullable(), message: "uses 'nullable'" },
    { name: 'a union', schema: z.union([z.string(), z.boolean()]), message: 'uses a union' },
    { name: 'a tuple', schema: z.tuple([z.string()]), message: "uses 'tuple'" },
    { name: 'a Date', schema: z.date(), message: "uses 'date'" },
    { name: 'a recursion', schema: z.lazy(() => z.string()), message: "uses 'lazy'" },
    { name: 'a transform', schema: z.string().transform(Number), message: "uses 'pipe'" },
    { name: 'a trim', schema: z.string().trim(), message: "uses the check 'overwrite'" },
    { name: 'a refinement', schema: z.string().refine(Boolean), message: "uses the check 'custom'" },
    { name: 'two patterns', schema: z.string().regex(/a/).regex(/b/), message: "uses the check 'string_format' twice" },
    { name: 'a flag', schema: z.string().regex(/a/i), message: 'uses the flags of /a/i' },
    { name: 'a look-ahead', schema: z.string().regex(/a(?!b)/), message: 'uses the look-around or back reference' },
    { name: 'a look-behind', schema: z.string().regex(/(?<=b)a/), message: 'uses the look-around or back reference' },
    { name: 'a back reference', schema: z.string().regex(/(a)\1/), message: 'uses the look-around or back reference' },
    // zod means ISO 8601, the server Go's.
    { name: 'a duration of zod', schema: z.iso.duration(), message: "uses the string format 'duration'" },
    { name: 'a fraction', schema: z.number(), message: 'uses a number that is no integer' },
    { name: 'an exclusive bound', schema: z.int32().gt(0), message: 'uses an exclusive bound' },
    { name: 'a number as enum', schema: z.literal(1), message: 'uses a value that is no string' },
    {
      name: 'keys of a map',
      schema: z.record(z.enum(['a']), z.string()),
      message: 'uses a rule for the keys of a map',
    },
    { name: 'a typed catchall', schema: z.object({}).catchall(z.string()), message: 'uses a catchall with a type' },
    { name: 'unknown meta', schema: z.string().meta({ title: 'A' }), message: "uses meta 'title'" },
  ]) {
    it(`refuses ${name} and names the path`, () => {
      const parent = z.object({ list: z.array(z.object({ field: schema.describe('F.') })).describe('L.') });

      expect(() => toStructuralSchema(parent, 'Kind')).toThrow(`Kind.list[].field ${message}`);
    });
  }

  it('refuses a field without a description', () => {
    expect(() => toStructuralSchema(z.object({ a: z.string() }), 'Kind')).toThrow('Kind.a has no description');
  });
});

describe('the shapes of Kubernetes', () => {
  it.each(['4', 4, '500m', '16Gi', '1e3', '-1', '.5'])('Quantity has a pattern that %p matches', (quantity) => {
    const { pattern = '' } = toStructuralSchema(Quantity);

    expect(String(quantity)).toMatch(new RegExp(pattern));
  });

  it.each(['16GiB', 'four', ''])('Quantity has a pattern that %p does not match', (quantity) => {
    const { pattern = '' } = toStructuralSchema(Quantity);

    expect(quantity).not.toMatch(new RegExp(pattern));
  });

  it('Duration names the value that it refuses', () => {
    expect(toStructuralSchema(Duration)['x-kubernetes-validations']).toEqual([
      expect.objectContaining({
        messageExpression: `"must be a Go duration such as 90s, 20m or 1h30m, not '" + self + "'"`,
      }),
    ]);
  });
});

describe('withValue', () => {
  it('escapes the message', () => {
    const { messageExpression } = withValue({ rule: 'false', message: 'must be "a"' }, 'self.b');

    expect(messageExpression).toBe(`"must be \\"a\\", not '" + self.b + "'"`);
  });
});

describe('toCrd', () => {
  const resource = { group: 'example.com', version: 'v1', plural: 'things', kind: 'Thing' };
  const schema = z.object({ spec: z.looseObject({}).optional().describe('Spec.') }).describe('A thing.');

  it('makes a manifest with one version', () => {
    const crd = toCrd({
      resource,
      shortNames: ['th'],
      schema,
      columns: [ageColumn],
      subresources: ['status', 'scale'],
    });

    expect(crd).toMatchSnapshot();
  });

  it('leaves out what a kind does not have', () => {
    const [version] = toCrd({ resource, shortNames: [], schema, columns: [], subresources: [] }).spec.versions;

    expect(Object.keys(version ?? {})).toEqual(['name', 'served', 'storage', 'schema']);
  });
});
