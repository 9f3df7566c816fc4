/** Shows the machines of the demo while they change. */
import { setTimeout as sleep } from 'node:timers/promises';
import { machines } from '../../../api/gardener/resources.ts';
import type { Machine } from '../../../api/gardener/schema/machine.ts';
import { workflowId } from '../../../api/workflow-id.ts';
import { columns } from '../../../cli/columns.ts';
import { describeWorkflow } from '../../../temporal/describe.ts';
import { type MachineDescription } from '../../../workflows/machine/messages.ts';
import type { Screen } from './screen.ts';
import { type Demo, installation, namespace } from './set-up.ts';

/** One machine as it is shown. */
interface Row {
  readonly name: string;
  readonly phase: string;
  readonly node: string;
  /** `doing` of its workflow. */
  readonly doing: string;
}

const everyMs = 400;
/** Machines in the table; the others are only counted. */
const maxRows = 12;

/** Shows a table on a terminal, else one line per change, until the returned function is called. */
export function watchMachines(demo: Demo, screen: Screen): () => Promise<void> {
  const since = Date.now();
  const stopping = new AbortController();
  const answers = new Map<string, string>();
  const asking = new Set<string>();
  let before: readonly Row[] = [];

  /** In the background: right after Millwright was killed an answer may take seconds. */
  async function ask(machine: Machine): Promise<void> {
    const { name, uid } = machine.metadata;
    if (asking.has(name) || !demo.millwright.isReady) return;
    asking.add(name);
    const id = workflowId(installation, 'Machine', { dialect: 'gardener', namespace, name, uid });
    const answer = await describeWorkflow<MachineDescription>(demo.temporal, id).catch(() => undefined);
    asking.delete(name);
    if (answer?.state !== 'open') return;
    const { doing, blockedOn } = answer.description;
    answers.set(name, blockedOn === undefined ? doing : `${doing}, blocked on ${blockedOn}`);
  }

  async function look(): Promise<Row[]> {
    const { items } = await demo.kube.list(machines, { namespace });
    return items.map((machine, i) => {
      const row = toRow(machine, answers.get(machine.metadata.name) ?? '');
      const wasAtRest = before.some(({ name, doing }) => name === row.name && doing === 'running');
      if (i < maxRows && !(row.phase === 'Running' && wasAtRest)) void ask(machine);
      return row;
    });
  }

  async function show(): Promise<void> {
    const rows = await look();
    if (screen.isTerminal) screen.paint(toTable(rows, await summary(demo, rows)));
    else
      for (const line of changes(before, rows)) screen.print(`${((Date.now() - since) / 1000).toFixed(1)} s  ${line}`);
    before = rows;
  }

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      await show().catch(() => undefined); // a busy server is asked again
      await sleep(everyMs, undefined, { signal: stopping.signal }).catch(() => undefined);
    }
  }

  const running = run();
  return async () => {
    stopping.abort();
    await running;
  };
}

function toRow({ metadata, status }: Machine, doing: string): Row {
  const phase = status?.currentStatus?.phase || '(new)';
  return { name: metadata.name, phase, node: metadata.labels?.node ?? '', doing };
}

async function summary({ cloud, millwright }: Demo, rows: readonly Row[]): Promise<string> {
  const process = millwright.isReady ? 'is up' : 'is down';
  const wanted = cloud ? 'Running' : 'Available'; // in a cloud of the user no Node joins
  const count = rows.filter(({ phase }) => phase === wanted).length;
  const machines = `${count} of ${rows.length} machines ${wanted}`;
  if (!cloud) return `${machines} · Millwright ${process}`;
  const { vmsNow, vmsEver } = await cloud.stats();
  return `${machines} · ${vmsNow} VMs, ${vmsEver} ever · Millwright ${process}`;
}

function toTable(rows: readonly Row[], title: string): string[] {
  const cells = rows.slice(0, maxRows).map(({ name, phase, node, doing }) => [name, phase, node || '-', doing]);
  return [
    '',
    title,
    '',
    ...columns([['MACHINE', 'PHASE', 'NODE', 'DOING'], ...cells]),
    ...(rows.length > maxRows ? [`and ${rows.length - maxRows} more`] : []),
  ];
}

function changes(before: readonly Row[], rows: readonly Row[]): string[] {
  const lines = new Set(before.map(toLine));
  const gone = before.filter(({ name }) => !rows.some((row) => row.name === name));
  return [...rows.map(toLine).filter((line) => !lines.has(line)), ...gone.map(({ name }) => `${name}  gone`)];
}

function toLine({ name, phase, node, doing }: Row): string {
  return [name, phase, node && `node ${node}`, doing].filter(Boolean).join('  ');
}
