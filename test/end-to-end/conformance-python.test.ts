/** `npm run conformance -- --counterpart`, for a provider that is not in TypeScript. */
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, it } from '@jest/globals';
import { startSimulatedCounterpart } from '../conformance/counterparts/simulated.ts';
import { expectToPass } from '../support/conformance.ts';
import { findProviderPython } from '../support/python-provider.ts';
import { serveCounterpart } from '../support/serve-counterpart.ts';

const provider = fileURLToPath(new URL('../../deploy/examples/python-provider/provider.py', import.meta.url));

let cloud: Awaited<ReturnType<typeof startSimulatedCounterpart>>;
let served: Awaited<ReturnType<typeof serveCounterpart>>;

beforeAll(async () => {
  cloud = await startSimulatedCounterpart();
  served = await serveCounterpart(cloud, 1_500);
});
afterAll(async () => {
  await served?.stop();
  await cloud?.stop();
});

it('npm run conformance passes every case for the provider python, with a cloud that it asks over HTTP', async () => {
  const worker = `${await findProviderPython()} ${provider}`;
  await expectToPass(
    ['--provider', 'python', '--counterpart', served.url, '--worker', worker],
    'change tags: validateClass answers no tags: the provider changes none',
  );
}, 600_000);
