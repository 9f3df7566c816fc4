import { expect, it } from '@jest/globals';
import { servers } from '../support/conformance.ts';
import { testExample } from '../support/examples.ts';
import { findProviderPython } from '../support/python-provider.ts';

it('make test of the example in Python passes every case of npm run conformance, with a cloud that answers over HTTP', async () => {
  const printed = await testExample('python-provider', servers(), { PYTHON: await findProviderPython() });

  expect(printed).toMatch(/^Ran 3 tests .*\n\nOK$/m);
}, 600_000);
