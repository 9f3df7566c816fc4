import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * Lets an HTTP server listen until closed, which ends its connections.
 * @param flags that say where, such as `--address or --port`: the Error that is thrown when it cannot listen names them
 */
export async function listen(
  server: Server,
  { address, port }: { readonly address: string; readonly port: number },
  flags: string,
): Promise<{ readonly url: string; close(): Promise<void> }> {
  server.listen(port, address);
  try {
    await once(server, 'listening');
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`cannot serve HTTP (${reason}): correct ${flags}`, { cause });
  }
  const bound = server.address() as AddressInfo;
  return {
    url: `http://${bound.family === 'IPv6' ? `[${bound.address}]` : bound.address}:${bound.port}`,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}
