/**
 * What the client sends, and what it makes of the answers. That OpenStack understands it:
 * test/end-to-end/openstack.test.ts.
 */
import { createServer } from 'node:http';
import { createServer as createTlsServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type Authority, createAuthority } from '../../../../test/support/certificates.ts';
import { type RecordingOpenstack, startRecordingOpenstack } from '../../../../test/support/recording-openstack.ts';
import { createOpenstack, NoAnswerError, NotInCatalogueError, OpenstackError, type OpenstackOptions } from './index.ts';

const { signal } = new AbortController();
const password = {
  kind: 'password',
  username: 'me',
  userDomain: { name: 'Default' },
  password: 'secret',
  project: { name: 'shoots' },
  projectDomain: { id: 'default' },
} as const;

let cloud: RecordingOpenstack;
beforeAll(async () => {
  cloud = await startRecordingOpenstack();
});
afterAll(() => cloud?.stop());
beforeEach(() => cloud.answer({ 'GET compute/flavors': { flavors: [] } }));

const make = (more: Partial<OpenstackOptions> = {}) =>
  createOpenstack({ authUrl: cloud.authUrl, region: 'one', credentials: password, ...more });
const listFlavors = (client = make()) => client.compute.flavors({}, signal);
const failure = (act: Promise<unknown>) => act.then(() => undefined).catch((error: unknown) => error);

describe('a login', () => {
  it.each<[string, OpenstackOptions['credentials'], object]>([
    [
      'a password, with names in domains',
      password,
      {
        identity: {
          methods: ['password'],
          password: { user: { name: 'me', domain: { name: 'Default' }, password: 'secret' } },
        },
        scope: { project: { name: 'shoots', domain: { id: 'default' } } },
      },
    ],
    [
      'a project by its ID, which needs no domain',
      { ...password, project: { id: 'p-1' } },
      { identity: expect.anything(), scope: { project: { id: 'p-1' } } },
    ],
    [
      'an application credential by its ID, which has its project',
      { kind: 'applicationCredential', id: 'ac-1', secret: 'x' },
      { identity: { methods: ['application_credential'], application_credential: { id: 'ac-1', secret: 'x' } } },
    ],
    [
      'an application credential by its name, which is one of a user',
      { kind: 'applicationCredential', name: 'ac', username: 'me', userDomain: { id: 'default' }, secret: 'x' },
      {
        identity: {
          methods: ['application_credential'],
          application_credential: { name: 'ac', secret: 'x', user: { name: 'me', domain: { id: 'default' } } },
        },
      },
    ],
  ])('sends %s', async (_, credentials, auth) => {
    await listFlavors(make({ credentials }));

    expect(cloud.logins().map(({ json }) => json)).toEqual([{ auth }]);
  });

  it.each(['/identity', '/identity/', '/identity/v3', '/identity/v2.0'])('goes to version 3 for %s', async (path) => {
    await listFlavors(make({ authUrl: cloud.authUrl.replace('/identity', path) }));

    expect(cloud.logins()).toHaveLength(1);
  });

  it('is shared by requests at the same time', async () => {
    const client = make();

    await Promise.all([listFlavors(client), listFlavors(client), listFlavors(client)]);

    expect(cloud.logins()).toHaveLength(1);
    expect(new Set(cloud.requests().map(({ headers }) => headers['x-auth-token'])).size).toBe(1);
  });

  it('comes before the token has expired', async () => {
    cloud.answer({ 'GET compute/flavors': { flavors: [] } }, { livesMs: 0 });
    const client = make();

    await listFlavors(client);
    await listFlavors(client);

    expect(cloud.logins()).toHaveLength(2);
  });

  it('comes once more where a service refuses the token, and the request is sent again', async () => {
    let refused = '';
    cloud.answer({
      'GET compute/flavors': ({ headers }) => {
        refused ||= String(headers['x-auth-token']);
        return headers['x-auth-token'] === refused ? { status: 401 } : { flavors: [{ id: 'f', name: 'small' }] };
      },
    });

    expect(await listFlavors()).toEqual({ items: [{ id: 'f', name: 'small' }] });
    expect(cloud.logins()).toHaveLength(2);
  });

  it('comes no third time', async () => {
    cloud.answer({ 'GET compute/flavors': { status: 401, body: { error: { title: 'Unauthorized', message: 'no' } } } });

    expect(await failure(listFlavors())).toMatchObject({ status: 401, code: 'Unauthorized' });
    expect(cloud.logins()).toHaveLength(2);
  });

  it('that is refused is tried again by the next request', async () => {
    const refused = { status: 401, body: { error: { code: 401, title: 'Unauthorized', message: 'wrong' } } };
    cloud.answer({ 'POST identity/v3/auth/tokens': refused });
    const client = make();
    expect(await failure(listFlavors(client))).toMatchObject({ service: 'identity', status: 401, message: 'wrong' });

    cloud.answer({ 'GET compute/flavors': { flavors: [] } });
    expect(await listFlavors(client)).toEqual({ items: [] });
  });
});

