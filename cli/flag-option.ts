import { Option } from 'commander';
import { type Flag, type FlagName, flags } from './flags.ts';
import { envOf, flagOf, isEnvOnly } from './options.ts';

const isSwitch = ({ value }: Pick<Flag, 'value'>) => value === 'true|false';
/**
 * Gives each switch of a command line a value: commander would take the next word, whatever it is. A word that is a
 * value of a switch, such as `true` or `0`, stays its value. `-Aw` is `-A -w`.
 * @param taken flags of the command: others stay as they are, for the error that refuses them
 */
export function withSwitchValues(args: readonly string[], taken: readonly FlagName[]): string[] {
  const switches = taken
    .filter((name) => isSwitch(flags[name]))
    .map((name) => {
      const { short }: Flag = flags[name];
      return { spelling: flagOf(name), short };
    });
  const end = args.includes('--') ? args.indexOf('--') : args.length;
  const spellingsOf = (arg: string) => {
    const letters = /^-[A-Za-z]+$/.test(arg) ? arg.slice(1).split('') : [];
    const found = letters.map((letter) => switches.find(({ short }) => short === letter)?.spelling);
    if (found.length > 0 && !found.includes(undefined)) return found.filter((each) => each !== undefined);
    return switches.some(({ spelling }) => spelling === arg) ? [arg] : [];
  };
  const given = args.slice(0, end).flatMap((arg, i) => {
    const spellings = spellingsOf(arg);
    const hasValue = spellings.length === 1 && /^(1|t|true|0|f|false)$/i.test(args[i + 1] ?? '');
    return spellings.length === 0 || hasValue ? [arg] : spellings.map((spelling) => `${spelling}=true`);
  });
  return [...given, ...args.slice(end)];
}

/** The settings that have no flag. Empty: there are none. */
export function variablesText(names: readonly FlagName[]): string {
  const lines = names.filter(isEnvOnly).map((name) => `  ${envOf(name).join(', ')}: ${flags[name].description}`);
  return lines.length === 0 ? '' : `Environment only:\n${lines.join('\n')}`;
}

/** A flag of the table as an option of commander, with its default and variables in the description. */
export function toOption(name: FlagName): Option {
  const { value, description, short, ...flag }: Flag = flags[name];
  const notes = [
    ...(flag.default === undefined ? [] : [`default: ${flag.default || 'empty'}`]),
    ...(envOf(name).length === 0 ? [] : [`env: ${envOf(name).join(', ')}`]),
  ];
  const spelling = `${short === undefined ? '' : `-${short}, `}${flagOf(name)}`;
  return new Option(
    isSwitch({ value }) ? `${spelling} [${value}]` : `${spelling} <${value}>`,
    notes.length === 0 ? description : `${description} (${notes.join('; ')})`,
  );
}
