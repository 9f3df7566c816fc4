import { readFileSync } from 'node:fs';

/** Whether a process runs. One that has ended and that nobody has waited for has no command line. */
export function isRunning(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8') !== '';
  } catch {
    return false;
  }
}
