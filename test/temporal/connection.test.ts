/** Connections to a real Temporal server, in the clear and through TLS. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, createServer as createTcpServer, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { createServer, type TLSSocket } from 'node:tls';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Client, type ConnectionLike } from '@temporalio/client';
import { freePort } from '../../deploy/local/ports.ts';
import { connectClient, type TemporalServer } from '../../temporal/connection.ts';
import { connectWorkers } from '../../temporal/worker-connection.ts';
import { recordingLogger, testKubeconfig } from '../support/kube.ts';

const server: TemporalServer = {
  address: process.env.MILLWRIGHT_TEST_TEMPORAL_ADDRESS ?? '',
  namespace: 'default',
  tls: false,
};

const kinds = [
  { kind: 'clients', open: connectClient },
  { kind: 'workers', open: (to: TemporalServer) => connectWorkers(to, recordingLogger()) },
];

describe.each(kinds)('a connection for $kind', ({ open }) => {
  let connection: ConnectionLike | undefined;

  afterEach(async () => {
    await connection?.close();
    connection = undefined;
  });

  it('serves a client', async () => {
    connection = await open(server);

    expect(await new Client({ connection }).workflow.count()).toMatchObject({ count: expect.any(Number) });
  });

  it('names the address and the flag when nothing listens', async () => {
    const address = `127.0.0.1:${await freePort()}`;

    await expect(open({ ...server, address })).rejects.toThrow(
      new RegExp(`^Temporal does not answer at ${address} \\(.+\\): start it, or correct --temporal-address`),
    );
  });

  it('rejects when a server accepts and does not answer', async () => {
    const accepted: Socket[] = [];
    const silent = createTcpServer((socket) => accepted.push(socket)).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const bound = silent.address();
    const address = `127.0.0.1:${typeof bound === 'object' ? bound?.port : ''}`;

    await expect(open({ ...server, address })).rejects.toThrow(`Temporal does not answer at ${address}`);

    for (const socket of accepted) socket.destroy();
    silent.close();
  });

  it('names a namespace that does not exist', async () => {
    await expect(open({ ...server, namespace: 'nowhere' })).rejects.toThrow(
      `Temporal at ${server.address} has no namespace 'nowhere': create it, or correct --temporal-namespace`,
    );
  });

  describe('through TLS', () => {
    const folder = dirname(testKubeconfig());
    const crt = readFileSync(join(folder, 'apiserver.crt'));
    const key = readFileSync(join(folder, 'apiserver.key'));
    const sockets: TLSSocket[] = [];
    const [host, port] = server.address.split(':');
    // It asks for a certificate and takes any: ours here is one for servers.
    const asks = { requestCert: true, rejectUnauthorized: false };
    const front = createServer({ cert: crt, key, ...asks, ALPNProtocols: ['h2'] }, (socket) => {
      sockets.push(socket);
      const behind = connect(Number(port), host);
      socket.on('error', () => behind.destroy()).on('close', () => behind.destroy());
      behind.on('error', () => socket.destroy());
      socket.pipe(behind).pipe(socket);
    });
    let address: string;

    beforeAll(async () => {
      front.listen(0, '127.0.0.1');
      await once(front, 'listening');
      const bound = front.address();
      address = `127.0.0.1:${typeof bound === 'object' ? bound?.port : ''}`;
    });

    afterEach(() => {
      for (const socket of sockets.splice(0)) socket.destroy();
    });

    afterAll(() => {
      front.close();
    });

    it('checks the server, and sends its own certificate', async () => {
      const tls = { ca: crt, client: { crt, key }, serverName: 'kubernetes' };

      connection = await open({ ...server, address, tls });

      expect(await new Client({ connection }).workflow.count()).toMatchObject({ count: expect.any(Number) });
      expect(sockets.at(-1)?.getPeerCertificate().subjectaltname).toContain('kubernetes');
      expect(sockets.at(-1)).toMatchObject({ servername: 'kubernetes' });
    });

    it('refuses a server whose certificate no known authority has signed', async () => {
      await expect(open({ ...server, address, tls: {} })).rejects.toThrow(
        new RegExp(`^Temporal does not answer at ${address} .* the TLS flags$`),
      );
    });
  });
});
