/** How Argo CD and Flux judge an object: test/health, which is built with Go once. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { json } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { findOwnProgram } from '../../deploy/local/servers.ts';

const module = fileURLToPath(new URL('../health/', import.meta.url));

/** A check in Lua, or an expression in CEL, and what it is about. */
export type HealthQuestion = { readonly object: object } & (
  | { readonly lua: string; readonly useOpenLibs: boolean }
  | { readonly cel: string }
);

/** See `answer` in test/health/main.go. */
export interface HealthAnswer {
  readonly error?: string;
  readonly status?: string;
  readonly message?: string;
  readonly is: boolean;
}

/** The path of the program. Builds it at the first call on a machine. */
export function findHealth(): Promise<string> {
  return findOwnProgram({ name: 'health', module, minutes: 1 });
}

/** The answers, in the order of the questions. */
export async function judgeHealth(questions: readonly HealthQuestion[]): Promise<HealthAnswer[]> {
  const judge = spawn(await findHealth(), { stdio: ['pipe', 'pipe', 'inherit'] });
  judge.stdin.end(JSON.stringify(questions));
  const [answers, [code]] = await Promise.all([json(judge.stdout), once(judge, 'close')]);
  if (code !== 0) throw new Error(`test/health has ended with ${code}`);
  return answers as HealthAnswer[];
}
