import { expect, it } from '@jest/globals';
import * as workflows from '../../workflows/index.ts';
import { temporalDoc } from './temporal.ts';

const doc = temporalDoc();

it('temporalDoc has every workflow type', () => {
  const types = doc.matchAll(/^\| `(\w+)` \| `<installation>/gm);

  expect([...types].map(([, type]) => type).toSorted()).toEqual(Object.keys(workflows).toSorted());
});

it.each([
  ['forceDeletion', 'signal', '`machine`'],
  ['retryNow', 'signal', '`machine`, `machineSet`, `rollout`'],
  ['retryNow', 'signal', '`orphanSweep`'],
  ['progress', 'query', '`orphanSweep`'],
])('temporalDoc says of %s, a %s, which workflows take it: %s', (name, kind, types) => {
  expect(doc).toContain(`| \`${name}\` | ${kind} | ${types} | `);
});
