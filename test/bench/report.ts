/** The figures of one bench, for people and for machines. */
import type { Requests } from './requests.ts';
import type { Usage } from './usage.ts';

/** One measurement. */
export interface Figures {
  readonly scenario: string;
  readonly machines: number;
  readonly wallSeconds: number;
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
  const { scenario, machines, wallSeconds, processes, bareWorkflowMs, requests, historyEvents } = figures;
  const perMachine = (total: number) => `${total} (${(total / machines).toFixed(1)} a machine)`;
  const rows: [string, string][] = [
    ['wall time', `${wallSeconds.toFixed(1)} s`],
    ...Object.entries(processes).map(([name, { cpuSeconds, peakMiB }]): [string, string] => [
      name,
      `${cpuSeconds.toFixed(1)} s of CPU (${((1_000 * cpuSeconds) / machines).toFixed(1)} ms a machine), ${peakMiB.toFixed(0)} MiB at most`,
    ]),
  ];
  if (bareWorkflowMs)
    rows.push(['Temporal for a workflow that does nothing', `${bareWorkflowMs.toFixed(1)} ms of CPU`]);
  if (requests) {
    rows.push(['requests without Events', perMachine(requests.total)], ['of them writes', perMachine(requests.writes)]);
    const kinds = Object.entries(requests.byKind).toSorted(([, a], [, b]) => b - a);
    rows.push(...kinds.map(([kind, count]): [string, string] => [`  ${kind}`, `${count}`]));
    rows.push(['requests for Events', perMachine(requests.events)]);
  }
  if (historyEvents) {
    rows.push(['history events of machines', perMachine(historyEvents.machines)]);
    rows.push(['history events of owners', perMachine(historyEvents.owners)]);
  }
  const width = Math.max(...rows.map(([name]) => name.length));
  return [`${scenario} ${machines}`, '', ...rows.map(([name, value]) => `${name.padEnd(width)}  ${value}`)].join('\n');
}
