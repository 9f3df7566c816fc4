import { Option } from 'commander';
import { type Flag, type FlagName, flags } from './flags.ts';
import { envOf, flagOf, isEnvOnly } from './options.ts';

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
  const isSwitch = value === 'true|false';
  return new Option(
    isSwitch ? `${spelling} [${value}]` : `${spelling} <${value}>`,
    notes.length === 0 ? description : `${description} (${notes.join('; ')})`,
  );
}
