/** `npm run bench`: what it costs to create, replace, delete and keep machines. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Argument, Command, InvalidArgumentError, Option } from 'commander';
import { type Figures, type Measurement, toGrowth, toTable } from './report.ts';
import { startRequests } from './requests.ts';
import type { Scenario } from './scenario.ts';
import { idle, scenarios } from './scenarios.ts';
import { type Processes, startUsage } from './usage.ts';
import { createMs, joinMs, startWorld, type World } from './world.ts';

const program = new Command('npm run bench --')
  .description(
    `Measures Millwright on servers of its own and a simulated cloud (${createMs} ms to create a VM, ${joinMs} ms to join).`,
  )
  .addArgument(new Argument('<scenario>', 'what to measure').choices(Object.keys(scenarios)))
  .argument('<N>', 'number of machines, in each installation', wholeNumber)
  .option('--json', 'print a line of JSON instead of each table')
  .option('--rest', 'then also measure a minute in which nothing is done to the machines')
  .addOption(
    new Option('--workers <n>', 'run so many processes with workers beside one with the controllers')
      .argParser(wholeNumber)
      .conflicts('foreign'),
  )
  .addOption(
    new Option('--installations <n,...>', 'run one process for so many installations, one measurement after the other')
      .argParser(wholeNumbers)
      .conflicts(['foreign', 'namespace', 'classes']),
  )
  .option('--kubeconfig <path>', 'use a cluster that runs already and has the CRDs')
  .option('--temporal-address <host:port>', 'use a Temporal server that runs already')
  .option('--audit-log <path>', 'count requests in this audit log of that cluster')
  .option('--namespace <name>', 'namespace of the machines (default: a new one)')
  .option('--classes <first,second>', 'MachineClasses of that namespace, instead of those of a simulated cloud', pair)
  .option('--foreign', 'start no Millwright: a controller that watches the namespace runs already')
  .option('--user-agent <beginning>', 'whose requests are counted', 'millwright')
  .option('--process <name=pid...>', 'measure these processes, too', addProcess)
  .addHelpText(
    'after',
    `\nScenarios:\n${Object.entries(scenarios)
      .map(([name, { description }]) => `  ${name.padEnd(16)}${description}`)
      .join('\n')}`,
  )
  .parse();

interface BenchOptions {
  readonly json?: true;
  readonly rest?: true;
  readonly workers?: number;
  readonly installations?: readonly number[];
  readonly kubeconfig?: string;
  readonly temporalAddress?: string;
  readonly auditLog?: string;
  readonly namespace?: string;
  readonly classes?: readonly [string, string];
  readonly foreign?: true;
  readonly userAgent: string;
  readonly process?: ReadonlyMap<string, readonly number[]>;
}

const [name, count] = program.processedArgs as [string, number];
const options = program.opts<BenchOptions>();
if (options.foreign && (!options.kubeconfig || !options.namespace || !options.classes)) {
  program.error('--foreign needs --kubeconfig, --namespace and --classes: those that the controller works with');
}
if (!options.kubeconfig && (options.namespace || options.classes)) {
  program.error('--namespace and --classes need --kubeconfig: the cluster that has them');
}

const all: Figures[] = [];
for (const installations of options.installations ?? [undefined]) all.push(await measureOn(installations));
const [few, many] = [all[0], all.at(-1)];
if (few && many && few !== many && !options.json) console.log(toGrowth(few, many));

/** Measures on servers of its own, and answers with the last figures. */
async function measureOn(installations: number | undefined): Promise<Figures> {
  tell('starting servers');
  const isForeign = options.foreign ?? false;
  const world = await startWorld({ ...options, installations, isForeign }).catch((error: unknown) => {
    const why = error instanceof Error ? error.message : String(error);
    return program.error(`no servers to measure on: ${why}; see --kubeconfig and --temporal-address`);
  });
  try {
    const machines = count * (installations ?? 1);
    const fleet = { machines, ...(installations !== undefined && { installations }) };
    const figures = { scenario: name, ...fleet, ...(await measure(world, scenarios[name] as Scenario)) };
    print(figures);
    if (!options.rest) return figures;
    const atRest = { scenario: 'idle', ...fleet, ...(await measure(world, idle)) };
    print(atRest);
    return atRest;
  } finally {
    await world.stop();
  }
}

function print(figures: Figures): void {
  tell('');
  console.log(options.json ? JSON.stringify(figures) : `${toTable(figures)}\n`);
}

async function measure(world: World, { prepare, act, aftermathMs = 0 }: Scenario): Promise<Measurement> {
  tell('preparing');
  await prepare(world, count, tell);
  const eventsBefore = await world.historyEvents();
  const processes = (): Processes => ({ ...world.processes(), ...Object.fromEntries(options.process ?? []) });
  const bareMs = await measureBareWorkflow(world, processes);
  const requests = world.auditLog === undefined ? undefined : await startRequests(world.auditLog, options.userAgent);
  const usage = await startUsage(processes);

  const since = performance.now();
  const parts = await act(world, count, tell);
  const wallSeconds = (performance.now() - since) / 1_000;
  if (aftermathMs > 0) tell('watching what follows');
  await sleep(aftermathMs);

  const used = await usage();
  const asked = await requests?.();
  const eventsAfter = await world.historyEvents();
  return {
    wallSeconds,
    ...(parts && { parts }),
    processes: used,
    ...(bareMs !== undefined && { bareWorkflowMs: bareMs }),
    ...(asked && { requests: asked }),
    ...(eventsBefore &&
      eventsAfter && {
        historyEvents: {
          machines: eventsAfter.machines - eventsBefore.machines,
          owners: eventsAfter.owners - eventsBefore.owners,
        },
      }),
  };
}

/** CPU of Temporal for a workflow that does nothing, ms; undefined where the server is not ours. */
async function measureBareWorkflow(world: World, processes: () => Processes): Promise<number | undefined> {
  tell('measuring a bare workflow');
  const usage = await startUsage(processes);
  const workflows = await world.probe();
  const { Temporal } = await usage();
  return workflows && Temporal && (1_000 * Temporal.cpuSeconds) / workflows;
}

/** Progress goes to the terminal alone, on one line where it is one. */
function tell(what: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${what}`);
}

function wholeNumber(given: string): number {
  const number = Number(given);
  if (Number.isInteger(number) && number > 0) return number;
  throw new InvalidArgumentError('give a whole number from 1.');
}

function wholeNumbers(given: string): number[] {
  return given.split(',').map(wholeNumber);
}

function pair(given: string): [string, string] {
  const [first, second, ...more] = given.split(',');
  if (first && second && more.length === 0) return [first, second];
  throw new InvalidArgumentError('give two names with a comma between them.');
}

function addProcess(given: string, known = new Map<string, number[]>()): Map<string, number[]> {
  const [, name, pid] = /^(.+)=(\d+)$/.exec(given) ?? [];
  if (name === undefined) throw new InvalidArgumentError('give name=pid.');
  return known.set(name, [...(known.get(name) ?? []), Number(pid)]);
}
