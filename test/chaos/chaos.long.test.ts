/** A random life of two minutes breaks no promise. */
import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { expect, it } from '@jest/globals';
import { findFaketime } from './clock.ts';

/**
 * With a backup of each database before the first act, it restores each of them. After a change of the acts find such a
 * seed again.
 */
const seed = 9521;
const wanted = [
  'restore: restores temporal',
  'restore: restores etcd',
  'restore both: restores',
  'lose writes: the',
  'clock jump: the clock',
  'terminate a workflow: terminates',
  'kill a VM: the kubelet',
];

it('[invariant 1] [invariant 2] [invariant 4] [invariant 6] [invariant 8] [invariant 9] hold in two minutes of random acts, with restores of each database and of both at once', async () => {
  if (findFaketime() === undefined)
    throw new Error('libfaketime is not installed: install it (Debian: package faketime)');
  const { NODE_OPTIONS: _, ...env } = process.env;
  const args = ['test/chaos/main.ts', '--seed', `${seed}`, '--minutes', '2'];
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  const closed = new Promise((resolve) => child.once('close', resolve));
  const [code, output] = await Promise.all([closed, text(child.stdout)]);

  expect([code, output]).toEqual([0, expect.stringMatching(/^seed \d+: \d{2,} acts, 0 violations$/m)]);
  expect(wanted.filter((each) => !output.includes(each))).toEqual([]);
  expect(output).not.toMatch(/restore.*: did not end well/);
}, 1_800_000);
