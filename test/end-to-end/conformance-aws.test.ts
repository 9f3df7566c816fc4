import { it } from '@jest/globals';
import { expectToPass } from '../support/conformance.ts';

it(
  'npm run conformance passes every case that its cloud can show for the provider aws',
  () =>
    expectToPass(
      ['--all', '--provider', 'aws'],
      'a create that fails half-way: RunInstances makes all that it is asked for, or nothing',
      'delete one disk, NIC or address for the sweep: RunInstances makes all that it is asked for, or nothing',
      'throttling with a pause: EC2 does not say how long to wait',
    ),
  900_000,
);
