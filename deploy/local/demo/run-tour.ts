/** Runs the tour without a user. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Screen } from './screen.ts';
import { type Demo, timed } from './set-up.ts';
import type { Stop } from './tour.ts';

/** Long, because the machine may be busy with other tests, and OpenStack takes more of it than other clouds, ms. */
const timeoutMs = 300_000;
/** Lines shown of the beginning and of the end of an output. */
const shownLines = 7;

/** Runs each command as printed and waits for its effect. Throws for the first command without its effect. */
export async function runTour<D extends Demo>(demo: D, screen: Screen, stops: readonly Stop<D>[]): Promise<void> {
  for (const stop of stops) {
    screen.print(`\n$ ${stop.command}`);
    await timed(screen, stop.title, async () => {
      const output = await runCommand(demo.dir, stop.command);
      if (output) screen.print(shortened(output));
      await untilDone(demo, stop, output);
    });
  }
}

/** Output of a command. Throws with the output when the command fails. */
async function runCommand(dir: string, command: string): Promise<string> {
  const script = `exec 2>&1\n. "$0"\n${command}`; // one stream, so that the output is in order
  const child = spawn('sh', ['-c', script, join(dir, 'env')], {
    stdio: ['ignore', 'pipe', 'ignore'],
    timeout: timeoutMs,
    detached: true, // Ctrl-C reaches only us: what deletes the machines has to end
  });
  const exited = once(child, 'exit');
  const output = (await text(child.stdout)).trimEnd();
  const [code, signal] = await exited;
  if (code === 0) return output;
  throw new Error(`the command has failed (${signal ?? code}):\n${output}`);
}

async function untilDone<D extends Demo>(demo: D, stop: Stop<D>, output: string): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const missing = await stop.missing(demo, output);
    if (missing === undefined) return;
    if (Date.now() > deadline) throw new Error(`after ${timeoutMs / 1000} s: ${missing}`);
    await sleep(250);
  }
}

/** The beginning and the end of an output, indented. */
function shortened(output: string): string {
  const lines = output.split('\n').map((line) => line && `  ${line}`);
  const left = lines.length - 2 * shownLines;
  return left <= 1
    ? lines.join('\n')
    : [...lines.slice(0, shownLines), `  … ${left} more lines`, ...lines.slice(-shownLines)].join('\n');
}
