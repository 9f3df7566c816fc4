import type { FlagName } from './flags.ts';
import type { Options } from './options.ts';

/** The flags of a command line as they were written: nothing from the environment, no defaults. */
export type RawFlags = Readonly<Partial<Record<FlagName, string>>>;

/**
 * A command has done its work, and the answer is no: the exit code is 3. Without a message where its output says it.
 */
export class NegativeAnswer extends Error {}

/** A command of `millwright`. The help and docs/reference are made from it as well. */
export interface Command<N extends FlagName = FlagName> {
  readonly name: string;
  readonly description: string;
  /** In order. Names in brackets are optional; the last one may end with `...`. `values` are offered by shells. */
  readonly arguments?: readonly (readonly [name: string, description: string, values?: readonly string[]])[];
  readonly flags: readonly N[];
  /** Command lines without the name of the program, each with what it does. */
  readonly examples: readonly (readonly [line: string, meaning: string])[];
  /**
   * It accepts the flags of machine-controller-manager that have no effect, and these, which only another command uses.
   */
  readonly accepts?: readonly FlagName[];
  /**
   * Throws UsageError for input that it cannot use, and an Error whose message is meant for people: NegativeAnswer or
   * another.
   */
  run(options: Options<N>, args: readonly string[], rawFlags: RawFlags): Promise<void>;
}

/** An argument as usage lines show it. */
export function spellingOf(argument: string): string {
  return argument.startsWith('[') ? argument : `<${argument}>`;
}

/** The arguments as a usage line shows them, after the name of the command. */
export function usageOf({ name, arguments: args = [] }: Pick<Command, 'name' | 'arguments'>): string {
  return [name, ...args.map(([argument]) => spellingOf(argument)), '[flags]'].join(' ');
}

/** Types the options of `run` by the flags. `run` imports what it needs, so that `--help` loads little. */
export function defineCommand<const N extends FlagName>(command: Command<N>): Command<N> {
  return command;
}
