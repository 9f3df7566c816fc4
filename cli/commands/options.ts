import { Command as Program } from 'commander';
import { defineCommand } from '../command.ts';
import { connectionFlags } from '../flag-groups.ts';
import { toOption, variablesText } from '../flag-option.ts';
import { isEnvOnly } from '../options.ts';
import { say } from '../terminal.ts';

export const optionsCommand = defineCommand({
  name: 'options',
  description: `Show the flags that say how a command finds and logs in to Kubernetes and Temporal. Every command that asks a server takes those of that server.`,
  flags: [],
  examples: [['options', 'flags and variables of the servers']],
  async run() {
    const shown = new Program('millwright <command>').usage('[flags]').helpOption(false);
    for (const name of connectionFlags.filter((each) => !isEnvOnly(each))) shown.addOption(toOption(name));
    say(`${shown.helpInformation()}\n${variablesText(connectionFlags)}`);
  },
});
