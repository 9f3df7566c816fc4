/** What the suite says of a counterpart that does not answer as it should. That of mutants.test.ts does. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { secrets } from '../../api/secret.ts';
import { loadKubeconfig } from '../../kube/config.ts';
import { namespaces } from '../../kube/core.ts';
import { newNamespace, testClient, testKubeconfig } from '../support/kube.ts';
import { connectCounterpart, providerWithCounterpart } from './http-counterpart.ts';

const facts = { providerSpec: {}, credentials: { token: 'a' }, manyVms: 3, listedLateMs: 100 };

describe('a counterpart over HTTP', () => {
  let server: Server;
  let url: string;
  /** Status and body by request; any other gets an empty answer. */
  let answers: Record<string, [number, unknown]>;

  beforeAll(async () => {
    server = createServer((request, response) => {
      const [status, body] = answers[`${request.method} ${request.url}`] ?? [200];
      response.writeHead(status).end(JSON.stringify(body));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(() => {
    server.close();
  });

  it('needs no lacks, and takes an empty answer where there is nothing to say', async () => {
    answers = { 'GET /': [200, facts] };
    const { cloud, lateMs } = await connectCounterpart(url);

    expect({ lacks: cloud.lacks, lateMs }).toEqual({ lacks: {}, lateMs: 100 });
    await cloud.setFault({ kind: 'noCapacity' });
    await cloud.reset();
  });

  it.each([
    [
      { 'GET /': [404, 'no such page'] },
      /^--counterpart is 'http.*', of which the suite cannot ask GET \/: .*404.*no such page/,
    ],
    [{ 'GET /': [200, { ...facts, manyVms: 'many' }] }, /answers GET \/ with \{.*"many".*: correct manyVms: /],
    [{ 'GET /': [200, { ...facts, lacks: { slowness: '' } }] }, /: correct lacks/],
  ] as const)('refuses %j', async (given, problem) => {
    answers = given as unknown as typeof answers;

    await expect(connectCounterpart(url)).rejects.toThrow(problem);
  });

  it('names the request and the field of an answer that is none', async () => {
    answers = {
      'GET /': [200, facts],
      'GET /things': [200, [{ id: 'vm-1', kind: 'server' }]],
      'GET /calls': [500, 'broken'],
    };
    const { cloud } = await connectCounterpart(url);

    await expect(cloud.things()).rejects.toThrow(/answers GET \/things with \[.*"server".*: correct 0\.kind: /);
    await expect(cloud.calls()).rejects.toThrow(/GET \/calls of the cloud: 500 "broken"/);
  });

  it('comes with a worker whose account may read Secrets and the namespace, and nothing else', async () => {
    answers = { 'GET /': [200, facts] };
    const admin = testClient();
    const namespace = await newNamespace(admin);
    await admin.create(secrets, { metadata: { namespace, name: 'credentials' }, stringData: { token: 'a' } });
    const { prepareWorker } = await providerWithCounterpart('example', url, 'true');
    const servers = { kubeconfig: testKubeconfig(), temporalAddress: 'temporal:7233' };
    const { env, remove } = await prepareWorker(servers, namespace);
    const account = testClient(loadKubeconfig(env?.KUBECONFIG ?? ''));

    expect(env).toMatchObject({ TEMPORAL_ADDRESS: 'temporal:7233', MILLWRIGHT_INSTALLATION: namespace });
    expect(await account.get(secrets, { namespace, name: 'credentials' })).toMatchObject({ data: { token: 'YQ==' } });
    expect(await account.get(namespaces, { name: namespace })).toHaveProperty('metadata.uid');
    const refused = { code: 403 };
    await expect(account.list(secrets, { namespace })).rejects.toMatchObject(refused);
    await expect(account.create(secrets, { metadata: { namespace, name: 'other' } })).rejects.toMatchObject(refused);
    await expect(account.get(secrets, { namespace: 'default', name: 'a' })).rejects.toMatchObject(refused);
    await Promise.all([remove?.(), account.close(), admin.close()]);
  });
});
