/**
 * Which cluster and namespace a command uses, compared with what kubectl makes of the same files, variables and flags.
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { parse, stringify } from 'yaml';
import { machines } from '../../api/gardener/resources.ts';
import { findServer } from '../../deploy/local/servers.ts';
import { loadKubeconfig } from '../../kube/config.ts';
import { newNamespace, testClient, testKubeconfig } from '../support/kube.ts';

const run = promisify(execFile);
const main = fileURLToPath(new URL('../../cli/main.ts', import.meta.url));
/** A namespace in each of two clusters, with a Machine that has its name. */
const namespaces: string[] = [];
let home: string;
let kubectl: string;

beforeAll(async () => {
  kubectl = await findServer('kubectl');
  home = await mkdtemp(join(tmpdir(), 'millwright-kubectl-'));
  await mkdir(join(home, '.kube/tokens'), { recursive: true });
  const files = [];
  for (const cluster of [1, 2] as const) {
    const path = testKubeconfig(cluster);
    const client = testClient(loadKubeconfig(path));
    const namespace = await newNamespace(client);
    const spec = { class: { kind: 'MachineClass', name: 'missing' } };
    await client.create(machines, { metadata: { namespace, name: namespace }, spec });
    await client.close();
    namespaces.push(namespace);
    const config = parse(await readFile(path, 'utf8'));
    // Beside the file that names it, and not beside the others.
    await writeFile(join(home, '.kube/tokens', `${cluster}`), config.users[0].user.token);
    files.push({
      clusters: [{ ...config.clusters[0], name: `cluster-${cluster}` }],
      users: [{ name: `user-${cluster}`, user: { tokenFile: `tokens/${cluster}` } }],
      contexts: [
        { name: `context-${cluster}`, context: { cluster: `cluster-${cluster}`, user: `user-${cluster}`, namespace } },
      ],
    });
  }
  const [first, second] = files;
  const write = (name: string, content: object) =>
    writeFile(join(home, name), stringify({ apiVersion: 'v1', kind: 'Config', ...content }));
  await write('.kube/config', { ...first, 'current-context': 'context-1' });
  await write('.kube/second', { ...second, 'current-context': 'context-2' });
  await write('.kube/same-names', {
    clusters: [{ name: 'cluster-2', cluster: { server: 'https://never.example.com' } }],
    contexts: [{ name: 'both', context: { cluster: 'cluster-2', user: 'user-2', namespace: namespaces[1] } }],
    'current-context': 'both',
  });
  await write('only-current', { 'current-context': 'context-2' });
});

afterAll(() => rm(home, { recursive: true }));

const file = (name: string) => join(home, name);

describe('kubeconfig and context', () => {
  it.each([
    ['~/.kube/config', () => [], () => [], 0],
    ['--context', () => ['.kube/config', '.kube/second'], () => ['--context', 'context-2'], 1],
    ['the first current context of KUBECONFIG', () => ['.kube/second', '.kube/config'], () => [], 1],
    [
      'a file with a current context alone',
      () => ['only-current', 'missing', '.kube/config', '.kube/second'],
      () => [],
      1,
    ],
    ['the first entry of a name', () => ['.kube/second', '.kube/same-names'], () => ['--context', 'both'], 1],
    ['--kubeconfig before KUBECONFIG', () => ['.kube/second'], () => ['--kubeconfig', file('.kube/config')], 0],
  ] as const)('are those of kubectl: %s', async (_, paths, flags, cluster) => {
    const { KUBECONFIG: __, ...inherited } = process.env;
    const list = paths().map(file).join(':');
    const env = { ...inherited, HOME: home, NODE_OPTIONS: '', ...(list !== '' && { KUBECONFIG: list }) };

    const [theirs, ours] = await Promise.all([
      run(kubectl, ['get', 'machines.machine.sapcloud.io', '-o', 'name', ...flags()], { env }),
      run(process.execPath, [main, 'get', 'machines', '-o', 'json', ...flags()], { env }),
    ]);

    const name = namespaces[cluster];
    expect(theirs.stdout).toBe(`machine.machine.sapcloud.io/${name}\n`);
    expect(JSON.parse(ours.stdout)).toMatchObject([{ name }]);
  });

  it('are refused with the flag and what there is', async () => {
    const env = { HOME: home, PATH: process.env['PATH'] };
    const failing = run(process.execPath, [main, 'get', 'machines', '--context', 'third'], { env });

    await expect(failing).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/--context is 'third': give one of context-1, which/),
    });
  });
});
