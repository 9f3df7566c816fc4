/** A proxy in front of any server that cuts and delays connections. It does not look at what passes. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../../deploy/local/ports.ts';

export interface TcpProxy {
  /** `127.0.0.1:<port>`; the same for the life of the proxy. */
  readonly address: string;
  /** Forwards everything so much later, ms, from now on. */
  delay(ms: number): void;
  /** Resets every open connection. */
  cut(): void;
  /** Refuses connections, as a server that is down. */
  goDown(): Promise<void>;
  comeUp(): Promise<void>;
  close(): Promise<void>;
}

/** Starts a proxy on a free port. @param upstream `host:port` */
export async function startTcpProxy(upstream: string): Promise<TcpProxy> {
  const { hostname, port: upstreamPort } = new URL(`tcp://${upstream}`);
  const sockets = new Set<Socket>();
  let delayMs = 0;

  const server = createServer((client) => {
    const behind = connect(Number(upstreamPort), hostname);
    pass(client, behind);
    pass(behind, client);
  });

  function pass(from: Socket, to: Socket): void {
    sockets.add(from);
    let passing = Promise.resolve(); // in order, also where the delay becomes shorter
    from.on('data', (data) => {
      const dueAt = performance.now() + delayMs;
      passing = passing.then(async () => {
        const leftMs = dueAt - performance.now();
        if (leftMs > 0) await sleep(leftMs);
        if (to.writable) to.write(data);
      });
    });
    from.on('error', () => to.destroy());
    from.on('close', () => {
      sockets.delete(from);
      to.destroy();
    });
  }

  async function listen(port: number): Promise<void> {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
  }
  const cut = () => {
    for (const socket of sockets) socket.resetAndDestroy();
  };
  const goDown = async () => {
    const closed = once(server, 'close');
    server.close();
    cut();
    await closed;
  };

  await listen(await freePort());
  const { port } = server.address() as AddressInfo;
  return {
    address: `127.0.0.1:${port}`,
    delay(ms) {
      delayMs = ms;
    },
    cut,
    goDown,
    comeUp: () => listen(port),
    async close() {
      if (server.listening) await goDown();
    },
  };
}
