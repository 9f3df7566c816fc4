/** `millwright run` as a process of its own, so that it can be killed. */
import { once } from 'node:events';
import { closeSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { request } from 'undici';
import { freePort } from '../ports.ts';
import { logTail, spawnGuarded } from '../process.ts';

const main = fileURLToPath(new URL('../../../cli/main.ts', import.meta.url));

/** How long it stays away, so that a person can see it missing, ms. */
const pauseMs = 1_000;
const readyWithinMs = 120_000;

export interface MillwrightOptions {
  /** Gets `millwright.log`, and `millwright.pid` with the present process. */
  readonly dir: string;
  readonly kubeconfig: string;
  readonly temporalAddress: string;
  /** Called with a sentence whenever it ends, or is ready again. */
  readonly tell: (line: string) => void;
}

/** Millwright, started again whenever it ends, as a cluster would. */
export interface Millwright {
  readonly logFile: string;
  /** How often it was started. */
  readonly starts: number;
  /** Whether the present process is ready. */
  readonly isReady: boolean;
  /** Ends it for good; SIGKILL when SIGTERM takes more than 10 s. */
  stop(): Promise<void>;
}

/** Resolves when it is ready. Throws with the end of its log when it ends before, or takes more than 2 minutes. */
export async function startMillwright({ dir, tell, ...addresses }: MillwrightOptions): Promise<Millwright> {
  const logFile = join(dir, 'millwright.log');
  const port = await freePort();
  let starts = 0;
  let isReady = false;
  const stopping = new AbortController();

  function start() {
    starts += 1;
    const child = launch(logFile, port, addresses);
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
      await Promise.race([answers(`http://127.0.0.1:${port}/readyz`, over.signal), ended]);
      isReady = true;
    } finally {
      over.abort();
    }
  }

  let run = start();
  /** As long as Millwright shall run. */
  async function supervise(): Promise<void> {
    for (;;) {
      const how = await run.exited;
      isReady = false;
      if (stopping.signal.aborted) return;
      tell(`Millwright has ended (${how}): it is started again`);
      await sleep(pauseMs, undefined, { signal: stopping.signal }).catch(() => undefined);
      if (stopping.signal.aborted) return;
      run = start();
      untilReady(run.exited).then(
        () => tell('Millwright is back'),
        () => undefined, // the loop tells
      );
    }
  }
  await untilReady(run.exited);
  const supervised = supervise();
  return {
    logFile,
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
  port: number,
  { kubeconfig, temporalAddress }: Omit<MillwrightOptions, 'dir' | 'tell'>,
) {
  const log = openSync(logFile, 'a');
  // What the person has set for another cluster or server must not reach into the demo.
  const env = Object.entries(process.env).filter(([name]) => !/^(MILLWRIGHT|TEMPORAL)_/.test(name));
  const child = spawnGuarded(
    'KILL',
    process.execPath,
    [
      ...[main, 'run', '--control-kubeconfig', kubeconfig, '--target-kubeconfig', kubeconfig],
      ...['--temporal-address', temporalAddress, '--address', '127.0.0.1', '--port', `${port}`],
      // There is one process: when it was killed, the next one need not wait until its Leases have expired.
      ...['--leader-elect', 'false'],
    ],
    { stdio: ['ignore', log, log], env: Object.fromEntries(env), detached: true }, // Ctrl-C reaches only us
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
