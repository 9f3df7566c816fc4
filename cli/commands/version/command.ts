import { buildName, revision, version } from '../../../temporal/version.ts';
import { defineCommand } from '../../command.ts';
import { say } from '../../terminal.ts';

export const versionCommand = defineCommand({
  name: 'version',
  description: `Show the version of this program, the commit that it was made of, and the version of Node that runs it. \`millwright doctor\` shows the versions of processes and servers.`,
  flags: ['output'],
  examples: [['version -o json', 'for programs']],
  async run(options) {
    const { rendered } = await import('../../output.ts');
    const { node } = process.versions;
    say(rendered({ version, revision: revision(), node }, options, () => `Millwright ${buildName()}, Node ${node}`));
  },
});
