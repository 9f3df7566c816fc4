/** Credentials for a real Temporal server that change in their files while a process uses them. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Client, type ConnectionLike } from '@temporalio/client';
import { Worker } from '@temporalio/worker';
import { temporalFlags } from '../../cli/flag-groups.ts';
import { parseOptions } from '../../cli/options.ts';
import { temporalServer } from '../../cli/temporal-server.ts';
import { connectClient, reasonOf, type TemporalServer } from '../../temporal/connection.ts';
import { keepConnected } from '../../temporal/live-connection.ts';
import { connectWorkers } from '../../temporal/worker-connection.ts';
import { startTemporalFront, type TemporalFront } from '../faults/temporal-front.ts';
import { type Authority, createAuthority } from '../support/certificates.ts';
import { recordingLogger } from '../support/kube.ts';
import { mountFiles } from '../support/mounted-files.ts';
import { until } from '../support/until.ts';

const temporalAddress = process.env.MILLWRIGHT_TEST_TEMPORAL_ADDRESS ?? '';
let folder: string;
let oldClients: Authority;
let newClients: Authority;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millwright-credentials-'));
  [oldClients, newClients] = await Promise.all([createAuthority('old'), createAuthority('new')]);
});
afterAll(() => rm(folder, { recursive: true }));

const kinds = [
  { kind: 'clients', open: connectClient },
  { kind: 'workers', open: (to: TemporalServer) => connectWorkers(to, recordingLogger()) },
];

it('a connection that a worker still uses is closed after that, and what it is replaced with is used at once', async () => {
  let apiKey = 'first'; // which this server does not look at
  const logger = recordingLogger();
  const live = await keepConnected({
    readServer: () => ({ address: temporalAddress, namespace: 'default', tls: false, apiKey }),
    open: (to) => connectWorkers(to, logger),
    ...{ lookEveryMs: 20, logger },
  });
  const before = live.newest();
  const worker = await Worker.create({ connection: before, taskQueue: folder, activities: { rest: () => undefined } });
  const running = worker.run();
  apiKey = 'second';
  await until('it is replaced', () => live.newest() !== before);
  const count = (connection: ConnectionLike) => new Client({ connection }).workflow.count();
  await count(live.connection);
  await count(before);

  worker.shutdown();
  await running;
  await until('the first one is closed', () => count(before).then(() => false, isClosed));
  expect(logger.lines.filter(({ level }) => level === 'warn')).toEqual([]);
  await live.close();
});

const isClosed = (error: unknown) => reasonOf(error).includes('closed');

describe.each(kinds)('a connection for $kind that is kept', ({ kind, open }) => {
  const closes: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of closes.splice(0)) await close();
  });

  /** A connection through a front that accepts what `files` has. */
  async function connectThroughFront(name: string) {
    const front = await startTemporalFront(temporalAddress, oldClients);
    front.accept(oldClients, 'first');
    const files = await mountFiles(join(folder, `${kind}-${name}`));
    const write = async (clients: Authority, commonName: string, apiKey: string) => {
      const { crt, key } = await clients.issue(commonName);
      await files.write({ 'ca.crt': front.ca, 'tls.crt': crt, 'tls.key': key, apiKey });
    };
    await write(oldClients, 'before', 'first');
    const options = parseOptions(
      temporalFlags,
      {
        temporalAddress: front.address,
        temporalTlsCa: files.path('ca.crt'),
        temporalTlsCert: files.path('tls.crt'),
        temporalTlsKey: files.path('tls.key'),
        temporalApiKeyFile: files.path('apiKey'),
      },
      {},
    );
    const logger = recordingLogger();
    let reads = 0;
    const readServer = () => {
      reads += 1;
      return temporalServer(options);
    };
    const live = await keepConnected<ConnectionLike>({ readServer, open, lookEveryMs: 20, logger });
    closes.push(live.close, front.close);
    const client = new Client({ connection: live.connection });
    return { front, files, write, live, logger, client, reads: () => reads };
  }

  function lastCall({ seen }: TemporalFront) {
    const { client, apiKey } = seen.at(-1) ?? {};
    return { client, apiKey };
  }

  it('goes on with a rotated certificate and API key when the server accepts no others', async () => {
    const { front, write, live, client } = await connectThroughFront('rotated');
    await client.workflow.count();
    expect(lastCall(front)).toEqual({ client: 'before', apiKey: 'first' });
    const replaced = new Promise((resolve) => live.onReplace(resolve));

    front.accept(newClients, 'second');
    front.cut();
    await write(newClients, 'after', 'second');
    await replaced;
    front.cut();

    await until('the server accepts the call', () => client.workflow.count());
    expect(lastCall(front)).toEqual({ client: 'after', apiKey: 'second' });
    expect(live.certificateExpiresMs()).toBeGreaterThan(Date.now());
  });

  it('keeps the old ones while those in the files are not accepted, and logs that once', async () => {
    const { front, files, write, logger, client, reads } = await connectThroughFront('refused');
    const warnings = () => logger.lines.filter(({ level }) => level === 'warn');

    await files.write({ 'ca.crt': front.ca, 'tls.crt': '-----BEGIN CERT', 'tls.key': '', apiKey: 'first' });
    await until('the broken files are noticed', () => warnings().length > 0);
    const before = reads();
    await until('they are read again', () => reads() > before + 2);
    expect(warnings()).toHaveLength(1);
    await client.workflow.count();
    expect(lastCall(front)).toEqual({ client: 'before', apiKey: 'first' });

    await write(newClients, 'stranger', 'first');
    await until('the refusal is noticed', () => warnings().length > 1);
    const refused = reads();
    await until('they are tried again', () => reads() > refused + 2);
    expect(warnings()).toHaveLength(2);
    await client.workflow.count();
    expect(lastCall(front)).toEqual({ client: 'before', apiKey: 'first' });

    await write(oldClients, 'corrected', 'first');
    await until('the correction is used', async () => {
      await client.workflow.count();
      return lastCall(front).client === 'corrected';
    });
  });
});
