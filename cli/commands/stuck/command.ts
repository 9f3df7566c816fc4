import { defineCommand } from '../../command.ts';
import { personFlags, temporalFlags } from '../../flag-groups.ts';
import { say } from '../../terminal.ts';

export const stuckCommand = defineCommand({
  name: 'stuck',
  description: `Show what waits for something that a person or another system has to provide, grouped by cause: how many machines and rollouts, which, the last error of the one that waits longest, and what would unblock it.`,
  flags: ['output', 'installation', ...personFlags, ...temporalFlags],
  examples: [
    ['stuck', 'everything that waits, by cause'],
    ['stuck -o json', 'the same for programs'],
  ],
  async run(options, _args, rawFlags) {
    const { stuck } = await import('./run.ts');
    say(await stuck(options, rawFlags));
  },
});
