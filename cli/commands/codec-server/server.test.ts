import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import { createCodec } from '../../../temporal/codec.ts';
import { payloadToJson } from '../../../temporal/decode.ts';
import { startCodecServer } from './server.ts';

const ui = 'https://temporal.example.com';
const codec = createCodec(() => ({ current: 'a', keys: new Map([['a', Buffer.alloc(32, 7)]]) }));
const plain = defaultPayloadConverter.toPayload({ name: 'node-17' }) as Payload;
let server: Awaited<ReturnType<typeof startCodecServer>>;

beforeAll(async () => {
  server = await startCodecServer({ codec, port: 0, origin: ui, allowedHosts: ['codec.example.com'] });
});
afterAll(() => server.close());

async function post(path: string, body: unknown, headers: Record<string, string> = {}) {
  const response = await fetch(new URL(path, server.url), { method: 'POST', body: JSON.stringify(body), headers });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

describe('the codec server', () => {
  it('listens on 127.0.0.1', () => {
    expect(new URL(server.url).hostname).toBe('127.0.0.1');
  });

  it('decodes what it has encoded, and what is not encrypted', async () => {
    const encoded = await post('/encode', { payloads: [payloadToJson(plain)] });
    const { payloads } = encoded.body as { payloads: object[] };
    expect(encoded.status).toBe(200);
    expect(payloads).toMatchObject([{ metadata: { encoding: Buffer.from('binary/encrypted').toString('base64') } }]);

    const decoded = await post(
      '/decode',
      { payloads: [...payloads, payloadToJson(plain)] },
      { 'x-namespace': 'default' },
    );
    expect(decoded).toMatchObject({ status: 200, body: { payloads: [payloadToJson(plain), payloadToJson(plain)] } });
    expect(decoded.headers.get('access-control-allow-origin')).toBeNull();
  });

  it('answers pages of the Temporal UI, and no others', async () => {
    const body = { payloads: [payloadToJson(plain)] };
    const preflight = await fetch(new URL('/decode', server.url), { method: 'OPTIONS', headers: { origin: ui } });
    const allowed = await post('/decode', body, { origin: ui });

    expect(preflight.status).toBe(204);
    expect(preflight.headers.get('access-control-allow-headers')).toContain('x-namespace');
    for (const { headers } of [preflight, allowed]) expect(headers.get('access-control-allow-origin')).toBe(ui);
    for (const origin of ['https://evil.example', 'null', 'http://temporal.example.com']) {
      const refused = await post('/decode', body, { origin });
      expect(refused).toMatchObject({ status: 403, body: { error: expect.stringContaining('--temporal-ui') } });
      expect(refused.headers.get('access-control-allow-origin')).toBeNull();
    }
  });

  it.each([
    ['rebind.evil.example', 421],
    ['codec.example.com', 200],
    ['localhost:8081', 200],
  ])('answers a request for the host %s with %d', async (host, status) => {
    const answered = await new Promise((resolve, reject) => {
      const sent = request(new URL('/decode', server.url), { method: 'POST', headers: { host } }, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      sent.on('error', reject).end('{"payloads":[]}');
    });
    expect(answered).toBe(status);
  });

  it('refuses what it cannot answer, and says why', async () => {
    const other = createCodec(() => ({ current: 'b', keys: new Map([['b', Buffer.alloc(32, 8)]]) }));
    const [foreign] = await other.encode([plain]);
    const unknown = await post('/decode', { payloads: [payloadToJson(foreign ?? {})] });

    expect(unknown).toMatchObject({ status: 400, body: { error: expect.stringContaining("the key 'b'") } });
    expect(await post('/decode', { payloads: [{ data: '?' }] })).toMatchObject({ status: 400 });
    expect(await post('/decode', {})).toMatchObject({ status: 400 });
    expect(await post('/', {})).toMatchObject({ status: 404 });
    expect((await fetch(new URL('/decode', server.url))).status).toBe(405);
    const large = { payloads: [{ data: 'A'.repeat(17 * 1024 * 1024) }] };
    expect(await post('/decode', large)).toMatchObject({ status: 413 });
    expect(await post('/', {})).toMatchObject({ status: 404 });
  });
});
