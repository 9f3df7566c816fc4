import { defineCommand } from './command.ts';
import { temporalFlags } from './flags.ts';

export const sweepCommand = defineCommand({
  name: 'sweep',
  description:
    'Sweep the clouds now for what has no Machine, and tell what was found, deleted and kept, and why. Ends with 1 when something could not be listed or deleted.',
  flags: ['dryRun', 'namespace', 'output', 'installation', ...temporalFlags],
  async run(options) {
    const { sweep } = await import('./sweep-run.ts');
    await sweep(options);
  },
});
