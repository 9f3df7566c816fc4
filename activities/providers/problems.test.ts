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
          'providerSpec.disks.0.gb is "many": Invalid input: expected number, received string',
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
});