describe('a service', () => {
  it('is that of the region and the interface in the catalogue', async () => {
    const elsewhere = await failure(listFlavors(make({ interface: 'internal' })));
    expect(elsewhere).toBeInstanceOf(NoAnswerError);
    expect(elsewhere).toMatchObject({ origin: 'http://internal.invalid' });
    expect(await failure(listFlavors(make({ region: 'two' })))).toMatchObject({ origin: 'http://two.invalid' });

    const none = await failure(listFlavors(make({ region: 'three' })));
    expect(none).toBeInstanceOf(NotInCatalogueError);
    expect(String(none)).toContain('no compute in the region three: it is in one, two');
  });

  it.each([
    ['/compute', 'GET compute/flavors'],
    ['/compute/v2.1/', 'GET compute/flavors'],
    ['/compute/v2.1/project-1', 'GET compute/project-1/flavors'],
    ['/compute/v2/project-1', 'GET compute/project-1/flavors'],
  ])('is found at %s, with or without the version and the project', async (path, what) => {
    const url = cloud.authUrl.replace('/identity', path);
    const catalog = [{ type: 'compute', endpoints: [{ interface: 'public', region: 'one', url }] }];
    const [issued_at, expires_at] = ['2026-01-01T00:00:00Z', '2026-01-01T01:00:00Z'];
    const body = { token: { catalog, issued_at, expires_at } };
    cloud.answer({
      'POST identity/v3/auth/tokens': { status: 201, headers: { 'x-subject-token': 'token' }, body },
      [what]: { flavors: [] },
    });

    expect(await listFlavors()).toEqual({ items: [] });
  });

  it('may be missing', async () => {
    cloud.answer({}, { types: ['compute'] });

    expect(await make().volume.exists(signal)).toBe(false);
    expect(String(await failure(make().image.images({}, signal)))).toContain('no region has it');
  });

  it('gets a microversion if it is nova, and no other does', async () => {
    const client = make();
    cloud.answer({
      'GET compute/flavors': { flavors: [] },
      'GET network/ports': { ports: [] },
      'GET image/images': { images: [] },
      'GET volumev3/volumes/detail': { volumes: [] },
    });

    await client.compute.flavors({}, signal);
    await client.network.ports({}, signal);
    await client.image.images({}, signal);
    await client.volume.volumes({}, signal);

    expect(cloud.requests().map(({ what, headers }) => [what, headers['openstack-api-version']])).toEqual([
      ['GET compute/flavors', 'compute 2.1'],
      ['GET network/ports', undefined],
      ['GET image/images', undefined],
      ['GET volumev3/volumes/detail', undefined],
    ]);
  });

  it.each([
    [
      'links of nova',
      'compute',
      { flavors: [], flavors_links: [{ rel: 'next', href: 'http://x/f?marker=a&limit=1' }] },
    ],
    ['the link of glance', 'image', { images: [], next: '/v2/images?marker=a&limit=1' }],
  ])('lists pages by %s', async (_, kind, first) => {
    const [path, key] = kind === 'compute' ? ['compute/flavors', 'flavors'] : ['image/images', 'images'];
    cloud.answer({ [`GET ${path}`]: ({ query }) => (query['marker'] === undefined ? first : { [key ?? '']: [{}] }) });
    const { compute, image } = make();
    const list = kind === 'compute' ? compute.flavors : image.images;

    const { next } = await list({ name: 'a b' }, signal);
    expect(await list(next ?? '', signal)).toEqual({ items: [{}] });

    expect(cloud.requests().map(({ query }) => query)).toEqual([{ name: 'a b' }, { marker: 'a', limit: '1' }]);
  });

  it('gets the IDs of resources escaped', async () => {
    cloud.answer({ 'GET compute/servers/a%2Fb%3Fc': { server: {} } });

    await make().compute.server('a/b?c', signal);

    expect(cloud.requests('GET compute/servers/a%2Fb%3Fc')).toHaveLength(1);
  });
});

