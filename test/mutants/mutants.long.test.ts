/** Every mutant of the table is noticed by one of its tests. */
import { spawn } from 'node:child_process';
import { expect, it } from '@jest/globals';

it('the tests of every mutant notice it', async () => {
  const { NODE_OPTIONS: _, ...env } = process.env;
  const child = spawn(process.execPath, ['test/mutants/main.ts'], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  const lines: string[] = [];
  child.stdout.setEncoding('utf8').on('data', (text: string) => lines.push(text));
  const code = await new Promise((resolve) => child.once('close', resolve));
  const output = lines.join('');

  expect([code, output]).toEqual([0, expect.stringMatching(/^([6-9]\d|\d{3,}) mutants: \1 killed, 0 not$/m)]);
}, 3_600_000);
