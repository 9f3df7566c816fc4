/** What processes use, as Linux counts it. */
import { readFile, writeFile } from 'node:fs/promises';

/** Processes to measure: ids by name. Those under one name are added up. */
export type Processes = Readonly<Record<string, readonly number[]>>;

/** What the processes of one name have used. */
export interface Usage {
  readonly cpuSeconds: number;
  /** The most memory that was resident at once, MiB. */
  readonly peakMiB: number;
  /** What was resident at the end, MiB. */
  readonly endMiB: number;
}

/** `/proc/<pid>/stat` counts in these: 100 a second on Linux. */
const cpuTickSeconds = 0.01;

/**
 * Starts to measure. The returned function answers with what was used since: of a process that has started in between
 * everything, of one that has ended nothing.
 */
export async function startUsage(processes: () => Processes): Promise<() => Promise<Record<string, Usage>>> {
  const pids = Object.values(processes()).flat();
  await Promise.all(pids.map((pid) => writeFile(`/proc/${pid}/clear_refs`, '5'))); // the peak starts again
  const before = new Map(await Promise.all(pids.map(async (pid) => [pid, await cpuSecondsOf(pid)] as const)));
  return async () => {
    const used = Object.entries(processes()).map(async ([name, ids]) => {
      const each = ids.map(async (pid) => ({
        cpuSeconds: (await cpuSecondsOf(pid)) - (before.get(pid) ?? 0),
        ...(await memoryOf(pid)),
      }));
      return [name, total(await Promise.all(each))] as const;
    });
    return Object.fromEntries(await Promise.all(used));
  };
}

function total(each: readonly Usage[]): Usage {
  return {
    cpuSeconds: each.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0),
    peakMiB: each.reduce((sum, { peakMiB }) => sum + peakMiB, 0),
    endMiB: each.reduce((sum, { endMiB }) => sum + endMiB, 0),
  };
}

async function cpuSecondsOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' '); // the name before may have blanks
  const [user = 0, system = 0] = fields.slice(11, 13).map(Number);
  return (user + system) * cpuTickSeconds;
}

async function memoryOf(pid: number): Promise<Pick<Usage, 'peakMiB' | 'endMiB'>> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  const inMiB = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) / 1024;
  return { peakMiB: inMiB('VmHWM'), endMiB: inMiB('VmRSS') };
}
