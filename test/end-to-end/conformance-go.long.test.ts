import { expect, it } from '@jest/globals';
import { servers } from '../support/conformance.ts';
import { testExample } from '../support/examples.ts';

it('make test of the example in Go passes every case of npm run conformance, and its types are those of the schema', async () => {
  const printed = await testExample('go-provider', servers());

  expect(printed).toMatch(/^ok\s+millwright\.dev\/examples\/go-provider/m);
}, 600_000);
