import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';

let server: Server;
let proxy: TcpProxy;

beforeEach(async () => {
  server = createServer((socket) => socket.on('error', () => undefined).pipe(socket)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  proxy = await startTcpProxy(`127.0.0.1:${(server.address() as AddressInfo).port}`);
});
afterEach(async () => {
  await proxy.close();
  server.close();
});

function open(): Socket {
  const { hostname, port } = new URL(`tcp://${proxy.address}`);
  return connect(Number(port), hostname);
}

it('keeps the order of what passes, also where the delay becomes shorter in between', async () => {
  const client = open();
  proxy.delay(200);
  client.write('first ');
  await once(client, 'ready');
  proxy.delay(50);
  client.write('second');
  let answer = '';
  for await (const chunk of client) {
    answer += String(chunk);
    if (answer.endsWith('second')) break;
  }

  expect(answer).toBe('first second');
});

it('cuts what is open, and takes connections again on the same port once it is up', async () => {
  const client = open();
  await once(client, 'ready');
  client.write('x');
  await once(client, 'data');

  const cut = once(client, 'error');
  await proxy.goDown();
  expect(await cut).toEqual([expect.objectContaining({ code: 'ECONNRESET' })]);
  await expect(once(open(), 'ready')).rejects.toMatchObject({ code: 'ECONNREFUSED' });

  await proxy.comeUp();
  const again = open();
  again.write('y');
  const [answer] = await once(again, 'data');
  again.destroy();
  expect(String(answer)).toBe('y');
});
