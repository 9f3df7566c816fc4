/**
 * The program that runs a command. Exit codes: 0 for success, 2 for unusable flags, variables or arguments, 3 for a
 * replay that differs, 1 for a failure.
 */
import { CommanderError, Help, Option, Command as Program } from 'commander';
import { buildName } from '../temporal/version.ts';
import { columns } from './columns.ts';
import { type Command, NegativeAnswer, spellingOf, usageOf } from './command.ts';
import { connectionFlags } from './flag-groups.ts';
import { toOption, variablesText, withSwitchValues } from './flag-option.ts';
import type { FlagName } from './flags.ts';
import { ignoredFlags } from './ignored-flags.ts';
import { isEnvOnly, UsageError } from './options.ts';
import { resolveOptions } from './resolve-options.ts';
import { complain, say } from './terminal.ts';

/**
 * Runs the command that the arguments of the process name, and returns the exit code.
 * @param name as people call it
 */
export async function runProgram(name: string, commands: readonly Command[]): Promise<number> {
  const program = new Program(name)
    .description('Keeps the machines behind Kubernetes nodes: one durable workflow per Machine.')
    .option('-V, --version', 'output the version number')
    .on('option:version', () => {
      say(buildName());
      throw new CommanderError(0, 'commander.version', '');
    })
    .showHelpAfterError('(see --help)')
    .configureHelp({ boxWrap: wrapText })
    .configureOutput({ writeOut: (text) => say(text.trimEnd()), writeErr: (text) => complain(text.trimEnd()) })
    .exitOverride();
  for (const command of commands) register(program, command);
  try {
    const args = process.argv.slice(2);
    const { flags = [], accepts = [] } = commands.find((command) => command.name === args[0]) ?? {};
    await program.parseAsync(withSwitchValues(args, [...flags, ...accepts]), { from: 'user' });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode && 2; // 0: help or the version was asked for
    const said = error instanceof Error ? error.message : String(error);
    if (said !== '') complain(said);
    if (error instanceof NegativeAnswer) return 3;
    return [error, Object(error).cause].some((each) => each instanceof UsageError) ? 2 : 1;
  }
}

function register<N extends FlagName>(program: Program, command: Command<N>): void {
  const [summary = ''] = command.description.split(/[:.](?:\s|$)/);
  const subcommand = program.command(command.name).summary(summary).description(command.description);
  for (const [name, description] of command.arguments ?? []) subcommand.argument(spellingOf(name), description);
  const inOptions = command.flags.filter((name) => isForPeople(command) && isConnectionFlag(name));
  for (const name of command.flags.filter((name) => !isEnvOnly(name))) {
    subcommand.addOption(toOption(name).hideHelp(inOptions.includes(name)));
  }
  const usage = `usage: ${program.name()} ${usageOf(command)}`;
  subcommand.configureOutput({
    outputError: (text, write) =>
      write(missingArgumentText(text, command, usage) ?? allNamespacesText(text, command, program.name()) ?? text),
  });
  if (command.accepts !== undefined) {
    for (const name of command.accepts) subcommand.addOption(toOption(name).hideHelp());
    for (const { spelling } of Object.values(ignoredFlags)) subcommand.addOption(new Option(spelling).hideHelp());
    const spellings = Object.values(ignoredFlags).map(({ spelling }) => /--[a-z-]+/.exec(spelling)?.[0]);
    subcommand.addHelpText(
      'after',
      `\nAccepted without effect, so that an existing Deployment's arguments start; the log says what replaces them:\n  ${spellings.join(', ')}`,
    );
  }
  const variables = variablesText(command.flags.filter((name) => !inOptions.includes(name)));
  if (variables !== '') subcommand.addHelpText('after', `\n${variables}`);
  const examples = columns(command.examples.map(([line, meaning]) => [`  ${program.name()} ${line}`, meaning]));
  subcommand.addHelpText('after', `\nExamples:\n${examples.join('\n')}`);
  if (inOptions.length > 0) {
    subcommand.addHelpText('after', `\nFlags for the connections to the servers: ${program.name()} options`);
  }
  subcommand.action(async (...args: unknown[]) => {
    // A switch without a value is `true`.
    const values = Object.entries(subcommand.opts<Record<string, unknown>>());
    const rawFlags = Object.fromEntries(values.map(([name, value]) => [name, String(value)]));
    const options = await resolveOptions(command.flags, rawFlags, process.env);
    const words = args.slice(0, command.arguments?.length ?? 0).flat();
    await command.run(options, words.filter((word) => word !== undefined).map(String), rawFlags);
  });
}

/** Whether a person runs it, and not a Deployment. */
function isForPeople({ flags: taken }: Command): boolean {
  return taken.includes('context');
}

function isConnectionFlag(name: FlagName): boolean {
  return connectionFlags.some((each) => each === name);
}

/** @param text what commander says of an error; undefined: no argument is missing */
function missingArgumentText(text: string, { arguments: args = [] }: Command, usage: string): string | undefined {
  const [, missing] = /missing required argument '([^']+)'/.exec(text) ?? [];
  const [, meaning] = args.find(([name]) => name === missing) ?? [];
  return meaning === undefined ? undefined : `${missing} is missing: give ${meaning}\n${usage}\n`;
}

/** @param text what commander says of an error; undefined: it is another one, or the command has no namespace */
function allNamespacesText(text: string, { name, flags: taken }: Command, program: string): string | undefined {
  if (!/unknown option '(--all-namespaces|-A)/.test(text) || !taken.includes('namespace')) return undefined;
  const why = 'an installation has one namespace';
  const fix = `run it with -n <namespace> for each namespace that \`${program} get mcd -A\` lists`;
  return `--all-namespaces is not a flag of '${name}': ${why}, ${fix}\n`;
}

/** Wraps as commander does, and indents what continues an item of a list. */
function wrapText(this: Help, text: string, width: number): string {
  const wrap = (line: string, room: number) => Help.prototype.boxWrap.call(this, line, room);
  const lines = text
    .split('\n')
    .map((line) =>
      line.startsWith('- ') ? `- ${wrap(line.slice(2), width - 2).replaceAll('\n', '\n  ')}` : wrap(line, width),
    );
  return lines.join('\n');
}
