import { execFile } from 'node:child_process';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';

const plugin = fileURLToPath(new URL('kubectl-machine.ts', import.meta.url));

describe('the plugin kubectl-machine, linked into a directory', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'kubectl-machine-'));
    await symlink(plugin, join(folder, 'kubectl-machine'));
  });
  afterAll(() => rm(folder, { recursive: true }));

  async function machine(...args: string[]): Promise<string> {
    const { KUBECONFIG: _, ...env } = process.env;
    const run = promisify(execFile)(process.execPath, [join(folder, 'kubectl-machine'), ...args], {
      env: { ...env, HOME: folder, NODE_OPTIONS: '' },
    });
    return run.then(
      ({ stdout }) => stdout,
      ({ stderr }: { stderr: string }) => stderr,
    );
  }

  it('has the commands that are no servers', async () => {
    const help = await machine('--help');

    expect(help).toMatch(/^Usage: kubectl machine /);
    expect([...help.matchAll(/^ {2}([a-z]+) /gm)].map(([, name]) => name)).toEqual([
      ...['describe', 'rollout', 'replay', 'sweep', 'help'],
    ]);
  });

  it('takes the kubeconfig that kubectl takes', async () => {
    expect(await machine('rollout', 'history', 'pool')).toContain(join(folder, '.kube/config'));
  });
});
