/** `npm run demo`: Millwright with a cloud that runs on this machine, or with the worker of a provider. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command, Option } from 'commander';
import { UsageError } from '../../cli/options.ts';
import { type CloudName, clouds } from './demo/clouds.ts';
import {
  firstStopOf,
  type OwnProvider,
  ownTour,
  readOwnProvider,
  removal,
  setUpWithWorker,
} from './demo/own-provider.ts';
import { runTour } from './demo/run-tour.ts';
import { createScreen } from './demo/screen.ts';
import { type Demo, setUp } from './demo/set-up.ts';
import { firstStop, type Stop, tour } from './demo/tour.ts';
import { watchMachines } from './demo/watch.ts';
import { removeWhenOrphaned } from './process.ts';

const program = new Command('npm run demo --')
  .description(
    'Starts Temporal, etcd, kube-apiserver, a simulated cloud and Millwright, and turns an example MachineDeployment ' +
      'into nodes. With --class and --worker it starts your provider in place of the cloud, and makes one machine. Runs ' +
      'until Ctrl-C, which removes everything.',
  )
  .option(
    '--exit',
    'run every command of the tour, check its effect and exit: with 0, or with 1 and the path of the logs when a check fails',
  )
  .addOption(
    new Option(
      '--cloud <name>',
      'simulated: one that is made for tests; aws: a simulated EC2, which needs python3; azure: a simulated Azure, which needs ' +
        'Go; openstack: a real OpenStack whose servers do not boot, which needs Debian 12',
    )
      .choices(Object.keys(clouds))
      .default('simulated' satisfies CloudName),
  )
  .option('--class <path>', 'file with a MachineClass of your provider, and with its Secrets')
  .option('--worker <command>', 'command that starts the worker of your provider; needs --class')
  .parse();
const options = program.opts<{ exit?: true; cloud: CloudName; class?: string; worker?: string }>();
const own = readOwn();

const screen = createScreen(process.stdout);
const dir = await mkdtemp(join(tmpdir(), 'millwright-demo-'));
// A signal during the start ends this process at once. Then the guards stop the servers and remove the folder.
const releaseFolder = removeWhenOrphaned(dir);
const ending: (() => Promise<void>)[] = [];
try {
  await (own
    ? runWithWorker(own)
    : run(await setUp({ dir, cloudName: options.cloud }, screen, ending), firstStop, tour));
  await end();
  await rm(dir, { recursive: true, force: true });
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  await end();
  await rm(join(dir, 'etcd'), { recursive: true, force: true });
  console.error(`Logs: ${dir}`);
  process.exitCode = 1;
}
releaseFolder();

function readOwn(): OwnProvider | undefined {
  try {
    const isDefault = program.getOptionValueSource('cloud') === 'default';
    return readOwnProvider({ ...options, cloud: isDefault ? undefined : options.cloud });
  } catch (error) {
    if (error instanceof UsageError) program.error(`error: ${error.message}`);
    throw error;
  }
}

/** Deletes the machines also after a failure, or names those that are left: their VMs are in a cloud of the user. */
async function runWithWorker(own: OwnProvider): Promise<void> {
  const demo = await setUpWithWorker(own, dir, screen, ending);
  const failures: string[] = [];
  const note = (error: Error) => void failures.push(error.message);
  await run(demo, firstStopOf(own), ownTour).catch(note);
  await runTour(demo, screen, [removal]).catch(async (error: Error) => {
    const left = await removal.missing(demo, '').catch(() => 'Whether Machines are left is not known');
    note(new Error(left === undefined || error.message.includes(left) ? error.message : `${error.message}\n${left}`));
  });
  if (failures.length > 0) throw new Error(failures.join('\n'));
}

async function run<D extends Demo>(demo: D, first: Stop<D>, tour: readonly Stop<D>[]): Promise<void> {
  await (options.exit ? checkTour(demo, [first, ...tour]) : stayUp(demo, first, tour));
}

async function checkTour<D extends Demo>(demo: D, stops: readonly Stop<D>[]): Promise<void> {
  if (screen.isTerminal) ending.push(watchMachines(demo, screen));
  const shown = runTour(demo, screen, stops);
  // A signal ends this process at once, unless that would leave VMs.
  await (own ? Promise.race([shown, untilInterrupted().then(() => Promise.reject(new Error('Interrupted')))]) : shown);
  screen.print(`\nEach of the ${stops.length} commands had its effect.`);
}

async function stayUp<D extends Demo>(demo: D, first: Stop<D>, tour: readonly Stop<D>[]): Promise<void> {
  const interrupted = untilInterrupted();
  ending.push(watchMachines(demo, screen));
  // What runs is worth looking at, also while the example has no nodes.
  const shown = runTour(demo, screen, [first]).catch((error: Error) => screen.print(error.message));
  if ((await Promise.race([shown, interrupted])) !== 'interrupted') {
    const last = own ? [removal] : [];
    screen.print(greeting(demo, [...tour, ...last, { ...first, title: 'Start over' }]));
    await interrupted;
  }
  screen.print('\nStopping');
}

function untilInterrupted(): Promise<'interrupted'> {
  return new Promise((resolve) => {
    for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(name, () => resolve('interrupted'));
  });
}

function greeting(
  { uiUrl, millwright }: Demo,
  commands: readonly { readonly title: string; readonly command: string }[],
): string {
  const lines = commands.flatMap(({ title, command }) => [`  # ${title}`, `  ${command}`]);
  return `
Fleet page      ${millwright.fleetPage}
Metrics         ${millwright.metrics}
Temporal UI     ${uiUrl}
Data and logs   ${dir}, deleted at the end

In a second terminal, run this first:

  . ${dir}/env

Then run these commands, from the top. docs/tutorial.md explains ${own ? 'most of ' : ''}them.

${lines.join('\n')}

${own ? 'Ctrl-C deletes the machines and their VMs and ends the demo. Ctrl-\\ ends it at once, and leaves the VMs.' : 'Ctrl-C ends the demo.'}`;
}

/** Stops everything in reverse order. Errors of pending waits are hidden. */
async function end(): Promise<void> {
  screen.close();
  for (const stop of ending.toReversed()) await stop();
}
