/** `millwright run` as a separate process, which the user may kill. */
import { once } from 'node:events';
import { closeSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { request } from 'undici';
import { freePort } from '../ports.ts';
import { logTail, spawnGuarded } from '../process.ts';

const main = fileURLToPath(new URL('../../../cli/main.ts', import.meta.url));

/** Pause before a restart, long enough to be seen, ms. */
const pauseMs = 1_000;
const readyWithinMs = 120_000;

export interface MillwrightOptions {
  /** Folder of `millwright.log`, and of `millwright.pid` with the current process. */
  readonly dir: string;
  readonly kubeconfig: string;
  /** `none`: it looks for no Nodes. */
  readonly targetKubeconfig: string;
  readonly temporalAddress: string;
  /** Of the Temporal UI, for the links of the fleet page. */
  readonly uiUrl: string;
  /** Those that it serves, and what they need in its environment. */
  readonly providers: string;
  readonly env: Readonly<Record<string, string>>;
  /** Called with a line when Millwright has ended, and when it is ready again. */
  readonly print: (line: string) => void;
}

/** Millwright, restarted whenever it ends, as a Deployment would do. */
export interface Millwright {
  readonly logFile: string;
  /** Address of the fleet page. */
  readonly fleetPage: string;
  /** Address of the metrics, as Prometheus reads them. */
  readonly metrics: string;
  /** Number of starts. */
  readonly starts: number;
  /** Whether the current process is ready. */
  readonly isReady: boolean;
  /** Stops Millwright and does not restart it. SIGKILL follows SIGTERM after 10 s. */
  stop(): Promise<void>;
}

/**
 * Resolves when Millwright is ready. Throws with the end of its log when it ends before, or is not ready after 2
 * minutes.
 */
export async function startMillwright({ dir, print, ...settings }: MillwrightOptions): Promise<Millwright> {
  const logFile = join(dir, 'millwright.log');
  const ports = { port: await freePort(), fleetPort: await freePort() };
  let starts = 0;
  let isReady = false;
  const stopping = new AbortController();

  function start() {
    starts += 1;
    const child = launch(logFile, ports, settings);
    writeFileSync(join(dir, 'millwright.pid'), `${child.pid}\n`);
    const exited = once(child, 'exit').then(([code, signal]) => `${signal ?? code}`);
    return { child, exited };
  }

  async function untilReady(exited: Promise<string>): Promise<void> {
    const over = new AbortController();
    const ended = exited.then((how) => {
      if (!over.signal.aborted)
        throw new Error(`Millwright has ended (${how}) before it was ready:\n${logTail(logFile)}`);
    });
    try {
      await Promise.race([answers(`http://127.0.0.1:${ports.port}/readyz`, over.signal), ended]);
      isReady = true;
    } finally {
      over.abort();
    }
  }

  let run = start();
  async function supervise(): Promise<void> {
    for (;;) {
      const how = await run.exited;
      isReady = false;
      if (stopping.signal.aborted) return;
      print(`Millwright has ended (${how}) and is restarted`);
      await sleep(pauseMs, undefined, { signal: stopping.signal }).catch(() => undefined);
      if (stopping.signal.aborted) return;
      run = start();
      untilReady(run.exited).then(
        () => print('Millwright is ready again'),
        () => undefined, // the loop reports it
      );
    }
  }
  await untilReady(run.exited);
  const supervised = supervise();
  return {
    logFile,
    fleetPage: `http://127.0.0.1:${ports.fleetPort}`,
    metrics: `http://127.0.0.1:${ports.port}/metrics`,
    get starts() {
      return starts;
    },
    get isReady() {
      return isReady;
    },
    async stop() {
      stopping.abort();
      run.child.kill('SIGTERM');
      const insist = setTimeout(() => run.child.kill('SIGKILL'), 10_000);
      await supervised;
      clearTimeout(insist);
    },
  };
}

function launch(
  logFile: string,
  { port, fleetPort }: { readonly port: number; readonly fleetPort: number },
  {
    kubeconfig,
    targetKubeconfig,
    temporalAddress,
    uiUrl,
    providers,
    env: ofProvider,
  }: Omit<MillwrightOptions, 'dir' | 'print'>,
) {
  const log = openSync(logFile, 'a');
  // Settings of the user for other servers must not affect the demo.
  const env = Object.entries(process.env).filter(([name]) => !/^(MILLWRIGHT|TEMPORAL|AWS)_/.test(name));
  const child = spawnGuarded(
    'KILL',
    process.execPath,
    [
      ...[main, 'run', '--control-kubeconfig', kubeconfig, '--target-kubeconfig', targetKubeconfig],
      ...['--providers', providers],
      ...['--temporal-config-file', `${logFile}.no-temporal.toml`],
      ...['--temporal-address', temporalAddress, '--address', '127.0.0.1', '--port', `${port}`],
      ...['--fleet-port', `${fleetPort}`, '--temporal-ui', uiUrl],
      // There is only one process: after a kill the next one need not wait until the Leases have expired.
      ...['--leader-elect', 'false'],
    ],
    { stdio: ['ignore', log, log], env: { ...Object.fromEntries(env), ...ofProvider }, detached: true }, // Ctrl-C reaches only us
  );
  closeSync(log);
  return child;
}

async function answers(url: string, signal: AbortSignal): Promise<void> {
  const deadline = Date.now() + readyWithinMs;
  while (!(await isOk(url))) {
    if (signal.aborted) return;
    if (Date.now() > deadline) throw new Error(`Millwright is not ready after ${readyWithinMs / 1000} s: ${url}`);
    await sleep(50);
  }
}

async function isOk(url: string): Promise<boolean> {
  try {
    const { statusCode, body } = await request(url);
    await body.dump();
    return statusCode === 200;
  } catch {
    return false;
  }
}
