/** One OpenStack for several clouds: those of a process, or all of a test run. */
import { mkdtemp } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { callAdmin } from '../admin-api.ts';
import { keepAliveTimeout } from '../keep-alive.ts';
import { freePort } from '../ports.ts';
import { removeWhenOrphaned } from '../process.ts';
import { type Openstack, startOpenstack } from './openstack.ts';
import type { OpenstackAddress } from './services.ts';

/** URL that answers with the address of an OpenStack, which it starts first if there is none. */
const variable = 'MILLWRIGHT_TEST_OPENSTACK';

/** An OpenStack that runs as long as anybody has a lease. */
export interface Lease {
  readonly address: OpenstackAddress;
  release(): Promise<void>;
}

let own: Promise<Openstack> | undefined;
let leases = 0;

/** Leases the one that the environment names, else one of this process, which ends with its last lease. */
export async function leaseOpenstack(): Promise<Lease> {
  const url = process.env[variable];
  if (url) return { address: await callAdmin(url, 'GET', '/'), release: async () => undefined };

  leases += 1;
  const started = (own ??= startInOwnFolder());
  const release = async () => {
    leases -= 1;
    if (leases > 0) return;
    own = undefined;
    await started.then(({ stop }) => stop());
  };
  try {
    return { address: (await started).address, release };
  } catch (error) {
    leases -= 1;
    own = undefined;
    throw error;
  }
}

/** Names in the environment an OpenStack that starts when it is first asked for. Resolves to its end. */
export async function shareOpenstack(): Promise<() => Promise<void>> {
  const port = await freePort();
  let started: Promise<Openstack> | undefined;
  const server = createServer({ keepAliveTimeout }, (_, response) => {
    started ??= startInOwnFolder();
    started.then(
      ({ address }) => response.end(JSON.stringify(address)),
      (error: unknown) => response.writeHead(500).end(error instanceof Error ? error.message : String(error)),
    );
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  server.unref();
  process.env[variable] = `http://127.0.0.1:${port}`;
  return async () => {
    server.closeAllConnections();
    server.close();
    await (await started?.catch(() => undefined))?.stop();
  };
}

async function startInOwnFolder(): Promise<Openstack> {
  const folder = await mkdtemp(join(tmpdir(), 'millwright-openstack-'));
  const releaseFolder = removeWhenOrphaned(folder);
  const { address, stop } = await startOpenstack(folder);
  return {
    address,
    async stop() {
      await stop();
      releaseFolder();
    },
  };
}
