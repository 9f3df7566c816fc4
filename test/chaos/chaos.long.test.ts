/** A random life of two minutes breaks no promise. */
import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { expect, it } from '@jest/globals';

it('[invariant 1] [invariant 2] [invariant 6] [invariant 8] [invariant 9] hold in two minutes of random acts', async () => {
  const { NODE_OPTIONS: _, ...env } = process.env;
  const args = ['test/chaos/main.ts', '--seed', '1', '--minutes', '2'];
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  const closed = new Promise((resolve) => child.once('close', resolve));
  const [code, output] = await Promise.all([closed, text(child.stdout)]);

  expect([code, output]).toEqual([0, expect.stringMatching(/^seed 1: \d{2,} acts, 0 violations$/m)]);
}, 1_800_000);
