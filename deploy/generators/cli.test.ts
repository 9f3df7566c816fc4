import { describe, expect, it } from '@jest/globals';
import { commands } from '../../cli/commands.ts';
import { type FlagName, flags } from '../../cli/flags.ts';
import { envOf, flagOf } from '../../cli/options.ts';
import { cliDoc } from './cli.ts';

describe('cliDoc', () => {
  const rows = cliDoc()
    .split('\n')
    .filter((line) => line.startsWith('| '));

  it('has a section for every command', () => {
    const titles = [...cliDoc().matchAll(/^## millwright (\S+)/gm)].map(([, name]) => name);

    expect(titles).toEqual(commands.map(({ name }) => name));
  });

  it.each(Object.keys(flags) as FlagName[])(
    'has a row for %s, with its variable, if it has one, and the commands that take it',
    (name) => {
      const [variable] = envOf(name);
      const sought = variable === undefined ? ` \`${flagOf(name)} <` : ` \`${variable}\``;
      const found = rows.filter((row) => row.replaceAll('`, ', '`,  ').includes(sought));

      expect(found).toHaveLength(1);
      const taking = commands.filter(({ flags: taken }) => (taken as readonly FlagName[]).includes(name));
      expect(taking).not.toEqual([]);
      const given = found[0]?.split(' | ').at(-1) ?? '';
      for (const { name: command } of taking) expect(given).toContain(command);
    },
  );

  it('shows no flag for what belongs into the environment alone', () => {
    expect(cliDoc()).not.toContain('--temporal-api-key ');
    expect(cliDoc()).toContain('|  | `MILLWRIGHT_TEMPORAL_API_KEY`, `TEMPORAL_API_KEY` |');
  });
});
