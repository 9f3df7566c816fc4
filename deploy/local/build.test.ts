import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { lock } from './build.ts';

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'millwright-lock-'));
});
afterAll(() => rm(dir, { recursive: true }));

it('lets one build at a time go on', async () => {
  const file = join(dir, 'held');
  const steps: string[] = [];
  const release = await lock(file, 'first');

  const second = lock(file, 'second').then((released) => {
    steps.push('second');
    return released();
  });
  await new Promise((resolve) => setImmediate(resolve));
  steps.push('first');
  await release();
  await second;

  expect(steps).toEqual(['first', 'second']);
});

it('takes the lock of a process that has ended', async () => {
  const file = join(dir, 'left');
  await writeFile(file, '999999999');

  const release = await lock(file, 'next');

  await release();
});
