import { describe, expect, it } from '@jest/globals';
import { providerTaskQueue } from '../../api/names.ts';
import { createProvider, providerNames } from './registry.ts';

const deps = { readSecret: async () => undefined };

describe('createProvider', () => {
  it.each(providerNames)('makes %s, however its name is spelt', async (name) => {
    expect(await createProvider(name.toUpperCase(), deps)).toMatchObject({ ensureVm: expect.any(Function) });
    expect(providerTaskQueue('default', name.toUpperCase())).toBe(providerTaskQueue('default', name));
  });

  it('names the known ones', async () => {
    await expect(createProvider('toString', deps)).rejects.toThrow(
      /'toString' is not known: there are aws, azure, openstack, simulated/,
    );
  });
});
