import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { isRunning } from '../../test/support/is-running.ts';
import { until } from '../../test/support/until.ts';
import { startServer } from './process.ts';

describe('startServer', () => {
  const { signal } = new AbortController();
  let folder: string;
  let logFile: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millwright-process-'));
    logFile = join(folder, 'log');
  });

  afterEach(() => rm(folder, { recursive: true, force: true }));

  it('shows what the server logged before it failed', async () => {
    const command = { name: 'broken', executable: 'sh', args: ['-c', 'echo no such flag; exit 3'], logFile };

    const starting = startServer({ ...command, ready: async () => false }, signal);

    await expect(starting).rejects.toThrow('broken has exited (3) before it was ready:\n  no such flag');
  });

  it('ends a server that does not obey', async () => {
    const script = `trap '' TERM; echo ready; while :; do sleep 0.1; done`;
    const ready = async () => (await readFile(logFile, 'utf8')).includes('ready');
    const server = await startServer(
      { name: 'stubborn', executable: 'sh', args: ['-c', script], logFile, ready },
      signal,
    );

    await server.kill();

    expect(() => process.kill(server.pid, 0)).toThrow('ESRCH');
  });

  it('stops waiting when its signal aborts', async () => {
    const command = { name: 'slow', executable: 'sleep', args: ['600'], logFile };
    const aborting = new AbortController();

    const starting = startServer({ ...command, ready: async () => false }, aborting.signal);
    aborting.abort(new Error('no longer needed'));

    await expect(starting).rejects.toThrow('no longer needed');
  });
});

describe('spawnGuarded', () => {
  it('ends the children of a detached program, too, when this process is killed', async () => {
    const guarded = `
      const { spawnGuarded } = await import(${JSON.stringify(join(import.meta.dirname, 'process.ts'))});
      spawnGuarded('KILL', 'sh', ['-c', 'sleep 600 & echo $!; wait'], {
        stdio: ['ignore', 'inherit', 'inherit'],
        detached: true,
      });`;
    const parent = spawn(process.execPath, ['--input-type=module', '--eval', guarded], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [pid] = await once(parent.stdout, 'data');

    parent.kill('SIGKILL');

    await until('the child of the program is gone', () => !isRunning(Number(pid)));
  });
});

describe('bootstrap.js', () => {
  it('asks its script to stop when it is killed itself', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'millwright-bootstrap-'));
    const [script, stopped] = [join(folder, 'script.js'), join(folder, 'stopped')];
    await writeFile(
      script,
      `const { writeFileSync } = require('node:fs');
       process.on('SIGTERM', () => { writeFileSync(${JSON.stringify(stopped)}, ''); process.exit(); });
       setInterval(() => {}, 1000);
       console.log('running');`,
    );
    const child = spawn(process.execPath, ['deploy/local/bootstrap.js', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(child.stdout, 'data');

    child.kill('SIGKILL');

    await until('the child has noticed it', () => existsSync(stopped));
    await rm(folder, { recursive: true });
  });

  it('passes the exit code on', async () => {
    const child = spawn(process.execPath, ['deploy/local/bootstrap.js', '-e', 'process.exit(7)'], { stdio: 'inherit' });

    expect(await once(child, 'exit')).toEqual([7, null]);
  });
});
