import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { MachineClass } from '../schema/machine-class.ts';
import { secretsOf, versionOf } from './source.ts';

const metadata = {
  name: 'm',
  namespace: 'n',
  uid: 'u',
  resourceVersion: '5',
  creationTimestamp: '2026-08-19T10:00:00Z',
};

describe('secretsOf', () => {
  const machineClass: MachineClass = { metadata: { ...metadata, namespace: 'shoot' }, providerSpec: {} };

  it('[mcm 6 partly] names secretRef first, so that the keys of credentialsSecretRef win', () => {
    const refs = secretsOf({
      ...machineClass,
      credentialsSecretRef: { name: 'credentials', namespace: 'shoot' },
      secretRef: { name: 'user-data' },
    });
    expect(refs).toEqual([
      { namespace: 'shoot', name: 'user-data' },
      { namespace: 'shoot', name: 'credentials' },
    ]);
  });

  it('passes over Secrets of other namespaces', () => {
    expect(secretsOf({ ...machineClass, secretRef: { name: 'user-data', namespace: 'other' } })).toEqual([]);
  });

  it('passes over references without a name', () => {
    expect(secretsOf(machineClass)).toEqual([]);
    expect(secretsOf({ ...machineClass, secretRef: { namespace: 'shoot' } })).toEqual([]);
    expect(secretsOf({ ...machineClass, secretRef: { name: '', namespace: '' } })).toEqual([]);
  });
});

describe('versionOf', () => {
  const object = (uid: string, resourceVersion: string) => ({ metadata: { ...metadata, uid, resourceVersion } });

  it('is the same after a change of the metadata of the class alone, as of its finalizers', () => {
    const version = (resourceVersion: string, generation: number) =>
      versionOf({ metadata: { ...metadata, resourceVersion, generation } }, []);

    expect(version('7', 1)).toBe(version('5', 1));
    expect(version('7', 2)).not.toBe(version('7', 1));
  });

  it('differs whenever one of the objects differs, is missing or is there again', () => {
    const anyObject = fc.option(
      fc.record({ uid: fc.constantFrom('a', 'b'), version: fc.constantFrom('1', '2', '12') }),
      { nil: undefined },
    );
    const three = fc.tuple(anyObject, anyObject, anyObject);
    const version = ([first, ...rest]: ({ uid: string; version: string } | undefined)[]) =>
      versionOf(
        first && object(first.uid, first.version),
        rest.map((one) => one && object(one.uid, one.version)),
      );
    fc.assert(
      fc.property(three, three, (a, b) => {
        expect(version(a) === version(b)).toBe(JSON.stringify(a) === JSON.stringify(b));
      }),
    );
  });
});
