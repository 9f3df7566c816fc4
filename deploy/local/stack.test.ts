import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import { until } from '../../test/support/until.ts';
import { findServer } from './servers.ts';
import { type Stack, startStack } from './stack.ts';

describe('a stack', () => {
  let stack: Stack;

  beforeAll(async () => {
    stack = await startStack({ clusters: 2 });
  });

  afterAll(() => stack?.stop());

  it('has clusters that share nothing', async () => {
    const [first = '', second = ''] = stack.clusters.map((cluster) => cluster.kubeconfig);
    await kubectl(first, 'create', 'namespace', 'only-in-the-first');

    expect(await kubectl(first, 'get', 'namespaces', '-o', 'name')).toContain('only-in-the-first');
    expect(await kubectl(second, 'get', 'namespaces', '-o', 'name')).not.toContain('only-in-the-first');
  });

  it('keeps its kubeconfigs from other users', () => {
    expect(statSync(stack.kubeconfig).mode & 0o777).toBe(0o600);
  });

  it('shows the web interface of Temporal', async () => {
    expect((await fetch(stack.uiUrl)).status).toBe(200);
  });

  it('gets its objects back after a server was killed', async () => {
    await kubectl(stack.kubeconfig, 'create', 'namespace', 'kept');
    const [{ apiServer }] = stack.clusters;
    const before = apiServer.pid;
    await apiServer.kill('SIGKILL');
    await stack.etcd.kill('SIGKILL');
    await stack.etcd.restart();
    await apiServer.restart();

    expect(apiServer.pid).not.toBe(before);
    expect(await kubectl(stack.kubeconfig, 'get', 'namespaces', '-o', 'name')).toContain('kept');
  });
});

/** What the process below says of its stack. */
const Announcement = z.object({ dir: z.string(), pids: z.array(z.int()).length(3) });

const owner = `
  import { startStack } from './deploy/local/stack.ts';
  const { dir, temporal, etcd, clusters } = await startStack();
  console.log(JSON.stringify({ dir, pids: [temporal, etcd, clusters[0].apiServer].map((server) => server.pid) }));
`;

describe('a stack whose process is killed', () => {
  it('leaves no server and no folder behind', async () => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', owner], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    try {
      const [line] = await once(createInterface(child.stdout), 'line');
      const { dir, pids } = Announcement.parse(JSON.parse(line));
      expect(pids.filter(isAlive)).toEqual(pids);
      expect(existsSync(dir)).toBe(true);

      child.kill('SIGKILL');

      await until('its servers and its folder are gone', () => !pids.some(isAlive) && !existsSync(dir));
    } finally {
      child.kill('SIGKILL');
    }
  });
});

async function kubectl(kubeconfig: string, ...args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(await findServer('kubectl'), ['--kubeconfig', kubeconfig, ...args]);
  return stdout;
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
