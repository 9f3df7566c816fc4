/** A counterpart over HTTP, as a program in another language serves its cloud to the conformance suite. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { z } from 'zod';
import { CloudFault, type Counterpart, WantedVms } from '../conformance/counterpart.ts';

const FaultBody = z.object({ fault: CloudFault.optional() });

/** Serves it on a free port of 127.0.0.1. `stop` leaves the counterpart as it is. */
export async function serveCounterpart(cloud: Counterpart, listedLateMs: number) {
  const routes: Readonly<Record<string, (body: unknown) => Promise<unknown>>> = {
    'GET /': async () => {
      const { providerSpec, credentials, lacks, manyVms } = cloud;
      return { providerSpec, credentials, lacks, manyVms, listedLateMs };
    },
    'PUT /fault': (body) => cloud.setFault(FaultBody.parse(body).fault),
    'GET /things': () => cloud.things(),
    'GET /calls': async () => ({ calls: await cloud.calls() }),
    'POST /vms': async (body) => {
      const { owner, count, ...of } = WantedVms.parse(body);
      return { providerIDs: await cloud.makeVms(owner, count, of) };
    },
    'POST /reset': () => cloud.reset(),
  };
  const server = createServer((request, response) => {
    const answer = async () => {
      const body: unknown = request.method === 'GET' ? undefined : await json(request).catch(() => undefined);
      const route = routes[`${request.method} ${request.url}`];
      if (route === undefined) throw new Error(`there is no ${request.method} ${request.url}`);
      return route(body);
    };
    answer().then(
      (body) => response.end(JSON.stringify(body)),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async stop(): Promise<void> {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
