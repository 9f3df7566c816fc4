import { it } from '@jest/globals';
import { expectToPass } from '../support/conformance.ts';

it(
  'npm run conformance passes every case that its cloud can show for the provider openstack',
  () => expectToPass(['--all', '--provider', 'openstack']),
  900_000,
);
