import { describe, expect, it } from '@jest/globals';
import { providerTaskQueue } from '../../api/names.ts';
import { awsCloud } from './aws/index.ts';
import { azureCloud } from './azure/index.ts';
import { openstackCloud } from './openstack/index.ts';
import { inOurWords } from './problems.ts';
import { createProvider, providerNames } from './registry.ts';
import { simulatedCloud } from './simulated/index.ts';

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

describe.each([awsCloud, azureCloud, openstackCloud, simulatedCloud])('the credentials of $scheme', (cloud) => {
  const { credentialKeys, secretKeys, credentials } = cloud;

  it('are refused without a value in the message', () => {
    for (const left of ['', ...credentialKeys]) {
      const keys = Object.fromEntries(credentialKeys.flatMap((key) => (key === left ? [] : [[key, `canary-${key}`]])));
      const messages = credentials.safeParse(keys, { error: inOurWords }).error?.issues.map(({ message }) => message);
      expect(String(messages)).not.toContain('canary-');
    }
    expect(credentials.safeParse({}, { error: inOurWords }).success).toBe(false);
  });

  it('have keys whose values are secret', () => {
    expect(secretKeys.length).toBeGreaterThan(0);
    expect(credentialKeys).toEqual(expect.arrayContaining([...secretKeys]));
    expect(credentialKeys.filter((key) => /password|secret|^token$/i.test(key))).toEqual(
      [...secretKeys].filter((key) => key !== 'clientKey'),
    );
  });
});
