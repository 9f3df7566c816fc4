/** `npm run chaos`: a random life of an installation on real servers, and whether it has kept its promises. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command, InvalidArgumentError } from 'commander';
import { acts } from './acts.ts';
import { checks, lineOf, type Violation } from './checks.ts';
import { createDice, drawActs } from './dice.ts';
import { collect, readMachines } from './evidence.ts';
import { converge, findRest, heal } from './heal.ts';
import { backUpDatabases } from './outages.ts';
import { startWorld, type World } from './world.ts';

const program = new Command('npm run chaos --')
  .description(
    'Runs Millwright with two workers and two controllers on servers of its own, and a simulated cloud. Kills, freezes and restores everything and changes every object at random, heals all, and checks the promises of docs/reliability.md. Exits with 1 where one was broken.',
  )
  .option('--seed <n>', 'what happens follows from it: the same seed repeats the same acts', wholeNumber, 1)
  .option('--minutes <m>', 'how long things happen, without the minutes that healing and checking take', wholeNumber, 2)
  .addHelpText(
    'after',
    `\nActs:\n${Object.keys(acts)
      .map((name) => `  ${name}`)
      .join('\n')}`,
  )
  .parse();

const { seed, minutes } = program.opts<{ readonly seed: number; readonly minutes: number }>();
const lines: string[] = [];
const startedAt = Date.now();

const dir = await mkdtemp(join(tmpdir(), `millwright-chaos-${seed}-`));
tell('starting servers and processes');
const world = await startWorld(dir, seed);
let violations: readonly Violation[];
let count = 0;
try {
  if (world.clock === undefined) tell('no clock jumps: libfaketime is not installed (Debian: package faketime)');
  violations = await live(world);
} catch (error) {
  const where = error instanceof Error ? (error.stack ?? error.message) : String(error);
  violations = [{ what: 'the run did not come to its end', where, at: new Date().toISOString() }];
} finally {
  await writeFile(join(dir, 'acts.log'), `${lines.join('\n')}\n`);
  await world.stop();
}
for (const violation of violations) console.log(lineOf(violation));
if (violations.length === 0) await rm(dir, { recursive: true, force: true });
else console.log(`logs, histories and the list of acts are in ${dir}`);
console.log(`seed ${seed}: ${count} acts, ${violations.length} violations`);
process.exit(violations.length === 0 ? 0 : 1);

/** Acts, heals and checks. */
async function live(world: World): Promise<Violation[]> {
  tell('backing up the databases');
  await backUpDatabases(world);
  const untouched = (await readMachines(world)).filter(({ isUntouched }) => isUntouched);
  count = await act(world);
  tell('healing');
  await heal(world);
  tell('waiting until everything has converged');
  const unconverged = await converge(world, tell);
  tell('waiting until nothing is written');
  const unrested = await findRest(world);
  tell('checking');
  const evidence = await collect(world, untouched);
  tell(`${evidence.vms.length} VMs, ${evidence.replays.length} runs, ${evidence.endings.length} ends of processes`);
  return [...unconverged, ...unrested, ...checks.flatMap((check) => check(evidence))];
}

/** Does what the seed says, each act at its time. Resolves when all are over, with how many were done. */
async function act(world: World): Promise<number> {
  const weights = Object.fromEntries(Object.entries(acts).map(([name, { weight }]) => [name, weight]));
  const since = performance.now();
  let done = 0;
  const running: Promise<void>[] = [];
  for (const { name, atMs, seed: own } of drawActs(seed, minutes, weights)) {
    if (name === 'clock jump' && world.clock === undefined) continue;
    await sleep(Math.max(0, since + atMs - performance.now()));
    let isTold = false;
    const run = acts[name]?.run(world, createDice(own), (what) => {
      isTold = true;
      done += 1;
      tell(`${name}: ${what}`);
    });
    running.push(
      (run ?? Promise.resolve()).catch((error: unknown) => {
        const [why] = String(error instanceof Error ? error.message : error).split('\n');
        tell(`${name}: ${isTold ? 'did not end well' : 'not now'}: ${why}`);
      }),
    );
  }
  await Promise.all(running);
  return done;
}

/** A line of progress, with the time since the start. */
function tell(what: string): void {
  const line = `${new Date().toISOString()} ${((Date.now() - startedAt) / 1_000).toFixed(1).padStart(6)} s  ${what}`;
  lines.push(line);
  console.log(line);
}

function wholeNumber(given: string): number {
  const number = Number(given);
  if (Number.isInteger(number) && number > 0) return number;
  throw new InvalidArgumentError('give a whole number from 1.');
}
