import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { gardener as api } from '../gardener/index.ts';
import type { MachineTemplate } from '../gardener/schema/machine.ts';
import { newSetName, templateHash, templatesEqual } from './template.ts';

const template: MachineTemplate = {
  metadata: { labels: { name: 'pool-a', role: 'node' }, annotations: { note: 'a' } },
  spec: {
    class: { apiGroup: 'machine.sapcloud.io', kind: 'MachineClass', name: 'small' },
    nodeTemplate: { metadata: { labels: { zone: 'a' } } },
    drainTimeout: '1h',
  },
};

const anyMap = fc.dictionary(fc.constantFrom('a', 'b', 'c'), fc.constantFrom('', '1', '2'));
const anyTemplate: fc.Arbitrary<MachineTemplate> = fc.record(
  {
    metadata: fc.record({ labels: anyMap, annotations: anyMap }, { requiredKeys: [] }),
    spec: fc.record(
      {
        class: fc.record({ name: fc.constantFrom('', 'small', 'large') }, { requiredKeys: [] }),
        drainTimeout: fc.constantFrom('1h', '2h'),
      },
      { requiredKeys: [] },
    ),
  },
  { requiredKeys: [] },
);

/** The same object with the keys of every map in the opposite order. */
function reversed<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  const entries = Object.entries(value).map(([key, part]): [string, unknown] => [key, reversed(part)]);
  return Object.fromEntries(entries.toReversed()) as T;
}

describe('templatesEqual', () => {
  const { metadata, spec } = template;

  it.each<[string, MachineTemplate | undefined]>([
    ['the order of keys', reversed(template)],
    [
      'the hash label',
      { ...template, metadata: { ...metadata, labels: { ...metadata?.labels, 'machine-template-hash': '1' } } },
    ],
    ['nodeTemplate', { ...template, spec: { ...spec, nodeTemplate: { spec: { taints: [] } } } }],
    ['no nodeTemplate', { metadata, spec: { class: spec?.class } } as MachineTemplate],
    ['timeouts', { ...template, spec: { ...spec, drainTimeout: '2h', healthTimeout: '1m', creationTimeout: '1m' } }],
    [
      'other knobs',
      { ...template, spec: { ...spec, maxEvictRetries: 1, nodeConditions: 'X', disableHealthTimeout: true } },
    ],
    ['class.kind', { ...template, spec: { ...spec, class: { ...spec?.class, kind: 'Other' } } }],
    ['an empty provider ID', { ...template, spec: { ...spec, providerID: '' } }],
    [
      'metadata.creationTimestamp, which Go writes as null',
      { ...template, metadata: { ...metadata, creationTimestamp: null } },
    ],
    ['empty lists', { ...template, metadata: { ...metadata, finalizers: [] } }],
  ])('[mcm 71 partly] passes over %s', (_, other) => {
    expect(templatesEqual(api, template, other)).toBe(true);
    expect(templateHash(api, other)).toBe(templateHash(api, template));
  });

  it.each<[string, MachineTemplate | undefined]>([
    ['class.name', { ...template, spec: { ...spec, class: { ...spec?.class, name: 'large' } } }],
    ['class.apiGroup', { ...template, spec: { ...spec, class: { ...spec?.class, apiGroup: 'other' } } }],
    ['a label', { ...template, metadata: { ...metadata, labels: { name: 'pool-a', role: 'other' } } }],
    ['a label more', { ...template, metadata: { ...metadata, labels: { ...metadata?.labels, zone: 'a' } } }],
    [
      'a label more, with an empty value',
      { ...template, metadata: { ...metadata, labels: { ...metadata?.labels, zone: '' } } },
    ],
    ['an annotation', { ...template, metadata: { ...metadata, annotations: { note: 'b' } } }],
    ['an annotation less', { ...template, metadata: { labels: metadata?.labels ?? {} } }],
    [
      'the value of an annotation becoming empty',
      { ...template, metadata: { ...metadata, annotations: { note: '' } } },
    ],
    ['the provider ID', { ...template, spec: { ...spec, providerID: 'aws:///i-1' } }],
    ['other metadata', { ...template, metadata: { ...metadata, finalizers: ['example.com/finalizer'] } }],
    ['no template', undefined],
  ])('[mcm 71 partly] sees %s', (_, other) => {
    expect(templatesEqual(api, template, other)).toBe(false);
    expect(templateHash(api, other)).not.toBe(templateHash(api, template));
  });

  it('takes nothing and empty things as the same', () => {
    expect(templatesEqual(api, undefined, {})).toBe(true);
    expect(templatesEqual(api, {}, { metadata: { labels: {}, annotations: {} }, spec: { class: { name: '' } } })).toBe(
      true,
    );
  });

  it('does not confuse a label with an annotation', () => {
    expect(templatesEqual(api, { metadata: { labels: { a: '1' } } }, { metadata: { annotations: { a: '1' } } })).toBe(
      false,
    );
  });

  it('holds exactly for templates with the same text, however they are written', () => {
    const counted = ({ metadata, spec }: MachineTemplate) =>
      JSON.stringify([
        Object.entries(metadata?.labels ?? {}).toSorted(),
        Object.entries(metadata?.annotations ?? {}).toSorted(),
        spec?.class?.name ?? '',
      ]);
    fc.assert(
      fc.property(anyTemplate, anyTemplate, (a, b) => {
        expect(templatesEqual(api, a, b)).toBe(counted(a) === counted(b));
        expect(templatesEqual(api, a, b)).toBe(templatesEqual(api, b, a));
        expect(templatesEqual(api, a, reversed(a))).toBe(true);
      }),
    );
  });
});

describe('templateHash', () => {
  it('is the same for equal templates and a decimal number of 32 bits', () => {
    fc.assert(
      fc.property(anyTemplate, anyTemplate, (a, b) => {
        if (templatesEqual(api, a, b)) expect(templateHash(api, a)).toBe(templateHash(api, b));
        expect(templateHash(api, a)).toMatch(/^(0|[1-9][0-9]{0,9})$/);
        expect(Number(templateHash(api, a))).toBeLessThan(2 ** 32);
      }),
    );
  });

  it('[mcm 82 partly] is another one for every collision counted', () => {
    const hashes = Array.from({ length: 100 }, (_, collisions) => templateHash(api, template, collisions));
    expect(new Set(hashes).size).toBe(100);
  });

  it('stays what it was: it is in the names of sets that exist', () => {
    expect(templateHash(api, template)).toMatchInlineSnapshot(`"2530896200"`);
  });
});

describe('newSetName', () => {
  it('[mcm 70 partly] encodes the first five digits as Kubernetes does', () => {
    expect(newSetName('pool-a', '0123456789')).toBe('pool-a-45678');
    expect(newSetName('pool-a', '6789012345')).toBe('pool-a-bcdf4');
    expect(newSetName('pool-a', '42')).toBe('pool-a-86');
  });
});
