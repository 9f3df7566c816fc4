import { defineCommand } from './command.ts';
import { controllersFlags, serverFlags } from './flags.ts';

export const controllersCommand = defineCommand({
  name: 'controllers',
  description: 'Run the controllers: they watch objects and wake workflows. One process for an installation.',
  flags: [...serverFlags, ...controllersFlags],
  async run(options) {
    const [{ serve }, { startControllersPart }] = await Promise.all([import('./serve.ts'), import('./parts.ts')]);
    await serve('controllers', options, [(deps) => startControllersPart(options, deps)]);
  },
});
