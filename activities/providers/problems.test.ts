import { describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import { parseOrRefuse } from './problems.ts';

const Spec = z.strictObject({
  zone: z.string({ error: 'give a zone' }),
  disks: z.array(z.strictObject({ gb: z.int() })),
});

describe('parseOrRefuse', () => {
  it('answers with the parsed value', () => {
    expect(parseOrRefuse(Spec, { zone: 'a', disks: [] }, 'providerSpec')).toEqual({ zone: 'a', disks: [] });
  });

  it('names every field with its value and the fix', () => {
    const value = { disks: [{ gb: 'many', fast: true }], zonne: 'a' };

    expect(() => parseOrRefuse(Spec, value, 'providerSpec')).toThrow(
      expect.objectContaining({
        code: 'InvalidArgument',
        message: [
          'providerSpec.zone is missing: give a zone',
          'providerSpec.disks.0.gb is "many": give a number',
          'providerSpec.disks.0.fast is not known: remove it',
          'providerSpec.zonne is not known: remove it',
        ].join('; '),
      }),
    );
  });

  it('names the value itself when it is of another kind, and cuts a long one', () => {
    const long = 'x'.repeat(1000);

    expect(() => parseOrRefuse(Spec, long, 'providerSpec')).toThrow(/^providerSpec is "x{99}…: /);
    expect(() => parseOrRefuse(Spec, undefined, 'providerSpec')).toThrow(/^providerSpec is missing: /);
  });

  const fixes: readonly (readonly [z.ZodType, unknown, string])[] = [
    [z.string(), 3, 'v is 3: give a string'],
    [z.int(), 1.5, 'v is 1.5: give a whole number'],
    [z.number(), 'x', 'v is "x": give a number'],
    [z.boolean(), 'yes', 'v is "yes": give true or false'],
    [z.array(z.string()), 'x', 'v is "x": give a list'],
    [z.record(z.string(), z.string()), ['a'], 'v is ["a"]: give names with their values'],
    [z.strictObject({}), 'x', 'v is "x": give fields with their values'],
    [z.enum(['gp2', 'gp3', 'io1']), 'gp4', 'v is "gp4": use gp2, gp3 or io1'],
    [z.literal('spot'), 'x', 'v is "x": use spot'],
    [z.string().min(1), '', 'v is "": give at least 1 character'],
    [z.array(z.string()).max(2), ['a', 'b', 'c'], 'v is ["a","b","c"]: give at most 2 entries'],
    [z.int().min(1), 0, 'v is 0: give 1 or more'],
    [z.int().positive(), 0, 'v is 0: give more than 0'],
    [z.int().max(64), 65, 'v is 65: give 64 or less'],
  ];
  for (const [schema, value, problem] of fixes) {
    it(`says what to do: ${problem}`, () => {
      expect(() => parseOrRefuse(schema, value, 'v')).toThrow(problem);
    });
  }
});
