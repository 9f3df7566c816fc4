import { defineCommand } from '../command.ts';
import { leaderFlags, serverFlags, workersFlags } from '../flags.ts';

export const runCommand = defineCommand({
  name: 'run',
  description: 'Run controllers and workers in one process. Of several, the controllers of one act.',
  flags: [...serverFlags, ...workersFlags, ...leaderFlags],
  async run(options) {
    const [{ serve }, { startControllersPart, startWorkersPart }] = await Promise.all([
      import('../process/serve.ts'),
      import('../process/components.ts'),
    ]);
    await serve('run', options, [
      (deps) => startWorkersPart(options, deps),
      (deps) => startControllersPart(options, deps),
    ]);
  },
});
