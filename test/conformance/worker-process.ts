import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawnGuarded } from '../../deploy/local/process.ts';

/** How a worker is started. */
export interface WorkerCommand {
  readonly program: string;
  readonly args: readonly string[];
  /** Its environment. Left out: that of this process. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Variables of this process that a worker gets beside a cloud under the suite's control: none may hold a secret. */
export const inheritedVariables = [
  ...['PATH', 'HOME', 'TMPDIR', 'LANG'],
  ...['SSL_CERT_FILE', 'SSL_CERT_DIR', 'NODE_EXTRA_CA_CERTS', 'NODE_COMPILE_CACHE'],
] as const;

/** The worker of a provider, which the suite may kill. */
export interface WorkerProcess {
  /** Its task queue is polled some time later. */
  start(): Promise<void>;
  /** Resolves when the last start has ended, with the exit code or the signal. */
  ended(): Promise<string>;
  /** SIGKILL to it and its children. */
  kill(): Promise<void>;
  /** Everything that it has written so far, in all its lives. */
  log(): string;
  /** Kills it and removes its log, unless that is a file of the caller. */
  stop(): Promise<void>;
}

/**
 * Prepares a worker, which cannot outlive this process.
 * @param ownLogFile where its output is appended. Default: a temporary file
 */
export async function createWorkerProcess(
  { program, args, env }: WorkerCommand,
  ownLogFile?: string,
): Promise<WorkerProcess> {
  const dir = ownLogFile === undefined ? await mkdtemp(join(tmpdir(), 'millwright-conformance-worker-')) : undefined;
  const logFile = ownLogFile ?? join(dir ?? '', 'log');
  closeSync(openSync(logFile, 'a'));
  let end: (() => Promise<void>) | undefined;
  let ended = Promise.resolve('not started');

  async function kill(): Promise<void> {
    await end?.();
    end = undefined;
  }

  return {
    async start() {
      const log = openSync(logFile, 'a');
      const child = spawnGuarded('KILL', program, args, {
        stdio: ['ignore', log, log],
        ...(env && { env }),
        detached: true, // a process group, so that the children of a shell are killed with it
      });
      closeSync(log);
      const { pid } = child;
      if (pid === undefined) throw new Error(`${program} cannot be started`);
      const exited = once(child, 'exit').then(([code, signal]) => {
        killGroup(pid); // a shell may leave children
        return `${signal ?? code}`;
      });
      ended = exited;
      end = async () => {
        if (child.exitCode === null && child.signalCode === null) killGroup(pid);
        await exited;
      };
    },
    ended: () => ended,
    kill,
    log: () => readFileSync(logFile, 'utf8'),
    async stop() {
      await kill();
      if (dir !== undefined) await rm(dir, { recursive: true, force: true });
    },
  };
}

/** SIGKILL to all of a process group, which may be empty. */
function killGroup(leader: number): void {
  try {
    process.kill(-leader, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** The environment to which a worker beside a cloud under the suite's control adds its own: without any of the user's servers. */
export function baseEnvironment(): Record<string, string> {
  const inherited = inheritedVariables.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value]];
  });
  // Not an empty file, which the SDK for TypeScript cannot read.
  return { ...Object.fromEntries(inherited), TEMPORAL_CONFIG_FILE: '/nonexistent/temporal.toml' };
}

/** Adds the end of the worker's log to what is thrown. */
export async function withLog<T>(worker: WorkerProcess | undefined, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (cause) {
    const end = worker?.log().trimEnd().split('\n').slice(-15) ?? [];
    throw new Error([cause instanceof Error ? cause.message : String(cause), ...end].join('\n'), { cause });
  }
}
