/** `npm run demo`: Millwright with a cloud that runs on this machine. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command, Option } from 'commander';
import { type CloudName, clouds } from './demo/clouds.ts';
import { runTour } from './demo/run-tour.ts';
import { createScreen } from './demo/screen.ts';
import { type Demo, setUp } from './demo/set-up.ts';
import { firstStop, tour } from './demo/tour.ts';
import { watchMachines } from './demo/watch.ts';
import { removeWhenOrphaned } from './process.ts';

const program = new Command('npm run demo --')
  .description(
    'Starts Temporal, etcd, kube-apiserver, a simulated cloud and Millwright, and turns an example MachineDeployment ' +
      'into nodes. Runs until Ctrl-C, which removes everything.',
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
  .parse();
const options = program.opts<{ exit?: true; cloud: CloudName }>();

const screen = createScreen(process.stdout);
const dir = await mkdtemp(join(tmpdir(), 'millwright-demo-'));
// A signal during the start ends this process at once. Then the guards stop the servers and remove the folder.
const releaseFolder = removeWhenOrphaned(dir);
const ending: (() => Promise<void>)[] = [];
try {
  await (options.exit ? checkTour() : stayUp());
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

async function checkTour(): Promise<void> {
  const demo = await setUp({ dir, cloudName: options.cloud }, screen, ending);
  if (screen.isTerminal) ending.push(watchMachines(demo, screen));
  const stops = [firstStop, ...tour];
  await runTour(demo, screen, stops);
  screen.print(`\nEach of the ${stops.length} commands had its effect.`);
}

async function stayUp(): Promise<void> {
  const demo = await setUp({ dir, cloudName: options.cloud }, screen, ending);
  const interrupted = new Promise<'interrupted'>((resolve) => {
    for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(name, () => resolve('interrupted'));
  });
  ending.push(watchMachines(demo, screen));
  // What runs is worth looking at, also while the example has no nodes.
  const shown = runTour(demo, screen, [firstStop]).catch((error: Error) => screen.print(error.message));
  if ((await Promise.race([shown, interrupted])) !== 'interrupted') {
    screen.print(greeting(demo));
    await interrupted;
  }
  screen.print('\nStopping');
}

function greeting({ uiUrl, millwright }: Demo): string {
  const again = { title: 'Start over', command: firstStop.command };
  const lines = [...tour, again].flatMap(({ title, command }) => [`  # ${title}`, `  ${command}`]);
  return `
Fleet page      ${millwright.fleetPage}
Metrics         ${millwright.metrics}
Temporal UI     ${uiUrl}
Data and logs   ${dir}, deleted at the end

In a second terminal, run this first:

  . ${dir}/env

Then run these commands, from the top. docs/tutorial.md explains them.

${lines.join('\n')}

Ctrl-C ends the demo.`;
}

/** Stops everything in reverse order. Errors of pending waits are hidden. */
async function end(): Promise<void> {
  screen.close();
  for (const stop of ending.toReversed()) await stop();
}
