/** docs/reference/cli.md, from the commands and the one table of flags. */
import { columns } from '../../cli/columns.ts';
import { type Command, spellingOf, usageOf } from '../../cli/command.ts';
import { commands } from '../../cli/commands.ts';
import { type Flag, type FlagName, flags } from '../../cli/flags.ts';
import { ignoredFlags } from '../../cli/ignored-flags.ts';
import { envOf, flagOf } from '../../cli/options.ts';

/** Content of docs/reference/cli.md. */
export function cliDoc(): string {
  const all: readonly Command[] = commands;
  return `<!-- Made from cli/ by \`npm run generate\`. Do not edit. -->
# Command line

In a checkout, \`npm run millwright -- run …\` is the same as \`millwright run …\`.
\`kubectl machine …\` has the commands that are no servers: \`kubectl-machine\`, the second program of the package, is a plugin of
kubectl. Commands that are no servers find cluster and namespace as kubectl does, and all find Temporal
[as \`temporal\` does](../how-to/connect-to-temporal.md#the-settings-of-the-temporal-cli).

Every flag that has a variable in the table below can be set by it instead. A flag takes precedence over a variable, and the first variable
of a row over the others. Durations are written as in Go: \`90s\`, \`20m\`, \`1h30m\`. Unknown or malformed flags, arguments
and \`MILLWRIGHT_\` variables are refused with exit code 2. A command that fails exits with 1, and a replay that
differs with 3. Processes that serve exit
with 0 after SIGTERM or SIGINT; a second signal ends them at once.
${all.map(section).join('')}
## Flags

| flag | variables | default | meaning | commands |
|---|---|---|---|---|
${(Object.keys(flags) as FlagName[]).map((name) => row(name, all)).join('\n')}

## Accepted without effect

Commands that serve accept these flags of machine-controller-manager, so that they start with the arguments of its
Deployment. The log has a warning for each that is given. \`millwright worker\` also accepts the flags of machine-controller-manager that only
\`millwright controllers\` uses, such as \`--leader-elect\`, and the other way round.

| flag | instead |
|---|---|
${Object.values(ignoredFlags)
  .map(({ spelling, instead }) => `| \`${spelling.replaceAll('|', '\\|')}\` | ${instead} |`)
  .join('\n')}
`;
}

function section(command: Command): string {
  const { description, arguments: args = [] } = command;
  const rows = args.map(([argument, meaning]) => `- \`${spellingOf(argument)}\`: ${meaning}\n`).join('');
  const examples = command.examples.map(([line, meaning]) => [`millwright ${line}`, `# ${meaning}`]);
  return `\n## millwright ${usageOf(command)}\n\n${description}\n${rows && `\n${rows}`}\n\`\`\`\n${columns(examples).join('\n')}\n\`\`\`\n`;
}

function row(name: FlagName, all: readonly Command[]): string {
  const { value, short, envOnly, description, ...flag }: Flag = flags[name];
  const spelling = [...(short === undefined ? [] : [`\`-${short}\``]), `\`${flagOf(name)} <${value}>\``].join(', ');
  const cells = [
    envOnly ? '' : spelling,
    envOf(name)
      .map((variable) => `\`${variable}\``)
      .join(', '),
    flag.default === undefined ? '' : `\`${flag.default || "''"}\``,
    description,
    all
      .filter((command) => command.flags.includes(name))
      .map((command) => command.name)
      .join(', '),
  ];
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}
