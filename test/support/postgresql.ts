/** The real Temporal server on PostgreSQL, set up with the commands of docs/how-to/connect-to-temporal.md. */
import { execFile } from 'node:child_process';
import { globSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import { z } from 'zod';
import { freePort } from '../../deploy/local/ports.ts';
import { removeWhenOrphaned, type ServerCommand, type ServerHandle, startServer } from '../../deploy/local/process.ts';
import { findServers } from '../../deploy/local/servers.ts';
import { canInstallPackages, installPackages } from './packages.ts';
import { becoming, giveTo } from './users.ts';

const run = promisify(execFile);
const guide = fileURLToPath(new URL('../../docs/how-to/connect-to-temporal.md', import.meta.url));
const example = fileURLToPath(new URL('../../deploy/examples/temporal-postgresql.yaml', import.meta.url));

/** PostgreSQL refuses root, and users without a name. This one is nobody. */
const owner = '65534:65534';

/** Why there can be no PostgreSQL here, for the title of what is skipped. */
export function lackOfPostgresql(): string | undefined {
  if (findPostgresql() || canInstallPackages()) return undefined;
  return ', which needs the Debian package postgresql, which only root can install';
}

export type TemporalOnPostgresql = Awaited<ReturnType<typeof startTemporalOnPostgresql>>;

/** Starts both on free ports, and makes the namespace `default`. */
export async function startTemporalOnPostgresql() {
  const programs = await findServers(['temporal-server', 'temporal-sql-tool', 'temporal']);
  const folder = await ensurePostgresql();
  const dir = await mkdtemp(join(tmpdir(), 'millwright-postgresql-'));
  const releaseFolder = removeWhenOrphaned(dir);
  const servers: ServerHandle[] = [];
  const start = async (command: Omit<ServerCommand, 'logFile'>): Promise<ServerHandle> => {
    const logFile = join(dir, `${command.name}.log`);
    const server = await startServer({ ...command, logFile }, new AbortController().signal);
    servers.unshift(server);
    return server;
  };
  async function stop(): Promise<void> {
    for (const server of servers) await server.kill();
    await rm(dir, { recursive: true });
    releaseFolder();
  }

  const [port, frontend] = [await freePort(), await freePort()];
  const temporalAddress = `127.0.0.1:${frontend}`;
  const bin = join(dir, 'bin');
  const env = {
    ...{ ...process.env, PATH: [bin, process.env.PATH].join(delimiter) },
    ...{
      SQL_PLUGIN: 'postgres12',
      SQL_HOST: '127.0.0.1',
      SQL_PORT: `${port}`,
      SQL_USER: 'temporal',
      SQL_PASSWORD: '-',
    },
    TEMPORAL_ADDRESS: temporalAddress,
  };
  try {
    await mkdir(bin);
    for (const name of ['temporal', 'temporal-sql-tool'] as const) await symlink(programs[name], join(bin, name));
    await giveTo(owner, dir);
    const data = join(dir, 'data');
    const [sh, ...words] = [...becoming(owner), 'sh', '-c'];
    const initdb = `${folder}/initdb --pgdata ${data} --username ${env.SQL_USER} --auth trust --no-sync`;
    await run(sh, [...words, initdb], { cwd: '/' });
    const settings = `-p ${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=`;
    const postgresql = await start({
      name: 'postgresql',
      executable: sh,
      args: [...words, `exec ${folder}/postgres -D ${data} ${settings}`],
      ready: () => succeeds(`${folder}/pg_isready`, '-h', '127.0.0.1', '-p', `${port}`),
    });
    await runDocumented('temporal-sql-tool', env);
    const config = join(dir, 'temporal.yaml');
    await writeFile(config, JSON.stringify(await configuration(`127.0.0.1:${port}`, env.SQL_USER, frontend)));
    const server = await start({
      name: 'temporal-server',
      executable: programs['temporal-server'],
      args: ['--config-file', config, 'start'],
      ready: () => succeeds(programs.temporal, 'operator', 'cluster', 'health', '--address', temporalAddress),
    });
    await runDocumented('temporal operator namespace', env);
    return { temporalAddress, postgresql, server, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Folder with its newest programs. */
function findPostgresql(): string | undefined {
  const { compare } = new Intl.Collator('en', { numeric: true });
  return globSync('/usr/lib/postgresql/*/bin').toSorted(compare).at(-1);
}

/** The folder of its programs, installed first where it is missing. */
export async function ensurePostgresql(): Promise<string> {
  if (findPostgresql() === undefined) await installPackages('postgresql');
  const folder = findPostgresql();
  if (folder === undefined) throw new Error('the Debian package postgresql has left nothing in /usr/lib/postgresql');
  return folder;
}

/** Runs the commands of docs/how-to/connect-to-temporal.md that begin so. */
async function runDocumented(beginning: string, env: NodeJS.ProcessEnv): Promise<void> {
  const lines = (await readFile(guide, 'utf8')).split('\n').filter((line) => line.startsWith(`${beginning} `));
  if (lines.length === 0)
    throw new Error(`docs/how-to/connect-to-temporal.md has no command that begins with ${beginning}`);
  await run('sh', ['-ec', lines.join('\n')], { env });
}

/** The stores of the example, which has them as the server takes them. */
const Values = z.object({
  server: z.object({
    config: z.object({
      persistence: z.looseObject({
        datastores: z.record(z.string(), z.object({ sql: z.record(z.string(), z.unknown()) })),
      }),
    }),
  }),
});

/** That of one server with all services, and with the stores of the example in another PostgreSQL. */
async function configuration(connectAddr: string, user: string, frontend: number) {
  const { persistence } = Values.parse(parse(await readFile(example, 'utf8'))).server.config;
  const datastores = Object.entries(persistence.datastores).map(([name, { sql }]) => {
    const { existingSecret: _, secretKey: __, ...settings } = sql;
    return [name, { sql: { ...settings, connectAddr, user, password: '-' } }];
  });
  const service = async (grpcPort: number) => ({
    rpc: { grpcPort, membershipPort: await freePort(), bindOnLocalHost: true },
  });
  const active = { enabled: true, initialFailoverVersion: 1, rpcName: 'frontend', rpcAddress: `127.0.0.1:${frontend}` };
  return {
    log: { stdout: true, level: 'error' },
    persistence: { ...persistence, numHistoryShards: 4, datastores: Object.fromEntries(datastores) },
    global: { membership: { maxJoinDuration: '30s', broadcastAddress: '127.0.0.1' } },
    services: {
      frontend: await service(frontend),
      history: await service(await freePort()),
      matching: await service(await freePort()),
      worker: await service(await freePort()),
    },
    clusterMetadata: {
      ...{ masterClusterName: 'active', currentClusterName: 'active', failoverVersionIncrement: 10 },
      clusterInformation: { active },
    },
  };
}

async function succeeds(program: string, ...args: readonly string[]): Promise<boolean> {
  await run(program, args);
  return true;
}
