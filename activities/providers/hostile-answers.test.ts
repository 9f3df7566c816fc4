/** A server that a class, a Secret or a proxy may have put in the place of the cloud. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { ApplicationFailure } from '@temporalio/activity';
import { awsScope } from '../../test/support/aws.ts';
import { azureScope, credentials } from '../../test/support/azure.ts';
import { inActivity } from '../../test/support/in-activity.ts';
import { openstackScope } from '../../test/support/openstack.ts';
import { type RecordingArm, startRecordingArm } from '../../test/support/recording-arm.ts';
import { refusal } from '../../test/support/refusal.ts';
import { toFailure } from '../boundary.ts';
import { hideSecret } from './kit/masks.ts';
import type { Provider, ProviderError, SecretData } from './provider.ts';
import { createProvider, providerNames } from './registry.ts';
import { createVmActivities } from './serve.ts';

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
    response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(text) }).end(text);
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

interface Place {
  readonly scope: Scope;
  readonly keys: SecretData;
  /** An error in the format of the cloud. */
  errorOf(message: string): string;
}

const inJson = (code: string) => (message: string) => JSON.stringify({ error: { code, title: code, message } });

/** Has the server in the place of the cloud; `scope` names it, or the keys do. */
const places: Readonly<Record<string, () => Place>> = {
  simulated: () => ({
    errorOf: inJson('InvalidParameter'),
    scope: {
      credentials: [{ namespace: 'n', name: 'cloud' }],
      providerSpec: { endpoint: url, machineType: 'small', tags: { a: 'b' } },
    },
    keys: { token: 'letmein' },
  }),
  aws: () => ({
    errorOf: (message) =>
      `<Response><Errors><Error><Code>InvalidParameterValue</Code><Message>${message.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</Message></Error></Errors></Response>`,
    scope: awsScope(url),
    keys: { accessKeyID: 'AKIDONE', secretAccessKey: 'secret-1' },
  }),
  openstack: () => ({
    errorOf: inJson('BadRequest'),
    scope: openstackScope(),
    keys: { authURL: url, applicationCredentialID: 'ac', applicationCredentialSecret: 'of-the-credential' },
  }),
  azure() {
    const given = () => ({ ...answer, headers: { 'content-type': type } });
    arm.answer({ 'GET virtualMachines': given, 'GET virtualMachines/workers-1': given });
    return { errorOf: inJson('InvalidParameter'), scope: azureScope(), keys: credentials };
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

function placeOf(name: string): Place {
  const place = places[name]?.();
  if (place === undefined) throw new Error(`say in \`places\` where the cloud of ${name} is`);
  return place;
}

/** What a list of the provider's VMs fails with. */
async function failureOf(name: string): Promise<ProviderError> {
  const place = placeOf(name);
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

it.each(providerNames)(
  '[invariant 8 partly] %s hides what the worker has in hand, in whatever form an error quotes it',
  async (name) => {
    const { scope, keys, errorOf } = placeOf(name);
    const canaries = ['sésame "ouvre-toi" & ferme-toi', 'kubeadm join --token abcdef.0123456789abcdef'];
    const [unknown = '', join = ''] = canaries;
    const userData = `#!/bin/sh\n${join}\n`;
    const data: Readonly<Record<string, SecretData>> = { cloud: { ...keys, ofNobody: unknown }, node: { userData } };
    const secretsOfCloud = Object.entries(keys)
      .filter(([key]) => /secret|token/i.test(key))
      .map(([, value]) => String(value));
    const forms = [...canaries, ...secretsOfCloud].flatMap((secret) => [
      secret,
      encodeURIComponent(secret),
      JSON.stringify(secret),
      ...['', 'a', 'ab'].map((before) => Buffer.from(`${before}${secret}${before}`).toString('base64')),
    ]);
    answer = { status: 400, text: errorOf(`cannot use ${forms.join(' or ')} of AKIDONE`) };
    const provider = await createProvider(name, {
      readSecret: async (ref) => {
        const found = data[ref.name] ?? {};
        hideSecret(found);
        return found;
      },
    });
    const request = {
      ...scope,
      machine: { uid: 'uid-1', namespace: 'garden', name: 'workers-1' },
      userData: { namespace: 'garden', name: 'node', key: 'userData' },
      ...{ token: 'uid-1-0', outcomeUnknown: false },
    };
    const signal = new AbortController().signal;

    const failure = await inActivity({ attempt: 1, isLocal: false }, () =>
      createVmActivities(provider)
        .ensureVm(request)
        .catch((error: unknown) => toFailure(error, signal, { elapsedMs: 0, isLocal: false })),
    );

    const { message, stack, details } = failure as ApplicationFailure;
    expect(message).toMatch(/^the cloud answered 400: .*cannot use .*\(hidden\).* of AKIDONE/s);
    const left = JSON.stringify([message, stack, details]);
    for (const form of [...forms, '0123456789abcdef']) expect(left).not.toContain(form);
  },
);
