/** A process that somebody looks after, as a Deployment does: it is started again whenever it has ended. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { MillwrightProcess } from './millwright.ts';

export interface Supervised {
  /** How often it was ready. */
  readonly starts: number;
  /** How often it has ended after it was ready. */
  readonly ends: number;
  /** SIGKILL. Resolves when it has ended. */
  kill(): Promise<void>;
  /** What all its runs have logged, also those that ended before they were ready. */
  logs(): string;
  /** Ends it for good. */
  stop(): Promise<void>;
}

/** Kubernetes waits longer each time, from 10 s to 5 minutes. */
const restartPauseMs = 500;

/** Starts a process, and again whenever it has ended. Resolves when it is ready for the first time. */
export async function supervise(start: () => Promise<MillwrightProcess>): Promise<Supervised> {
  let isWanted = true;
  let current = await start();
  let [starts, ends] = [1, 0];
  let past = '';

  async function startAgain(): Promise<void> {
    while (isWanted) {
      try {
        current = await start();
        starts++;
        return;
      } catch (error) {
        past += `${error}\n`; // with its log: something that it needs is not there yet
        await sleep(restartPauseMs);
      }
    }
  }

  async function lookAfter(): Promise<void> {
    while (isWanted) {
      await current.exited;
      ends++;
      if (!isWanted) return;
      past += current.logs();
      await startAgain();
    }
    await current.stop(); // it was being started when it was stopped
  }

  const done = lookAfter();
  return {
    get starts() {
      return starts;
    },
    get ends() {
      return ends;
    },
    async kill() {
      await current.kill('SIGKILL');
    },
    logs: () => past + current.logs(),
    async stop() {
      isWanted = false;
      await current.stop();
      await done;
    },
  };
}
