import { it } from '@jest/globals';
import { expectToPass } from '../support/conformance.ts';

it(
  'npm run conformance passes every case that its cloud can show for the provider azure',
  () =>
    expectToPass(
      ['--all', '--provider', 'azure'],
      'the oldest of several VMs: a VM has the name of its Machine, and Azure has no two of a name',
      'delete a Machine that another system may have made several VMs for: a VM has the name of its Machine, and Azure has no two of a name',
    ),
  900_000,
);