describe('an error answer', () => {
  it.each<[string, unknown, string | undefined, string]>([
    ['nova', { badRequest: { code: 400, message: 'bad' } }, 'badRequest', 'bad'],
    [
      'neutron',
      { NeutronError: { type: 'OverQuota', message: 'Too many.', detail: 'ports' } },
      'OverQuota',
      'Too many. ports',
    ],
    ['keystone', { error: { code: 403, title: 'Not Found', message: 'no' } }, 'NotFound', 'no'],
    ['glance', { message: 'no image', code: '404 Not Found', title: 'Not Found' }, 'NotFound', 'no image'],
    ['neutron itself', { NeutronError: 'Request Failed' }, undefined, 'Request Failed'],
  ])('of %s has its code and words', async (_, body, code, message) => {
    cloud.answer({ 'GET compute/flavors': { status: 400, body } });

    const error = await failure(listFlavors());

    expect(error).toBeInstanceOf(OpenstackError);
    expect(error).toMatchObject({ service: 'compute', status: 400, code, message, requestId: 'req-1' });
  });

  it.each([
    ['3', 3_000],
    ['soon', undefined],
    [new Date(Date.now() - 1_000).toUTCString(), 0],
  ])('with Retry-After %j asks for that pause', async (header, retryAfterMs) => {
    cloud.answer({ 'GET compute/flavors': { status: 413, body: {}, headers: { 'retry-after': header } } });

    expect(await failure(listFlavors())).toMatchObject({ status: 413, retryAfterMs });
  });
});

describe('TLS', () => {
  let authority: Authority;
  let server: Server;
  let authUrl: string;
  beforeAll(async () => {
    authority = await createAuthority('authority');
    const { crt: cert, key } = await authority.issue('cloud');
    const options = { cert, key, ca: authority.crt, requestCert: true, rejectUnauthorized: false };
    server = createTlsServer(options, (request, response) => {
      const { subject } = (request.socket as TLSSocket).getPeerCertificate();
      const error = { title: 'Unauthorized', message: `seen ${subject?.CN ?? 'nobody'}` };
      response.writeHead(401).end(JSON.stringify({ error }));
    });
    await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve));
    authUrl = `https://localhost:${(server.address() as AddressInfo).port}`;
  });
  afterAll(() => {
    server?.closeAllConnections();
    server?.close();
  });
  const seen = (tls: OpenstackOptions['tls'] = {}) => failure(listFlavors(make({ authUrl, tls })));

  it('trusts the authorities that it is given, and no others', async () => {
    expect(await seen()).toMatchObject({ code: expect.stringMatching(/CERT|SIGNATURE/) });
    expect(await seen({ ca: String(authority.crt) })).toMatchObject({ message: 'seen nobody' });
    const other = await createAuthority('other');
    expect(await seen({ ca: String(other.crt) })).toBeInstanceOf(NoAnswerError);
  });

  it('trusts everybody where it is insecure', async () => {
    expect(await seen({ insecure: true })).toMatchObject({ message: 'seen nobody' });
  });

  it('shows a client certificate', async () => {
    const { crt, key } = await authority.issue('millwright');

    expect(await seen({ ca: String(authority.crt), cert: String(crt), key: String(key) })).toMatchObject({
      message: 'seen millwright',
    });
  });
});

describe('no answer', () => {
  it('says what cannot be reached', async () => {
    const error = await failure(listFlavors(make({ authUrl: 'http://127.0.0.1:1' })));

    expect(error).toBeInstanceOf(NoAnswerError);
    expect(error).toMatchObject({ message: 'identity at http://127.0.0.1:1 cannot be reached (ECONNREFUSED)' });
  });

  it('in time has no code, and an abort is what it was aborted with', async () => {
    const silent = createServer(() => {});
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    try {
      const authUrl = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
      const error = await failure(listFlavors(make({ authUrl, timeoutMs: 50 })));
      expect(error).toMatchObject({ code: undefined, message: `identity at ${authUrl} did not answer in time` });

      const controller = new AbortController();
      const listing = failure(make({ authUrl }).compute.flavors({}, controller.signal));
      controller.abort(new Error('enough'));
      expect(String(await listing)).toBe('Error: enough');
    } finally {
      silent.closeAllConnections();
      silent.close();
    }
  });
});
