import { once } from 'node:events';
import { createServer, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { expect, it } from '@jest/globals';
import { connectClient, grpcCodes } from './connection.ts';

/** Answers a call of gRPC with an empty message. */
function answerNothing(stream: ServerHttp2Stream): void {
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
  stream.end(Buffer.alloc(5));
}

it('a call that was about to be repeated when its connection was closed is rejected, and so is one that begins later', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const refused = new Promise<void>((resolve) => {
    server.on('stream', (stream, headers) => {
      if (!headers[':path']?.endsWith('/CountWorkflowExecutions')) return answerNothing(stream);
      const unavailable = { 'grpc-status': '14', 'grpc-message': 'try later' };
      stream.respond({ ':status': 200, 'content-type': 'application/grpc', ...unavailable }, { endStream: true });
      stream.on('close', resolve);
    });
  });
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const connection = await connectClient({ address, namespace: 'default', tls: false, apiKey: 'canary-7f21' });

  const call = () => connection.workflowService.countWorkflowExecutions({ namespace: 'default' });
  const isClosed = { code: grpcCodes.cancelled, details: 'the connection is closed' };
  await Promise.all([
    expect(call()).rejects.toMatchObject(isClosed),
    refused.then(() => new Promise(setImmediate)).then(() => connection.close()),
  ]);
  const later = await call().catch((error: unknown) => error);
  expect(later).toMatchObject(isClosed);
  expect(JSON.stringify(later)).not.toContain('canary');

  server.close();
});

it('an address that refuses is reported with the refusal, and not when the time for an answer is over', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  server.close();
  await once(server, 'close');

  await expect(connectClient({ address, namespace: 'default', tls: false })).rejects.toThrow(
    `Temporal does not answer at ${address} (connect ECONNREFUSED ${address}): start it, or correct --temporal-address`,
  );
});
