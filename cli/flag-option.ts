import { Option } from 'commander';
import { type Flag, type FlagName, flags } from './flags.ts';
import { envOf, flagOf } from './options.ts';

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
