import type { FlagName, Options } from './options.ts';

/** What the command line has, by flag and as it was written: nothing from the environment, no defaults. */
export type Given = Readonly<Partial<Record<FlagName, string>>>;

/** A command of `millwright`, in a form that help and documents are made from, too. */
export interface Command<N extends FlagName = FlagName> {
  readonly name: string;
  readonly description: string;
  /** In order: name and description. Mandatory but for names in brackets, of which the last may end with `...`. */
  readonly arguments?: readonly (readonly [name: string, description: string])[];
  readonly flags: readonly N[];
  /** Throws UsageError for what it cannot use, and an Error of one line for what a person should know. */
  run(options: Options<N>, args: readonly string[], given: Given): Promise<void>;
}

/** An argument as usage lines show it. */
export function spellingOf(argument: string): string {
  return argument.startsWith('[') ? argument : `<${argument}>`;
}

/** Makes the options of `run` those of the flags. What a command runs is imported by `run`, so that help waits for nothing. */
export function defineCommand<const N extends FlagName>(command: Command<N>): Command<N> {
  return command;
}
