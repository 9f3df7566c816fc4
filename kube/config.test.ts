import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ContextError, loadKubeconfig } from './config.ts';

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'millwright-config-'));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

/** Writes a kubeconfig and returns its path. */
async function kubeconfig(user: object, cluster: object = {}, namespace?: string): Promise<string> {
  const path = join(dir, 'kubeconfig');
  const config = {
    'current-context': 'here',
    contexts: [{ name: 'here', context: { cluster: 'it', user: 'me', namespace } }],
    clusters: [{ name: 'it', cluster: { server: 'https://example.com:6443/', ...cluster } }],
    users: [{ name: 'me', user }],
  };
  await writeFile(path, JSON.stringify(config));
  return path;
}

describe('loadKubeconfig', () => {
  it('reads server, namespace, token and the settings of TLS', async () => {
    const certificate = { 'certificate-authority-data': Buffer.from('CA').toString('base64') };
    const tls = { ...certificate, 'tls-server-name': 'kubernetes', 'insecure-skip-tls-verify': true };
    const access = loadKubeconfig(await kubeconfig({ token: 'secret', as: 'jane' }, tls, 'machines'));

    expect(access).toMatchObject({ server: 'https://example.com:6443', namespace: 'machines' });
    expect(await access.credentials()).toEqual({
      headers: { authorization: 'Bearer secret', 'impersonate-user': 'jane' },
      tls: { ca: Buffer.from('CA'), servername: 'kubernetes', rejectUnauthorized: false },
    });
  });

  it('finds certificates next to the kubeconfig and reads them again each time', async () => {
    await writeFile(join(dir, 'client.crt'), 'old');
    await writeFile(join(dir, 'client.key'), 'key');
    const access = loadKubeconfig(await kubeconfig({ 'client-certificate': 'client.crt', 'client-key': 'client.key' }));
    expect((await access.credentials()).tls).toEqual({ cert: Buffer.from('old'), key: Buffer.from('key') });

    await writeFile(join(dir, 'client.crt'), 'new');

    expect((await access.credentials()).tls.cert).toEqual(Buffer.from('new'));
  });

  it('prefers a token file to a token and reads it again each time', async () => {
    const tokenFile = join(dir, 'token');
    await writeFile(tokenFile, 'first\n');
    const access = loadKubeconfig(await kubeconfig({ tokenFile, token: 'never' }));
    expect((await access.credentials()).headers).toEqual({ authorization: 'Bearer first' });

    await writeFile(tokenFile, 'second\n');

    expect((await access.credentials()).headers).toEqual({ authorization: 'Bearer second' });
  });

  it('keeps what an exec plugin issued until the server refuses it', async () => {
    const program = `
      const { apiVersion } = JSON.parse(process.env.KUBERNETES_EXEC_INFO);
      const token = apiVersion + '-' + process.hrtime.bigint();
      console.log(JSON.stringify({ apiVersion, kind: 'ExecCredential', status: { token } }));`;
    const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: process.execPath, args: ['-e', program] };
    const access = loadKubeconfig(await kubeconfig({ exec }));

    const first = await access.credentials();
    const second = await access.credentials();
    const third = await access.credentials({ refused: true });

    expect(first.headers.authorization).toMatch(/^Bearer client\.authentication\.k8s\.io\/v1-\d+$/);
    expect(second).toEqual(first);
    expect(third.headers.authorization).toMatch(/^Bearer client/);
    expect(third).not.toEqual(first);
  });

  it('names the problem of a file that cannot be used', async () => {
    expect(() => loadKubeconfig('/nowhere/kubeconfig')).toThrow('kubeconfig /nowhere/kubeconfig cannot be read');
    const proxied = await kubeconfig({}, { 'proxy-url': 'http://proxy' });
    expect(() => loadKubeconfig(proxied)).toThrow("cluster.proxy-url is 'http://proxy'");
    const ftp = await kubeconfig({}, { server: 'ftp://example.com' });
    expect(() => loadKubeconfig(ftp)).toThrow("cluster.server is 'ftp://example.com': give an http or https URL");
    const path = join(dir, 'other');
    await writeFile(path, 'not a kubeconfig');
    expect(() => loadKubeconfig(path)).toThrow('has no clusters');
  });

  it.each([
    [{ 'current-context': 'here' }, "current-context is 'here', which no context has as its name"],
    [{}, 'current-context is missing'],
  ])('names the command that chooses a context, where %j is all that a file says', async (given, problem) => {
    const path = join(dir, "somebody's contexts");
    const contexts = ['blue', 'green'].map((name) => ({ name, context: { cluster: 'c', user: 'u' } }));
    await writeFile(path, JSON.stringify({ clusters: [], contexts, ...given }));
    const quoted = `'${dir}/somebody'\\''s contexts'`;
    const fix = `run \`KUBECONFIG=${quoted} kubectl config use-context <name>\` with one of blue, green`;
    expect(() => loadKubeconfig(path)).toThrow(new ContextError(`kubeconfig ${path}: ${problem}: ${fix}`));
    await writeFile(path, JSON.stringify({ clusters: [], ...given }));
    expect(() => loadKubeconfig(path)).toThrow(
      new Error(`kubeconfig ${path}: ${problem}: add a context, the file has none`),
    );
  });

  it.each([
    [{ clusters: [] }, "context.cluster is 'c': add it to clusters, which has no entries"],
    [{ clusters: [{ name: 'a' }, { name: 'b' }] }, "context.cluster is 'c': give one of a, b, which clusters has"],
    [{ clusters: [{ name: 'c' }] }, "context.user is 'u': add it to users, which has no entries"],
  ])('names what a context lacks in %j', async (given, problem) => {
    const path = join(dir, 'context');
    const contexts = [{ name: 'blue', context: { cluster: 'c', user: 'u' } }];
    await writeFile(path, JSON.stringify({ contexts, 'current-context': 'blue', ...given }));
    expect(() => loadKubeconfig(path)).toThrow(new Error(`kubeconfig ${path}: in context 'blue', ${problem}`));
  });

  it.each([
    [{ contexts: [{ name: 'blue' }] }, "in context 'blue', context.cluster is '': give one of a, which clusters has"],
    [{ contexts: [{ name: 'blue', context: { cluster: 'a' } }] }, "cluster.server is '': give an http or https URL"],
  ])('names what an entry without content lacks: %j', async (given, problem) => {
    const path = join(dir, 'empty');
    await writeFile(path, JSON.stringify({ clusters: [{ name: 'a' }], 'current-context': 'blue', ...given }));
    expect(() => loadKubeconfig(path)).toThrow(new Error(`kubeconfig ${path}: ${problem}`));
  });

  it('reports that inClusterConfig needs a pod', () => {
    expect(() => loadKubeconfig('inClusterConfig')).toThrow('KUBERNETES_SERVICE_HOST is not set');
  });

  it('reports that inClusterConfig needs the token of the Pod', () => {
    Object.assign(process.env, { KUBERNETES_SERVICE_HOST: '10.0.0.1', KUBERNETES_SERVICE_PORT: '443' });
    try {
      expect(() => loadKubeconfig('inClusterConfig')).toThrow('set automountServiceAccountToken');
    } finally {
      delete process.env.KUBERNETES_SERVICE_HOST;
      delete process.env.KUBERNETES_SERVICE_PORT;
    }
  });
});
