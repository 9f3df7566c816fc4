import { describe, expect, it } from '@jest/globals';
import type { Place } from './model/source.ts';
import { names } from './names.ts';
import type { KubeObject } from './objects.ts';
import { isSamePlace, signableBy } from './places.ts';

const place: Place = {
  provider: 'aws',
  origin: { kind: 'MachineClass', namespace: 'n', name: 'small', generation: 1 },
  providerSpec: { region: 'here', tags: { a: '1', b: '2' } },
  credentials: [{ namespace: 'n', name: 'pool' }],
};

describe('two places', () => {
  it.each([
    ['another spelling of the provider', { provider: 'AWS' }],
    ['another generation of the class', { origin: { ...place.origin, generation: 2 } }],
    ['another order of fields', { providerSpec: { tags: { b: '2', a: '1' }, region: 'here' } }],
  ])('are one with %s', (_, change) => {
    expect(isSamePlace(place, { ...place, ...change } as Place)).toBe(true);
  });

  it.each([
    ['provider', { provider: 'azure' }],
    ['field', { providerSpec: { region: 'here', tags: { a: '1', b: '2' }, endpoint: '' } }],
    ['value', { providerSpec: { region: 'there', tags: { a: '1', b: '2' } } }],
    ['Secret', { credentials: [{ namespace: 'kube-system', name: 'pool' }] }],
    ['number of Secrets', { credentials: [] }],
  ])('are two with another %s', (_, change) => {
    expect(isSamePlace(place, { ...place, ...change })).toBe(false);
  });
});

describe('the places of a Machine', () => {
  const other = { ...place, providerSpec: {} };
  const machineWith = (annotations: Readonly<Record<string, string>>) => ({ metadata: { annotations } }) as KubeObject;
  const saying = (...places: Place[]) => ({ [names.places]: JSON.stringify(places) });

  it.each([
    ['are what sources say', saying(place, other), true],
    ['are not all what sources say', saying(place, { ...place, provider: 'azure' }), false],
    ['have a signature, whatever it is', { ...saying(place), [names.placesSignature]: 'x' }, false],
    ['are none', saying(), false],
    ['are not said', {}, false],
    ['cannot be read', { [names.places]: '[' }, false],
  ])('that %s may be signed: %j', (_, annotations, expected) => {
    const isSignable = signableBy([other, place]);
    const machine = machineWith(annotations as Record<string, string>);
    expect([isSignable(machine), isSignable(machine)]).toEqual([expected, expected]);
  });
});
