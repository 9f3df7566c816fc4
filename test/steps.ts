import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { spawnGuarded } from '../deploy/local/process.ts';

/** What came out of a step: a jest run counts its tests, any other step counts as one. */
export interface Outcome {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

/** What can be said of the sources without running them, side by side. */
export async function checks(): Promise<readonly Outcome[]> {
  return Promise.all([
    runStep('types', ['node_modules/typescript/bin/tsc', '-p', '.']),
    runStep('lint', ['node_modules/oxlint/bin/oxlint', '--type-aware']),
    runStep('format', ['node_modules/@biomejs/biome/bin/biome', 'check']),
    runStep('generated files', ['deploy/generators/main.ts', '--check']),
  ]);
}

/** Runs a script with our Node and says how it went; its output is shown only when it fails. */
export async function runStep(name: string, args: readonly string[]): Promise<Outcome> {
  const since = Date.now();
  const child = spawnGuarded('TERM', process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  if (!child.stdout || !child.stderr) throw new Error(`${name}: no output to read`);
  const [[code], ...output] = await Promise.all([once(child, 'close'), text(child.stdout), text(child.stderr)]);

  const seconds = ((Date.now() - since) / 1000).toFixed(1);
  console.log(code === 0 ? `✓ ${name} (${seconds} s)` : `✗ ${name} (${seconds} s)\n${output.join('')}`);
  return { passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1, skipped: 0 };
}
