/** The figures of one bench, for people and for machines. */
import type { Requests } from './requests.ts';
import type { Usage } from './usage.ts';

/** One measurement, and of what. */
export interface Figures extends Measurement {
  readonly scenario: string;
  /** Of all installations. */
  readonly machines: number;
  /** Left out where there is one, in a process as people run it. */
  readonly installations?: number;
}

export interface Measurement {
  readonly wallSeconds: number;
  /** How long parts of it took, s, by what they are. */
  readonly parts?: Readonly<Record<string, number>>;
  readonly processes: Readonly<Record<string, Usage>>;
  /** CPU of Temporal for a workflow that does nothing, ms: how fast the machine was. Left out where it is not known. */
  readonly bareWorkflowMs?: number;
  /** Left out where there is no audit log. */
  readonly requests?: Requests;
  /** Events in Temporal histories that were added. Left out where another controller ran. */
  readonly historyEvents?: { readonly machines: number; readonly owners: number };
}

/** A table. What is added up over machines is divided by their number, too. */
export function toTable(figures: Figures): string {
  const {
    scenario,
    machines,
    installations,
    wallSeconds,
    parts = {},
    processes,
    bareWorkflowMs,
    requests,
    historyEvents,
  } = figures;
  const perMachine = (total: number) => `${total} (${(total / machines).toFixed(1)} a machine)`;
  const rows: [string, string][] = [
    ['wall time', `${wallSeconds.toFixed(1)} s`],
    ...Object.entries(parts).map(([part, seconds]): [string, string] => [`  ${part}`, `${seconds.toFixed(1)} s`]),
    ...Object.entries(processes).map(([name, { cpuSeconds, peakMiB, endMiB }]): [string, string] => [
      name,
      `${cpuSeconds.toFixed(1)} s of CPU (${((1_000 * cpuSeconds) / machines).toFixed(1)} ms a machine), ${peakMiB.toFixed(0)} MiB at most, ${endMiB.toFixed(0)} at the end`,
    ]),
  ];
  if (bareWorkflowMs)
    rows.push(['Temporal for a workflow that does nothing', `${bareWorkflowMs.toFixed(1)} ms of CPU`]);
  if (requests) {
    rows.push(['requests without Events and Leases', perMachine(requests.total)]);
    rows.push(['of them writes', perMachine(requests.writes)]);
    const kinds = Object.entries(requests.byKind).toSorted(([, a], [, b]) => b - a);
    rows.push(...kinds.map(([kind, count]): [string, string] => [`  ${kind}`, `${count}`]));
    rows.push(['requests for Events', perMachine(requests.events)]);
    rows.push(['requests for Leases', `${requests.leases}`]);
  }
  if (historyEvents) {
    rows.push(['history events of machines', perMachine(historyEvents.machines)]);
    rows.push(['history events of owners', perMachine(historyEvents.owners)]);
  }
  const where = installations === undefined ? '' : ` (installations: ${installations})`;
  return toLines(`${scenario} ${machines}${where}`, rows);
}

/** What each further installation takes: the difference between measurements of few and of many. */
export function toGrowth(few: Figures, many: Figures): string {
  const installations = (many.installations ?? 0) - (few.installations ?? 0);
  const rows = Object.entries(many.processes).map(([name, { cpuSeconds, endMiB }]): [string, string] => {
    const before = few.processes[name];
    const cpu = (cpuSeconds - (before?.cpuSeconds ?? 0)) / installations;
    const memory = (endMiB - (before?.endMiB ?? 0)) / installations;
    return [name, `${cpu.toFixed(2)} s of CPU, ${memory.toFixed(1)} MiB at the end`];
  });
  return toLines('each further installation', rows);
}

function toLines(title: string, rows: readonly [string, string][]): string {
  const width = Math.max(...rows.map(([name]) => name.length));
  return [title, '', ...rows.map(([name, value]) => `${name.padEnd(width)}  ${value}`)].join('\n');
}
