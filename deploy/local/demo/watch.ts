/** Shows the machines while they change. */
import { setTimeout as sleep } from 'node:timers/promises';
import { machines } from '../../../api/gardener/resources.ts';
import type { Machine } from '../../../api/gardener/schema/machine.ts';
import { describeWorkflow } from '../../../temporal/describe.ts';
import { workflowId } from '../../../temporal/workflows.ts';
import type { MachineDescription } from '../../../workflows/machine/messages.ts';
import type { Screen } from './screen.ts';
import { type Demo, installation, namespace } from './set-up.ts';

/** One machine, in words. */
interface Row {
  readonly name: string;
  readonly phase: string;
  readonly node: string;
  /** What its workflow says that it is doing. */
  readonly doing: string;
}

const everyMs = 400;
/** More machines than this are counted instead. */
const maxRows = 12;

/** Watches until the returned function is called: a table on a terminal, else a line for each change. */
export function watchMachines(demo: Demo, screen: Screen): () => Promise<void> {
  const since = Date.now();
  const stopping = new AbortController();
  const answers = new Map<string, string>();
  const asking = new Set<string>();
  let before: readonly Row[] = [];

  /** In the background, as an answer may take seconds when Millwright has just been killed. */
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
      await show().catch(() => undefined); // a server that is busy is asked again
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
  const { vmsNow, vmsEver } = await cloud.stats();
  const running = rows.filter(({ phase }) => phase === 'Running').length;
  const process = millwright.isReady ? 'is up' : 'is down';
  return `${running} of ${rows.length} machines Running · ${vmsNow} VMs, ${vmsEver} ever · Millwright ${process}`;
}

function toTable(rows: readonly Row[], title: string): string[] {
  const cells = rows.slice(0, maxRows).map(({ name, phase, node, doing }) => [name, phase, node || '-', doing]);
  const lines = [['MACHINE', 'PHASE', 'NODE', 'WHAT IT IS DOING'], ...cells];
  const width = (column: number) => Math.max(...lines.map((line) => line[column]?.length ?? 0));
  const widths = [width(0), width(1), width(2)];
  return [
    '',
    title,
    '',
    ...lines.map((line) => line.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join('  ')),
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
