/** A server that a class, a Secret or a proxy may have put in the place of the cloud. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { awsScope } from '../../test/support/aws.ts';
import { azureScope, credentials } from '../../test/support/azure.ts';
import { openstackScope } from '../../test/support/openstack.ts';
import { type RecordingArm, startRecordingArm } from '../../test/support/recording-arm.ts';
import { refusal } from '../../test/support/refusal.ts';
import type { Provider, ProviderError, SecretData } from './provider.ts';
import { createProvider, providerNames } from './registry.ts';

interface Answer {
  readonly status: number;
  readonly text: string;
}
type Scope = Parameters<Provider['listVms']>[0];

const type = 'application/json; charset=utf-8';
let server: Server;
let url: string;
let arm: RecordingArm;
let answer: Answer;

beforeAll(async () => {
  server = createServer((request, response) => {
    request.resume();
    const { status, text } = answer;
    response.writeHead(status, { 'content-type': type, 'content-length': text.length }).end(text);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  arm = await startRecordingArm();
  Object.assign(process.env, { AZURE_RESOURCE_MANAGER_ENDPOINT: arm.url, AZURE_AUTHORITY_HOST: arm.url });
});
afterAll(async () => {
  for (const name of ['AZURE_RESOURCE_MANAGER_ENDPOINT', 'AZURE_AUTHORITY_HOST']) delete process.env[name];
  await arm?.stop();
  server?.closeAllConnections();
  server?.close();
});

/** Has the server in the place of the cloud; `scope` names it, or the keys do. */
const places: Readonly<Record<string, () => { readonly scope: Scope; readonly keys: SecretData }>> = {
  simulated: () => ({
    scope: {
      credentials: [{ namespace: 'n', name: 'cloud' }],
      providerSpec: { endpoint: url, machineType: 'small', tags: { a: 'b' } },
    },
    keys: { token: 'letmein' },
  }),
  aws: () => ({ scope: awsScope(url), keys: { accessKeyID: 'AKIDONE', secretAccessKey: 'secret-1' } }),
  openstack: () => ({
    scope: openstackScope(),
    keys: { authURL: url, applicationCredentialID: 'ac', applicationCredentialSecret: 'x' },
  }),
  azure() {
    arm.answer({ 'GET virtualMachines': { ...answer, headers: { 'content-type': type } } });
    return { scope: azureScope(), keys: credentials };
  },
};

const texts = [
  'root:x db_password=hunter2',
  '<html><title>hunter2</title></html>',
  '<Error><Code>hunter2</Code><Message>hunter2</Message></Error>',
  '{"message":"hunter2"}',
  '{"db_password":"hunter2"}',
  '{"error":"hunter2"}',
  '{"data":{"message":"hunter2"}}',
];

/** What a list of the provider's VMs fails with. */
async function failureOf(name: string): Promise<ProviderError> {
  const place = places[name]?.();
  if (place === undefined) throw new Error(`say in \`places\` where the cloud of ${name} is`);
  const provider = await createProvider(name, { readSecret: async () => place.keys });
  const context = { attempt: 1, signal: new AbortController().signal, heartbeat: () => {} };
  return refusal(provider.listVms(place.scope, context));
}

it.each(providerNames.flatMap((name) => [403, 404, 500].map((status) => [name, status] as const)))(
  '%s shows of an answer %i that is not in its cloud’s format the status, the length and the type alone',
  async (name, status) => {
    for (const text of texts) {
      answer = { status, text };

      const { message, ...details } = await failureOf(name);

      const shape = `\\(${text.length} bytes of application/json\\)`;
      expect(message).toMatch(new RegExp(`^the cloud answered ${status}: .*format ${shape}`));
      expect(message + JSON.stringify(details)).not.toContain('hunter2');
    }
  },
);

it.each(providerNames)('%s says the same of a success that it cannot read', async (name) => {
  answer = { status: 200, text: 'root:x db_password=hunter2' };

  const { message } = await failureOf(name);

  expect(message).toMatch(/^the cloud answered 200: .*format \(26 bytes of application\/json\)$/);
});
