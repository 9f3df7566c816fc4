import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';

const guard = fileURLToPath(new URL('guard.sh', import.meta.url));

/** Removes the folder of a killed parent. Twice, because dying servers may still write. */
const removeOrphan = 'read -r _ <&3 || rm -rf "$1" || { sleep 1; rm -rf "$1"; }';

/** How a server is started and restarted. */
export interface ServerCommand {
  readonly name: string;
  readonly executable: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Standard output and error are appended here. */
  readonly logFile: string;
  /** Called every 25 ms after a start until it returns true. A throw means not yet. */
  readonly ready: () => Promise<boolean>;
  /** How long it may take until then. Default 60 000. */
  readonly readyWithinMs?: number;
}

/** A running server process. */
export interface ServerHandle {
  readonly name: string;
  readonly logFile: string;
  /** Pid of the server itself, not of a wrapper. Changes with `restart`. */
  readonly pid: number;
  /** Resolves when the process has exited. SIGKILL follows SIGTERM after 5 s. May be called again. */
  kill(signal?: 'SIGTERM' | 'SIGKILL'): Promise<void>;
  /** Restarts the server with the same port and data. Resolves when it is ready. */
  restart(): Promise<void>;
}

/** `startServer` with its signal bound. */
export type StartServer = (command: ServerCommand) => Promise<ServerHandle>;

/**
 * Starts a server that cannot outlive this process, and waits until it is ready.
 * Throws with the last lines of its log when it exits before it is ready, or is not ready in time. Throws when the
 * signal aborts the wait.
 */
export async function startServer(command: ServerCommand, signal: AbortSignal): Promise<ServerHandle> {
  let run = await launch(command, signal);
  return {
    name: command.name,
    logFile: command.logFile,
    get pid() {
      return run.pid;
    },
    kill: (signal) => run.kill(signal),
    async restart() {
      await run.kill();
      run = await launch(command, signal);
    },
  };
}

/**
 * Starts a program that gets a signal when this process dies, even by SIGKILL. With `detached` its children get the
 * signal as well.
 */
export function spawnGuarded(
  signal: 'TERM' | 'KILL',
  executable: string,
  args: readonly string[],
  options: Omit<SpawnOptions, 'stdio'> & { readonly stdio: readonly ('ignore' | 'inherit' | 'pipe' | number)[] },
): ChildProcess {
  const child = spawn('sh', [guard, signal, executable, ...args], { ...options, stdio: [...options.stdio, 'pipe'] });
  child.once('exit', releaseOf(child));
  return child;
}

/** Removes a folder when this process dies without calling the returned function. */
export function removeWhenOrphaned(folder: string): () => void {
  const child = spawn('sh', ['-c', removeOrphan, 'sh', folder], {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
    detached: true,
  });
  return releaseOf(child);
}

/** The last lines of a log, indented, for an error message. */
export function logTail(logFile: string, lines = 15): string {
  return readFileSync(logFile, 'utf8')
    .trimEnd()
    .split('\n')
    .slice(-lines)
    .map((line) => `  ${line}`)
    .join('\n');
}

interface Run {
  readonly pid: number;
  kill(signal?: 'SIGTERM' | 'SIGKILL'): Promise<void>;
}

async function launch(command: ServerCommand, signal: AbortSignal): Promise<Run> {
  const { name, executable, args, logFile } = command;
  const log = openSync(logFile, 'a');
  const child = spawnGuarded('KILL', executable, args, {
    stdio: ['ignore', log, log],
    env: { ...process.env, ...command.env },
    // A process group of its own: Ctrl-C reaches only us, so that the servers stop in our order.
    detached: true,
  });
  closeSync(log);
  const pid = child.pid;
  if (pid === undefined) throw new Error(`${name}: cannot start sh`);

  let asked = false;
  let starting = true;
  const exited = once(child, 'exit').then(([code, signal]) => {
    if (!asked && !starting) console.error(`${name} has exited (${signal ?? code}):\n${logTail(logFile)}`);
  });
  const kill = async (signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM') => {
    asked = true;
    child.kill(signal);
    const insist = setTimeout(() => child.kill('SIGKILL'), 5000);
    await exited;
    clearTimeout(insist);
  };
  try {
    await untilReady(command, child, signal);
  } catch (error) {
    await kill('SIGKILL');
    throw error;
  }
  starting = false;
  return { pid, kill };
}

async function untilReady(
  { name, ready, logFile, readyWithinMs = 60_000 }: ServerCommand,
  child: ChildProcess,
  signal: AbortSignal,
) {
  const deadline = Date.now() + readyWithinMs;
  while (!(await ready().catch(() => false))) {
    signal.throwIfAborted();
    const ended = child.exitCode ?? child.signalCode;
    if (ended !== null) throw new Error(`${name} has exited (${ended}) before it was ready:\n${logTail(logFile)}`);
    if (Date.now() > deadline)
      throw new Error(`${name} is not ready after ${readyWithinMs / 1000} s:\n${logTail(logFile)}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

function releaseOf(child: ChildProcess): () => void {
  const pipe = child.stdio[3] as Socket;
  pipe.on('error', () => {}); // the guard may be gone already
  return () => pipe.end('done\n');
}
