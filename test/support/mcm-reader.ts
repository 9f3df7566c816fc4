/** How machine-controller-manager (MCM) reads what Millwright leaves: test/mcm/reader, which is built with Go once. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { json } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { findOwnProgram } from '../../deploy/local/servers.ts';

const module = fileURLToPath(new URL('../mcm/', import.meta.url));

/** What MCM reads of an object: see `answer` in test/mcm/reader/main.go. */
export interface McmReading {
  readonly kind: string;
  readonly name: string;
  readonly problems: readonly string[];
  readonly step?: string;
  readonly code?: string;
  readonly errorCode?: string;
  readonly isFailed?: boolean;
  readonly isMarked?: boolean;
  readonly doomed?: readonly string[];
  readonly template?: object;
  readonly holder?: string;
}

/** The path of the program. Builds it at the first call on a machine. */
export function findMcmReader(): Promise<string> {
  return findOwnProgram({ name: 'mcm-reader', module, folder: 'reader', minutes: 2 });
}

/** Has MCM's own code read the objects, each with its kind. */
export async function readAsMcm(objects: readonly object[]): Promise<McmReading[]> {
  const reader = spawn(await findMcmReader(), { stdio: ['pipe', 'pipe', 'inherit'] });
  reader.stdin.end(JSON.stringify(objects));
  const [answers, [code]] = await Promise.all([json(reader.stdout), once(reader, 'close')]);
  if (code !== 0) throw new Error(`the reader has ended with ${code}`);
  return answers as McmReading[];
}
