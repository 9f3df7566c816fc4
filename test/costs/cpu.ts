/** CPU time of processes, from Linux' /proc. Elsewhere every figure is 0. */
import { readdirSync, readFileSync } from 'node:fs';

/** /proc counts in hundredths of a second on every architecture that Node supports. */
const ticksPerSecond = 100;

interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly own: number;
  readonly ended: number;
}

/** CPU seconds of a process: `own` of its threads, `ended` of its children that have ended, with theirs. */
export function cpuOf(pid: number | 'self'): { readonly own: number; readonly ended: number } {
  return read(pid) ?? { own: 0, ended: 0 };
}

/**
 * CPU seconds of all descendants of a process, but for its children that `isLeftOut` by their command lines, and
 * theirs.
 */
export function cpuBelow(root: number, isLeftOut: (commandLine: string) => boolean): number {
  const byParent = Map.groupBy(all(), ({ parent }) => parent);
  const below = (pid: number): number =>
    (byParent.get(pid) ?? []).reduce((sum, child) => sum + child.own + child.ended + below(child.pid), 0);
  return (byParent.get(root) ?? [])
    .filter(({ pid }) => !isLeftOut(commandLineOf(pid)))
    .reduce((sum, child) => sum + child.own + child.ended + below(child.pid), 0);
}

function all(): Process[] {
  let names: string[];
  try {
    names = readdirSync('/proc');
  } catch {
    return [];
  }
  return names.filter((name) => /^\d+$/.test(name)).flatMap((name) => read(Number(name)) ?? []);
}

function commandLineOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return ''; // it has ended in between
  }
}

/** proc(5): after the name in brackets come state, ppid, …, utime, stime, cutime and cstime as the 12th to the 15th. */
function read(pid: number | 'self'): Process | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const seconds = (index: number) => Number(fields[index]) / ticksPerSecond;
    return {
      pid: Number.parseInt(text, 10),
      parent: Number(fields[1]),
      own: seconds(11) + seconds(12),
      ended: seconds(13) + seconds(14),
    };
  } catch {
    return undefined;
  }
}
