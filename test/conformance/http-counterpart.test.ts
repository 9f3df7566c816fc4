/** What the suite says of a program that does not answer as docs/reference/conformance.md asks. mutants.test.ts has one that does. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { connectCounterpart } from './http-counterpart.ts';

const facts = { providerSpec: {}, credentials: { token: 'a' }, manyVms: 3, listedLateMs: 100 };

describe('connectCounterpart', () => {
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
});
