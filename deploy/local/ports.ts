import { once } from 'node:events';
import { createServer } from 'node:net';

const givenAway = new Set<number>();

/**
 * A port on 127.0.0.1 that nothing listens on. Below the ephemeral range, so that no outgoing connection takes it
 * before the server is up or while it restarts.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    if (givenAway.has(port)) continue; // its server has perhaps not started yet
    givenAway.add(port);
    const server = createServer().listen(port, '127.0.0.1');
    try {
      await once(server, 'listening');
      return port;
    } catch {
      continue; // taken
    } finally {
      await new Promise((resolve) => server.close(resolve));
    }
  }
}
