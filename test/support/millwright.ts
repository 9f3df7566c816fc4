/** Millwright as people run it: a process of its own. */
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { removeWhenOrphaned, spawnGuarded } from '../../deploy/local/process.ts';
import { fromSetup } from './from-setup.ts';
import { until } from './until.ts';

/**
 * Flags of an election. A leader that a busy machine keeps from renewing its Leases ends: most tests give it a minute.
 */
function electionFlags(awaitsExpiry: boolean): string[] {
  const [lease, deadline] = awaitsExpiry ? ['6s', '5s'] : ['60s', '50s'];
  return [
    ...['--leader-elect-lease-duration', lease, '--leader-elect-renew-deadline', deadline],
    ...['--leader-elect-retry-period', '500ms'],
  ];
}

/**
 * People's processes take less memory (cli/process/less-memory.ts), and a fifth more CPU to start. They leave a process
 * alone whose young heap has a size.
 */
export const lessWork = '--max-semi-space-size=16';

/** A test that wants sweeps says when: one in between would be seen by those that count what happens. */
const noSweeps = ['--machine-safety-orphan-vms-period', '0s'];

const ownProgram = [process.execPath, fileURLToPath(new URL('../../cli/main.ts', import.meta.url))];

export interface MillwrightOptions {
  readonly namespace: string;
  /** Default: the namespace. */
  readonly installation?: string;
  /** Of the control cluster. Default: the first API server of the test stack. */
  readonly kubeconfig?: string;
  /** Of the target cluster. Default: the control cluster. */
  readonly targetKubeconfig?: string;
  /** Default: the Temporal server of the test stack. */
  readonly temporalAddress?: string;
  /** What the command line of the build that runs begins with. Default: that of this checkout. */
  readonly program?: readonly string[];
  /** Default: `run`. */
  readonly command?: 'run' | 'controllers' | 'worker';
  /** Whether it leads only with its Leases, as in production. Default: true. */
  readonly isElected?: boolean;
  /** Whether the test waits until Leases of a killed leader expire: they do so after 6 s. Default: false. */
  readonly awaitsExpiry?: boolean;
  /** Whether it takes as little memory as in production. Default: false. */
  readonly isSmall?: boolean;
  /** More of the command line; a flag given here wins. */
  readonly flags?: readonly string[];
  /** Added to the environment. */
  readonly env?: Readonly<Record<string, string>>;
}

/** How a process ended. */
export interface Exit {
  /** null when a signal ended it. */
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface MillwrightProcess {
  readonly pid: number;
  /** Base of /livez, /readyz and /metrics. */
  readonly url: string;
  readonly exited: Promise<Exit>;
  /** Sends the signal and resolves when the process has exited. */
  kill(signal: 'SIGTERM' | 'SIGINT' | 'SIGKILL'): Promise<Exit>;
  /** Ends it with SIGTERM and, when that takes more than 10 s, with SIGKILL. Safe to repeat. */
  stop(): Promise<void>;
  /** Everything that it has logged, JSON lines. Stays readable when it has ended. */
  logs(): string;
}

/** A process of the command line as it is. */
export interface Process extends Omit<MillwrightProcess, 'url'> {}

/**
 * Starts a process of Millwright that cannot outlive this one, and resolves when it is ready.
 * Throws with the end of its log when it exits before or is not ready after 60 s.
 */
export async function startMillwright(options: MillwrightOptions): Promise<MillwrightProcess> {
  const {
    namespace,
    installation,
    program,
    targetKubeconfig,
    command = 'run',
    isElected = true,
    awaitsExpiry = false,
    isSmall = false,
    flags = [],
    env = {},
  } = options;
  const kubeconfig = options.kubeconfig ?? fromSetup('MILLWRIGHT_TEST_KUBECONFIG');
  const temporalAddress = options.temporalAddress ?? fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS');
  const args = [
    ...[command, '--namespace', namespace, '--temporal-address', temporalAddress],
    ...(targetKubeconfig === undefined
      ? ['--target-kubeconfig', kubeconfig]
      : ['--control-kubeconfig', kubeconfig, '--target-kubeconfig', targetKubeconfig]),
    ...(installation === undefined ? [] : ['--installation', installation]),
    ...(command === 'worker'
      ? []
      : [...(isElected ? electionFlags(awaitsExpiry) : ['--leader-elect', 'false']), ...noSweeps]),
    ...['--address', '127.0.0.1', '--port', '0', '--log-format', 'json', ...flags],
  ];
  const millwright = startProcess(args, isSmall ? { NODE_OPTIONS: '', ...env } : env, program);
  let hasExited = false;
  void millwright.exited.then(() => {
    hasExited = true;
  });
  let url = '';
  try {
    await until(
      `millwright ${command} is ready`,
      async () => {
        if (hasExited) return true;
        url ||= /"url":"([^"]+)"/.exec(millwright.logs())?.[1] ?? '';
        return url !== '' && (await fetch(`${url}/readyz`)).ok;
      },
      { describe: () => millwright.logs() },
    );
  } catch (error) {
    await millwright.kill('SIGKILL');
    throw error;
  }
  if (hasExited) throw new Error(`millwright ${command} has exited before it was ready:\n${millwright.logs()}`);
  return { ...millwright, url };
}

/**
 * Starts `millwright` with these arguments.
 * @param env is added to the environment
 * @param program what the command line of the build that runs begins with
 */
export function startProcess(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  program: readonly string[] = ownProgram,
): Process {
  const folder = mkdtempSync(join(tmpdir(), 'millwright-process-'));
  const releaseFolder = removeWhenOrphaned(folder);
  const logFile = join(folder, 'log');
  const log = openSync(logFile, 'a');
  const [executable = '', ...words] = program;
  const child = spawnGuarded('KILL', executable, [...words, ...args], {
    stdio: ['ignore', log, log],
    env: { ...process.env, NODE_OPTIONS: lessWork, ...env },
    detached: true,
  });
  closeSync(log);
  if (child.pid === undefined) throw new Error('cannot start sh');
  let lastLogs: string | undefined;
  const exited = once(child, 'exit').then(([code, signal]): Exit => {
    lastLogs = readFileSync(logFile, 'utf8');
    rmSync(folder, { recursive: true });
    releaseFolder();
    return { code, signal };
  });
  return {
    pid: child.pid,
    exited,
    async kill(signal) {
      child.kill(signal);
      return exited;
    },
    async stop() {
      child.kill('SIGTERM');
      const insist = setTimeout(() => child.kill('SIGKILL'), 10_000);
      await exited;
      clearTimeout(insist);
    },
    logs: () => lastLogs ?? readFileSync(logFile, 'utf8'),
  };
}
