/** `npm run conformance`: whether a provider does what docs/providers.md promises. */
import { Command, CommanderError } from 'commander';
import { dataConverterOf } from '../../cli/data-converter.ts';
import { clusterFlags, temporalFlags } from '../../cli/flag-groups.ts';
import { toOption } from '../../cli/flag-option.ts';
import { type FlagName, flags } from '../../cli/flags.ts';
import { parseOptions, UsageError } from '../../cli/options.ts';
import { connectCluster } from '../../cli/servers.ts';
import { temporalServer } from '../../cli/temporal-server.ts';
import { startStack } from '../../deploy/local/stack.ts';
import { cases } from './cases.ts';
import { readClassFile } from './class-file.ts';
import { providerWithCounterpart } from './http-counterpart.ts';
import { providers } from './providers.ts';
import { caseLines, exitCodeOf, type ProviderResults, totalsLine, unprovenLines } from './report.ts';
import { runAll } from './run-all.ts';
import type { CaseResult } from './run-cases.ts';
import { runOne } from './run-one.ts';

const cliFlags = ['namespace', 'installation', 'controlKubeconfig', 'targetKubeconfig', ...temporalFlags] as const;
const names = providers.map(({ name }) => name).join(', ');

interface ConformanceOptions {
  readonly all?: true;
  readonly provider?: string;
  readonly class?: string;
  readonly worker?: string;
  readonly counterpart?: string;
  readonly case?: string;
  readonly json?: true;
}

process.exit(await main());

async function main(): Promise<number> {
  const program = new Command('npm run conformance --')
    .description(
      'Checks that a provider does what docs/providers.md promises. It calls the provider through Temporal alone, but with --all those in TypeScript also in its own process, and deletes what it has made. It makes up to two VMs at a time, and more only in a cloud under its control. Exits with 0 only if every case has passed, with 1 if one has failed, with 2 for unusable flags, and with 3 if none has failed and one was not run.',
    )
    .option('--provider <name>', 'provider that is checked, as in `provider` of a MachineClass')
    .option('--class <path>', 'file with a MachineClass, and with its Secrets unless they exist')
    .option('--worker <command>', 'command that starts the worker of the provider, which is then killed as well')
    .option(
      '--counterpart <url>',
      'cloud that answers the questions of docs/reference/conformance.md and has the class: every case is run, on servers of its own by default',
    )
    .option(
      '--all',
      `check ${names}, or the one that --provider names, each with a cloud that shows faults; on servers of its own by default`,
    )
    .option('--case <text>', 'run only the cases whose titles have this text')
    .option('--json', 'print one line of JSON, an array of {provider, results}, instead of the report')
    .addHelpText('after', `\nCases:\n${cases.map(({ title, needs }) => `  ${title}${needsText(needs)}`).join('\n')}`)
    .showHelpAfterError('(see --help)')
    .exitOverride();
  for (const name of cliFlags.filter((each) => !('envOnly' in flags[each]))) program.addOption(toOption(name));
  try {
    const results = await run(program.parse());
    const own = program.opts<ConformanceOptions>();
    if (own.json) console.log(JSON.stringify(results));
    else console.log(['', ...unprovenLines(results), totalsLine(results)].join('\n'));
    return exitCodeOf(results);
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode && 2;
    console.error(error instanceof Error ? error.message : error);
    return error instanceof UsageError ? 2 : 1;
  }
}

