/** Databases of a stack that tests copy, lose and put back while their servers are down. */
import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { request } from 'undici';
import type { Stack } from '../../deploy/local/stack.ts';
import { until } from './until.ts';

/** Does something with a file or folder of a database and with its backup. */
type Change = (path: string, backup: string) => Promise<void>;

export const backUp: Change = (path, backup) => copy(path, backup);
export const putBack: Change = (path, backup) => copy(backup, path);
export const lose: Change = (path) => rm(path, { force: true, recursive: true });

async function copy(from: string, to: string): Promise<void> {
  await rm(to, { recursive: true, force: true });
  await cp(from, to, { recursive: true }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error; // SQLite has no -wal after a clean end
  });
}

/** Stops Temporal, whose database is `temporal.db` in the folder of the stack, and starts it again after a change. */
export async function aroundTemporal({ temporal, dir }: Stack, change: Change): Promise<void> {
  await temporal.kill('SIGKILL');
  for (const suffix of ['', '-wal', '-shm']) {
    await change(join(dir, `temporal.db${suffix}`), join(dir, `temporal-backup${suffix}`));
  }
  await temporal.restart();
}

/** The same for etcd, with the API servers of the stack. @param before they are started */
export async function aroundEtcd(
  { clusters, etcd, dir }: Stack,
  change: Change,
  before: () => Promise<void> = async () => undefined,
): Promise<void> {
  for (const { apiServer } of clusters) await apiServer.kill('SIGKILL'); // it would wait for its watchers
  await etcd.kill();
  await change(join(dir, 'etcd'), join(dir, 'etcd-backup'));
  await etcd.restart();
  await before();
  // With all clients upon them at once they may take longer than a server gets.
  for (const { apiServer } of clusters) {
    await until('the API server is back', () =>
      apiServer.restart().then(
        () => true,
        () => undefined,
      ),
    );
  }
}

/** The revision of etcd, which grows with every write. */
export async function revisionOf({ etcdUrl }: Stack): Promise<number> {
  const answer = await ask(etcdUrl, 'range', { key: encode('revision') });
  return Number(answer.header.revision);
}

/** Writes until etcd has this revision, as `etcdutl snapshot restore --bump-revision` has it. */
export async function bumpRevision(stack: Stack, to: number): Promise<void> {
  const value = encode('');
  while ((await revisionOf(stack)) < to) {
    await Promise.all(
      Array.from({ length: 100 }, (_, i) => ask(stack.etcdUrl, 'put', { key: encode(`bump-${i}`), value })),
    );
  }
}

/** Takes all Nodes of a cluster out of etcd at once. No finalizer holds them, and nobody has deleted them. */
export async function loseNodes({ etcdUrl }: Stack, prefix: string): Promise<void> {
  const [key, range_end] = [`${prefix}/minions/`, `${prefix}/minions0`].map(encode); // '0' comes after '/'
  await ask(etcdUrl, 'deleterange', { key, range_end });
}

async function ask(
  url: string,
  verb: 'range' | 'put' | 'deleterange',
  body: object,
): Promise<{ header: { revision: string } }> {
  const answer = await request(`${url}/v3/kv/${verb}`, { method: 'POST', body: JSON.stringify(body) });
  return (await answer.body.json()) as { header: { revision: string } };
}

function encode(text: string): string {
  return Buffer.from(text).toString('base64');
}
