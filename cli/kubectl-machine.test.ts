import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
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
      ...[
        'get',
        'describe',
        'stuck',
        'doctor',
        'timeline',
        'retry',
        'drain',
        'rollout',
        'replay',
        'sweep',
        'uninstall',
        'version',
        'options',
        'help',
      ],
    ]);
  });

  it('takes the kubeconfig that kubectl takes', async () => {
    expect(await machine('rollout', 'history', 'pool')).toContain(join(folder, '.kube/config'));
  });

  it('asks in the namespace of the current context, or in the one that is given', async () => {
    const paths: string[] = [];
    const server = createServer(({ url = '' }, response) => {
      paths.push(url);
      if (url === '/version') return response.end(JSON.stringify({ gitVersion: 'v1.34.0' }));
      const status = {
        apiVersion: 'v1',
        kind: 'Status',
        status: 'Failure',
        code: 404,
        reason: 'NotFound',
        message: 'gone',
      };
      return response.writeHead(404, { 'content-type': 'application/json' }).end(JSON.stringify(status));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    await mkdir(join(folder, '.kube'));
    const config = {
      'current-context': 'here',
      contexts: [{ name: 'here', context: { cluster: 'one', namespace: 'team' } }],
      clusters: [{ name: 'one', cluster: { server: `http://127.0.0.1:${port}` } }],
    };
    await writeFile(join(folder, '.kube/config'), JSON.stringify(config));

    await machine('rollout', 'history', 'pool');
    await machine('rollout', 'history', 'pool', '-n', 'other');
    server.close();

    const asked = paths.flatMap((path) => /namespaces\/(\w+)\//.exec(path)?.[1] ?? []);
    expect(asked).toEqual(['team', 'other']);
  });
});