async function run(program: Command): Promise<readonly ProviderResults[]> {
  const own = program.opts<ConformanceOptions>();
  const given = Object.fromEntries(
    cliFlags.map((name) => [
      name,
      program.getOptionValueSource(name) === undefined ? undefined : String(program.opts()[name]),
    ]),
  ) as Partial<Record<FlagName, string>>;
  const options = parseOptions([...cliFlags, ...clusterFlags], given, process.env);
  const common = { cases: selected(own.case), signal: untilSignal() };
  if (own.all) {
    refuse(own, '--all', 'class', 'worker', 'counterpart');
    const chosen = providers.filter(({ name }) => own.provider === undefined || name === own.provider);
    if (chosen.length === 0) throw new UsageError(`--provider is '${own.provider}': with --all give one of ${names}`);
    return checkAll({ ...common, providers: chosen, onResult: blocks(own, chosen) }, given);
  }
  if (!own.provider) throw new UsageError('--provider is missing: name the provider, or give --all');
  if (own.counterpart !== undefined) {
    refuse(own, '--counterpart', 'class');
    if (!own.worker)
      throw new UsageError('--worker is missing: give the command that starts the worker, which is killed');
    const entry = await providerWithCounterpart(own.provider, readUrl(own.counterpart), own.worker);
    return checkAll({ ...common, providers: [entry], onResult: lines(own) }, given);
  }
  if (!own.class) throw new UsageError('--class is missing: give the path of a file with a MachineClass');
  const file = readClassFile(own.class, options.namespace);
  const control = await connectCluster('control', options, 'conformance');
  try {
    const installation = options.installation ?? options.namespace;
    const temporal = temporalServer(options);
    const { provider, worker } = own;
    const dataConverter = dataConverterOf(options);
    const subject = { provider, file, installation, control, temporal, dataConverter, worker };
    return [await runOne({ ...common, ...subject, onResult: lines(own) })];
  } finally {
    await control.close();
  }
}

function refuse(own: ConformanceOptions, mode: string, ...names: ('class' | 'worker' | 'counterpart')[]): void {
  for (const name of names)
    if (own[name] !== undefined) throw new UsageError(`--${name} is '${own[name]}': leave it out with ${mode}`);
}

/** Without a slash at the end. */
function readUrl(text: string): string {
  if (/^https?:/.test(text) && URL.canParse(text)) return text.replace(/\/+$/, '');
  throw new UsageError(`--counterpart is '${text}': give an http or https URL`);
}

/** On the servers that the flags name, else on its own. */
async function checkAll(
  options: Pick<Parameters<typeof runAll>[0], 'cases' | 'providers' | 'signal' | 'onResult'>,
  { targetKubeconfig, temporalAddress }: Partial<Record<FlagName, string>>,
): Promise<readonly ProviderResults[]> {
  if ((targetKubeconfig === undefined) !== (temporalAddress === undefined)) {
    throw new UsageError(
      '--target-kubeconfig and --temporal-address belong together with --all and --counterpart: give both or none',
    );
  }
  if (targetKubeconfig !== undefined && temporalAddress !== undefined)
    return runAll({ ...options, servers: { kubeconfig: targetKubeconfig, temporalAddress } });
  if (process.stderr.isTTY) console.error('Starting Temporal, etcd and kube-apiserver');
  const stack = await startStack();
  try {
    return await runAll({ ...options, servers: stack });
  } finally {
    await stack.stop();
  }
}

function selected(text: string | undefined) {
  const chosen = cases.filter(({ title }) => title.includes(text ?? ''));
  if (chosen.length > 0) return chosen;
  throw new UsageError(`--case is '${text}', which no title has: give a part of a title that --help lists`);
}

/** Prints each result as it comes. */
function lines({ json }: ConformanceOptions) {
  return (_: string, result: CaseResult) => {
    if (!json) console.log(caseLines(result));
  };
}

/** Prints the results of the first provider as they come, and keeps those of the next ones until it is done. */
function blocks({ json, case: text }: ConformanceOptions, chosen: typeof providers) {
  const total = selected(text).length;
  const pending = chosen.map(({ name }) => ({ name, results: [] as CaseResult[], printed: 0 }));
  return (provider: string, result: CaseResult) => {
    pending.find(({ name }) => name === provider)?.results.push(result);
    if (json) return;
    for (const block of pending) {
      if (block.printed === 0 && block.results.length > 0)
        console.log(block === pending[0] ? block.name : `\n${block.name}`);
      for (; block.printed < block.results.length; block.printed++) {
        const next = block.results[block.printed];
        if (next) console.log(caseLines(next));
      }
      if (block.printed < total) return;
    }
  };
}

function needsText(needs: readonly string[]): string {
  if (needs.length === 0) return '';
  return needs.includes('worker') ? ' (needs --worker or --all)' : ' (needs --counterpart or --all)';
}

/** Aborts with the first Ctrl-C, so that the case that runs cleans up; the second one ends the process. */
function untilSignal(): AbortSignal {
  const controller = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.once(name, () => {
      console.error('Ending after this case');
      controller.abort();
    });
  }
  return controller.signal;
}
