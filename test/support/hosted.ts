/** Installations in the Millwright that all tests of a run share, see host.ts. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { spawnGuarded } from '../../deploy/local/process.ts';
import { fromSetup } from './from-setup.ts';
import type { HostRequest } from './host.ts';
import { lessWork } from './millwright.ts';

const variable = 'MILLWRIGHT_TEST_HOST';

/**
 * Starts the process; its address goes into the environment, where a run of jest finds it.
 * @param isSmall it takes as little memory as in production. Default: false
 */
export async function startHost({ isSmall = false }: { readonly isSmall?: boolean } = {}) {
  const main = fileURLToPath(new URL('host.ts', import.meta.url));
  const { NODE_OPTIONS = '' } = process.env;
  const child = spawnGuarded('KILL', process.execPath, [main], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, NODE_OPTIONS: isSmall ? NODE_OPTIONS : `${NODE_OPTIONS} ${lessWork}` },
  });
  const { pid, stdout } = child;
  if (pid === undefined || !stdout) throw new Error('cannot start sh');
  const [url] = await once(createInterface(stdout), 'line');
  process.env[variable] = String(url);
  return {
    pid,
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null)
        throw new Error('the shared Millwright has ended by itself');
      child.kill('SIGTERM');
      await once(child, 'exit');
    },
  };
}

export interface HostedMillwright {
  /** Everything that it has logged, JSON lines. */
  logs(): string;
  stop(): Promise<void>;
}

interface HostedOptions {
  readonly namespace: string;
  readonly kubeconfig: string;
  readonly targetKubeconfig: string;
  readonly temporalAddress: string;
  /** More of the command line, name and value in turn. */
  readonly flags: readonly string[];
}

/**
 * It has no other replica that could lead, and sweeps when a test says so. Its workflows run in the faster sandbox, and
 * in the SDK's in the second part of `npm run test:long`; those of a process of its own always run in the SDK's.
 */
const quiet = {
  ...{ leaderElect: 'false', machineSafetyOrphanVmsPeriod: '0s' },
  fastWorkflowSandbox: process.env.MILLWRIGHT_FAST_WORKFLOW_SANDBOX ?? 'true',
};

/** Starts an installation in the shared Millwright, and resolves when it is ready. Throws what the process says. */
export async function startHosted(options: HostedOptions): Promise<HostedMillwright> {
  const { namespace, kubeconfig, targetKubeconfig, temporalAddress, flags } = options;
  const folder = await mkdtemp(join(tmpdir(), 'millwright-hosted-'));
  const logFile = join(folder, 'log');
  const request: HostRequest = {
    ...{ namespace, logFile },
    options: { ...quiet, controlKubeconfig: kubeconfig, targetKubeconfig, temporalAddress, ...byName(flags) },
  };
  await ask('POST', '', JSON.stringify(request));
  let lastLogs: string | undefined;
  return {
    logs: () => lastLogs ?? readFileSync(logFile, 'utf8'),
    async stop() {
      if (lastLogs !== undefined) return;
      await ask('DELETE', namespace);
      lastLogs = await readFile(logFile, 'utf8');
      await rm(folder, { recursive: true });
    },
  };
}

/** `['--log-level', 'debug']` as `{ logLevel: 'debug' }`. */
function byName(flags: readonly string[]): Record<string, string> {
  const options: Record<string, string> = {};
  for (let i = 0; i < flags.length; i += 2) {
    const name = flags[i]!.slice(2).replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
    options[name] = flags[i + 1] ?? '';
  }
  return options;
}

async function ask(method: 'POST' | 'DELETE', path: string, body?: string): Promise<void> {
  const response = await fetch(`${fromSetup(variable)}/${path}`, { method, ...(body !== undefined && { body }) });
  if (!response.ok) throw new Error(`the shared Millwright: ${await response.text()}`);
}
