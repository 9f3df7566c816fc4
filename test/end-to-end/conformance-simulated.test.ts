import { it } from '@jest/globals';
import { expectToPass } from '../support/conformance.ts';

it(
  'npm run conformance passes every case that its cloud can show for the provider simulated',
  () =>
    expectToPass(
      ['--all', '--provider', 'simulated'],
      'change tags: validateClass answers no tags: the provider changes none',
    ),
  600_000,
);
