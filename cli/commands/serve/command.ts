import { defineCommand } from '../../command.ts';
import {
  controllersFlags,
  leaderFlags,
  leaderFlagsOfMcm,
  serverFlags,
  workerFlagsOfMcm,
  workersFlags,
} from '../../flag-groups.ts';
import { ignoredNotes } from '../../ignored-flags.ts';
import { takeLessMemory } from '../../process/less-memory.ts';

/** What serves; loaded only when a process starts. */
async function load() {
  takeLessMemory();
  const [{ serve }, components] = await Promise.all([
    import('../../process/serve.ts'),
    import('../../process/components.ts'),
  ]);
  return { serve, ...components };
}

export const runCommand = defineCommand({
  name: 'run',
  description: 'Run the controllers and a worker in one process. Of several such processes, one runs its controllers.',
  flags: [...serverFlags, ...workersFlags, ...leaderFlags],
  examples: [['run -n machines --providers aws --temporal-address temporal:7233', 'all of an installation']],
  accepts: [],
  async run(options, _args, rawFlags) {
    const { serve, startControllersComponent, startWorkersComponent } = await load();
    await serve('run', options, ignoredNotes(rawFlags), [
      (deps) => startWorkersComponent(options, deps),
      (deps) => startControllersComponent(options, deps),
    ]);
  },
});

export const controllersCommand = defineCommand({
  name: 'controllers',
  description:
    'Run the controllers, which watch objects and wake workflows. Of several such processes, one acts and the others stand by.',
  flags: [...serverFlags, ...controllersFlags, ...leaderFlags],
  examples: [['controllers -n machines --fleet-port 8080', 'with the fleet page']],
  accepts: workerFlagsOfMcm,
  async run(options, _args, rawFlags) {
    const { serve, startControllersComponent } = await load();
    const notes = ignoredNotes(rawFlags, workerFlagsOfMcm, 'only workers use it');
    await serve('controllers', options, notes, [(deps) => startControllersComponent(options, deps)]);
  },
});

export const workerCommand = defineCommand({
  name: 'worker',
  description:
    'Run a worker, which executes workflows, their Kubernetes activities and the given providers. Run as many as you like.',
  flags: [...serverFlags, ...workersFlags],
  examples: [['worker -n machines --providers aws,azure', 'a worker for two clouds']],
  accepts: leaderFlagsOfMcm,
  async run(options, _args, rawFlags) {
    const { serve, startWorkersComponent } = await load();
    const notes = ignoredNotes(rawFlags, leaderFlagsOfMcm, 'only the controllers use it');
    await serve('worker', options, notes, [(deps) => startWorkersComponent(options, deps)]);
  },
});
