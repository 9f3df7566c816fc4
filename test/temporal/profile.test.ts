/**
 * Settings that Temporal's configuration file and variables give, compared with what the `temporal` CLI makes of them.
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Client } from '@temporalio/client';
import { temporalFlags } from '../../cli/flag-groups.ts';
import { parseOptions } from '../../cli/options.ts';
import { temporalServer } from '../../cli/temporal-server.ts';
import { findServer } from '../../deploy/local/servers.ts';
import { connectClient } from '../../temporal/connection.ts';
import { startTemporalFront, type TemporalFront } from '../faults/temporal-front.ts';
import { createAuthority } from '../support/certificates.ts';

let home: string;
let front: TemporalFront;
let temporal: string;

beforeAll(async () => {
  temporal = await findServer('temporal');
  home = await mkdtemp(join(tmpdir(), 'millwright-profile-'));
  const clients = await createAuthority('clients');
  front = await startTemporalFront(process.env.MILLWRIGHT_TEST_TEMPORAL_ADDRESS ?? '', clients);
  for (const name of ['one', 'two']) {
    const { crt, key } = await clients.issue(name);
    await writeFile(join(home, `${name}.crt`), crt);
    await writeFile(join(home, `${name}.key`), key);
  }
  await writeFile(join(home, 'ca.crt'), front.ca);
  const two = await clients.issue('inline');
  const server = `server_ca_cert_path = '${join(home, 'ca.crt')}'`;
  const paths = `client_cert_path = '${join(home, 'one.crt')}'\nclient_key_path = '${join(home, 'one.key')}'`;
  const config = `
[profile.default]
address = '${front.address}'
api_key = 'of default'
[profile.default.tls]
${server}
${paths}
[profile.inline]
address = '${front.address}'
namespace = 'elsewhere'
[profile.inline.grpc_meta]
Some_Header = 'of the profile'
[profile.inline.tls]
${server}
client_cert_data = '''${two.crt}'''
client_key_data = '''${two.key}'''
[profile.open]
api_key = 'canary'
[profile.open.tls]
disabled = true
[profile.broken]
address = 'no-port'
`;
  await mkdir(join(home, '.config/temporalio'), { recursive: true });
  await writeFile(join(home, '.config/temporalio/temporal.toml'), config);
  await writeFile(join(home, 'other.toml'), config.replace('of default', 'of the other file'));
});

afterAll(async () => {
  await front.close();
  await rm(home, { recursive: true });
});

function settings(given: Record<string, string>, env: Record<string, string>) {
  const all = { HOME: home, ...env };
  return temporalServer(parseOptions(temporalFlags, given, all), all);
}

function lastCall() {
  const { client, apiKey, headers } = front.seen.at(-1) ?? {};
  return { client, apiKey, header: headers?.['some-header'] };
}

describe("Temporal's configuration", () => {
  const certificate = () => ({
    TEMPORAL_TLS_CLIENT_CERT_PATH: join(home, 'two.crt'),
    TEMPORAL_TLS_CLIENT_KEY_PATH: join(home, 'two.key'),
  });

  it.each([
    ['the profile default', () => ({}), { client: 'one', apiKey: 'of default' }],
    [
      'a profile with certificates and headers in it',
      () => ({ TEMPORAL_PROFILE: 'inline', TEMPORAL_NAMESPACE: 'default' }),
      { client: 'inline', header: 'of the profile' },
    ],
    [
      'variables before the profile',
      () => ({ TEMPORAL_API_KEY: 'of a variable', TEMPORAL_GRPC_META_SOME_HEADER: 'too', ...certificate() }),
      { client: 'two', apiKey: 'of a variable', header: 'too' },
    ],
    [
      'another file',
      () => ({ TEMPORAL_CONFIG_FILE: join(home, 'other.toml') }),
      { client: 'one', apiKey: 'of the other file' },
    ],
  ])('is used as `temporal` uses it: %s', async (_, variables, expected) => {
    const env: Record<string, string> = variables();
    await promisify(execFile)(temporal, ['workflow', 'count'], { env: { HOME: home, ...env } });
    const theirs = lastCall();
    const server = settings({}, env);
    const connection = await connectClient(server);
    await new Client({ connection, namespace: server.namespace }).workflow.count();
    await connection.close();

    expect(lastCall()).toEqual(theirs);
    expect(theirs).toMatchObject(expected);
  });

  it('gives way to flags and variables of Millwright', () => {
    const env = { MILLWRIGHT_TEMPORAL_API_KEY: 'ours', TEMPORAL_API_KEY: 'theirs' };
    const given = { temporalProfile: 'inline', temporalAddress: 'localhost:1', temporalTls: 'false' };

    expect(settings(given, { ...env, TEMPORAL_PROFILE: 'default' })).toEqual({
      ...{ address: 'localhost:1', namespace: 'elsewhere', apiKey: 'ours', tls: false },
      metadata: { 'some-header': 'of the profile' },
    });
  });

  it.each([
    ['a flag', { temporalTls: 'false' }, { MILLWRIGHT_TEMPORAL_API_KEY: 'canary' }],
    ['a variable', {}, { TEMPORAL_TLS: 'false', TEMPORAL_API_KEY: 'canary' }],
    ['the profile', { temporalProfile: 'open' }, {}],
    [
      'a header',
      {},
      { TEMPORAL_GRPC_META_AUTHORIZATION: 'Bearer canary', TEMPORAL_PROFILE: 'inline', TEMPORAL_TLS: '0' },
    ],
  ])('is refused if it sends an API key in clear text, with the key or TLS from %s', (_, given, env) => {
    const to = (temporalAddress: string) => () => settings({ ...given, temporalAddress }, env);

    for (const address of ['temporal.example.com:7233', '10.0.0.1:7233', '127.example.com:7233', '[fd00::1]:7233']) {
      expect(to(address)).toThrow(
        `TLS to ${address} is off, and the API key for Temporal would be sent in clear text: give --temporal-tls=true, ` +
          'or no API key (--temporal-api-key-file, MILLWRIGHT_TEMPORAL_API_KEY, TEMPORAL_API_KEY, or profile',
      );
      expect(to(address)).not.toThrow('canary');
    }
    for (const address of ['localhost:7233', '127.0.0.1:7233', '127.1.2.3:1', '[::1]:7233']) {
      expect(to(address)()).toMatchObject({ address, tls: false });
    }
  });

  it('may be absent', () => {
    const nothing = { address: '127.0.0.1:7233', namespace: 'default', tls: false };

    expect(settings({}, { HOME: join(home, 'nobody') })).toEqual(nothing);
    expect(settings({}, { TEMPORAL_CONFIG_FILE: '/no/such/file', TEMPORAL_ADDRESS: '' })).toEqual(nothing);
  });

  it.each(['', '# no profile'])('may have no profile, as in a file with %j', async (content) => {
    const env = { TEMPORAL_CONFIG_FILE: join(home, 'empty.toml'), TEMPORAL_NAMESPACE: 'of-a-variable' };
    await writeFile(env.TEMPORAL_CONFIG_FILE, content);

    expect(settings({}, env)).toEqual({ address: '127.0.0.1:7233', namespace: 'of-a-variable', tls: false });
    expect(() => settings({ temporalProfile: 'nobody' }, env)).toThrow(
      `profile 'nobody' of Temporal's configuration file ${env.TEMPORAL_CONFIG_FILE} cannot be used (it has no profile)`,
    );
  });

  it('is refused with the name of the profile where it cannot be used', async () => {
    const fix = 'correct it, --temporal-profile or --temporal-config-file';
    expect(() => settings({ temporalProfile: 'nobody' }, {})).toThrow(
      new RegExp(`^profile 'nobody' .* not found .*${fix}`),
    );
    expect(() => settings({ temporalProfile: 'broken' }, {})).toThrow("is 'no-port': give host:port, without a scheme");
    await writeFile(join(home, 'bad.toml'), 'profile = [');
    expect(() => settings({ temporalConfigFile: join(home, 'bad.toml') }, {})).toThrow(
      `${join(home, 'bad.toml')} cannot`,
    );
  });
});
