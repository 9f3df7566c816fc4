import { defineCommand } from '../../command.ts';
import { namespaceFlags, temporalFlags } from '../../flag-groups.ts';
import { parseNames } from '../../kinds.ts';
import { say } from '../../terminal.ts';

export const timelineCommand = defineCommand({
  name: 'timeline',
  description: `Show the steps of a machine's life with the time that each took: validate, provision, join, run, drain, delete. It is made from the histories that Temporal keeps, also for a machine that is gone, until the retention of the Temporal namespace ends. It says what failed in each step, what it was blocked on, which signals it got, and why the machine was deleted.`,
  arguments: [['machine', 'name of the Machine, or machine/<name>']],
  flags: [...namespaceFlags, 'output', 'installation', ...temporalFlags],
  examples: [['timeline workers-757f8-4bh9w', 'where the time of its creation or deletion went']],
  async run(options, given) {
    const [name = ''] = await parseNames('Machine', given);
    const { timeline } = await import('./run.ts');
    say(await timeline(name, options));
  },
});
