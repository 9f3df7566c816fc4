import { sign } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { parse, stringify } from 'yaml';
import { defineResource, type KubeObject } from '../../api/objects.ts';
import type { KubeClient } from '../../kube/client.ts';
import { loadKubeconfig } from '../../kube/config.ts';
import { configMaps } from '../../kube/core.ts';
import { startReflector } from '../../kube/reflector.ts';
import { startFaultProxy } from '../faults/proxy.ts';
import { inWords, newNamespace, recordingLogger, testClient, testKubeconfig } from '../support/kube.ts';
import { until } from '../support/until.ts';

const core = { group: '', version: 'v1', namespaced: true };
const serviceAccounts = defineResource<KubeObject>({ ...core, plural: 'serviceaccounts', kind: 'ServiceAccount' });
const rbac = { group: 'rbac.authorization.k8s.io', version: 'v1', namespaced: true };
const roles = defineResource<KubeObject & { rules: object[] }>({ ...rbac, plural: 'roles', kind: 'Role' });
const roleBindings = defineResource<KubeObject & { roleRef: object; subjects: object[] }>({
  ...rbac,
  plural: 'rolebindings',
  kind: 'RoleBinding',
});
/** How long after its expiry the API server still takes a token. */
const leewaySeconds = 60;

describe('a token of a service account that expires', () => {
  let direct: KubeClient;
  let dir: string;
  let namespace: string;
  let subject: KubeObject;
  let replaced: Awaited<ReturnType<typeof startBearer>>;
  let kept: typeof replaced;
  beforeAll(async () => {
    direct = testClient();
    dir = await mkdtemp(join(tmpdir(), 'millwright-token-'));
    namespace = await newNamespace(direct);
    subject = await createServiceAccount();
    await Promise.all(
      ['deleted', 'changed'].map((name) => direct.create(configMaps, { metadata: { namespace, name } })),
    );

    const token = await issueToken(9); // both have to list with it first, and 30 s later they read the file again by themselves
    [replaced, kept] = await Promise.all([startBearer('replaced', token), startBearer('kept', token)]);
    await replaced.replaceToken(await issueToken(600));
    const probe = testClient(loadKubeconfig(await writeKubeconfig('probe', { token })));
    // The server keeps what it has found valid for 10 s.
    const isRefused = async () => (await probe.list(configMaps, { namespace }).catch((error) => error)).code === 401;
    await until('the server refuses the old token', isRefused);
    await probe.close();
  });
  afterAll(async () => {
    await Promise.all([replaced, kept].map((each) => each?.stop()));
    await direct.close();
    await rm(dir, { recursive: true, force: true });
  });

  async function createServiceAccount(): Promise<KubeObject> {
    const metadata = { namespace, name: 'reader' };
    await direct.create(roles, { metadata, rules: [{ apiGroups: [''], resources: ['configmaps'], verbs: ['*'] }] });
    await direct.create(roleBindings, {
      metadata,
      roleRef: { apiGroup: rbac.group, kind: 'Role', name: 'reader' },
      subjects: [{ kind: 'ServiceAccount', ...metadata }],
    });
    return direct.create(serviceAccounts, { metadata });
  }

  /** A token as the API server issues them, which would issue none for less than ten minutes. */
  async function issueToken(lifeSeconds: number): Promise<string> {
    const { server } = loadKubeconfig(testKubeconfig());
    const key = await readFile(join(dirname(testKubeconfig()), 'service-account.key'));
    const { name, uid } = subject.metadata;
    const now = Math.floor(Date.now() / 1000);
    const claims = {
      ...{ iss: server, aud: [server], sub: `system:serviceaccount:${namespace}:${name}` },
      ...{ iat: now - 3600, nbf: now - 3600, exp: now + lifeSeconds - leewaySeconds },
      'kubernetes.io': { namespace, serviceaccount: { name, uid } },
    };
    const text = [{ alg: 'ES256', typ: 'JWT' }, claims]
      .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
      .join('.');
    return `${text}.${sign('sha256', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`;
  }

  /** Writes a kubeconfig for the server of the test stack, or for a proxy in front of it, without credentials. */
  async function writeKubeconfig(file: string, user: object = {}, server?: string): Promise<string> {
    const config = parse(await readFile(testKubeconfig(), 'utf8'));
    config.users[0].user = user;
    if (server !== undefined) config.clusters[0].cluster = { server };
    await writeFile(join(dir, file), stringify(config));
    return join(dir, file);
  }

  /** A client with a token file and a reflector that uses it; the proxy sees what they send to the server. */
  async function startBearer(name: string, token: string) {
    const tokenFile = join(dir, `${name}-token`);
    await writeFile(tokenFile, token);
    const proxy = await startFaultProxy(await writeKubeconfig(`${name}-upstream`));
    const access = loadKubeconfig(await writeKubeconfig(`${name}-kubeconfig`, { tokenFile }, proxy.server));
    let refusals = 0;
    const credentials: typeof access.credentials = async (options) => {
      if (options?.refused) refusals += 1;
      return access.credentials(options);
    };
    const statuses = new Set<unknown>();
    const client = testClient({ ...access, credentials }, { onRequest: ({ status }) => void statuses.add(status) });
    const said: string[] = [];
    const logger = recordingLogger();
    const reflector = startReflector({
      ...{ client, resource: configMaps, namespace, logger },
      onEvent(event) {
        said.push(inWords(event));
      },
    });
    await reflector.waitForSync();
    await until('it watches', () => proxy.seen.some(({ isWatch }) => isWatch));
    return {
      ...{ proxy, client, said, statuses },
      store: reflector.store,
      /** How often other credentials were asked for, because the server had refused those that were there. */
      refusals: () => refusals,
      /** Pauses after tries to watch that the server had refused, ms. */
      pauses: () =>
        logger.lines.flatMap(({ fields }) => {
          const { err, delayMs = 0 }: { err?: { code?: number }; delayMs?: number } = fields;
          return err?.code === 401 ? [delayMs] : [];
        }),
      replaceToken: (next: string) => writeFile(tokenFile, next),
      async stop() {
        await reflector.stop();
        await client.close();
        await proxy.close();
      },
    };
  }

  it('is replaced by the next one at its first refusal, without an error', async () => {
    const { proxy, client, store, said, statuses, refusals } = replaced;
    const first = proxy.seen.length;
    proxy.resetConnections();

    const lists = await Promise.all([1, 2, 3, 4, 5].map(() => client.list(configMaps, { namespace })));
    await client.create(configMaps, { metadata: { namespace, name: 'created' } });
    await until('the store has three objects', (see) => see(store.size) === 3);

    expect(lists.map(({ items }) => items.length)).toEqual([2, 2, 2, 2, 2]);
    expect(statuses).not.toContain(401);
    expect(said.filter((word) => word !== 'synced').slice(2)).toEqual(['added created']);
    expect(refusals()).toBe(1);
    // What began at once went with the old one, nothing after that.
    const tokens = proxy.seen.slice(first).map(({ headers }) => headers.authorization);
    expect(tokens.filter((token) => token === tokens[0]).length).toBeLessThanOrEqual(6);
    expect(new Set(tokens).size).toBe(2);
  });

  it('is sent with growing pauses while there is no other, and no event is lost', async () => {
    const { proxy, client, store, said, refusals, pauses } = kept;
    const first = proxy.seen.length;
    proxy.resetConnections();
    await direct.delete(configMaps, { namespace, name: 'deleted' });
    await direct.create(configMaps, { metadata: { namespace, name: 'late' } });
    await until('three tries were refused', (see) => see(pauses()).length >= 3);
    for (let index = 0; index < 5; index += 1) {
      await expect(client.list(configMaps, { namespace })).rejects.toMatchObject({ code: 401 });
    }

    expect(store).toMatchObject({ reachable: false, synced: true });
    expect(said).not.toContain('deleted deleted');
    for (const delayMs of pauses()) expect(delayMs).toBeGreaterThanOrEqual(599);
    // One for each try, and one more whenever the token was read again; a try may be under way.
    expect(proxy.seen.length - first).toBeLessThanOrEqual(pauses().length + 1 + 5 + refusals());
    expect(refusals()).toBeLessThanOrEqual(pauses().length);

    await kept.replaceToken(await issueToken(600));
    await until('the late object is known', (see) => see(said).includes('added late'));
    expect(said).toContain('deleted deleted');
    expect(store.reachable).toBe(true);
    expect((await client.list(configMaps, { namespace })).items).toHaveLength(store.size);
  });
});
