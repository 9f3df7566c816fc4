/** The clock of Millwright's processes, moved by libfaketime where that is installed (Debian: package faketime). */
import { globSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';

export interface Clock {
  /** For the processes whose clock this is. */
  readonly env: Readonly<Record<string, string>>;
  /** Moves the clock so far from the real one, s. */
  jump(seconds: number): Promise<void>;
}

/** Path of libfaketime; undefined: it is not installed. */
export function findFaketime(): string | undefined {
  return globSync('/usr/lib/*/faketime/libfaketimeMT.so.1')[0];
}

/**
 * The clock of processes that are started from now on; undefined: libfaketime is not installed.
 * @param file that it reads
 */
export async function createClock(file: string): Promise<Clock | undefined> {
  const library = findFaketime();
  if (library === undefined) return undefined;
  const jump = (seconds: number) => writeFile(file, `${seconds < 0 ? '' : '+'}${seconds}\n`);
  await jump(0);
  // Timers follow the monotonic clock, which no administrator can move.
  const settings = { FAKETIME_TIMESTAMP_FILE: file, FAKETIME_NO_CACHE: '1', FAKETIME_DONT_FAKE_MONOTONIC: '1' };
  return { env: { LD_PRELOAD: library, ...settings }, jump };
}
