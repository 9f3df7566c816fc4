import { defineCommand } from '../command.ts';
import { controllersFlags, leaderFlags, serverFlags } from '../flags.ts';

export const controllersCommand = defineCommand({
  name: 'controllers',
  description:
    'Run the controllers: they watch objects and wake workflows. Of several, one acts and the others stand by.',
  flags: [...serverFlags, ...controllersFlags, ...leaderFlags],
  async run(options) {
    const [{ serve }, { startControllersPart }] = await Promise.all([
      import('../process/serve.ts'),
      import('../process/components.ts'),
    ]);
    await serve('controllers', options, [(deps) => startControllersPart(options, deps)]);
  },
});
