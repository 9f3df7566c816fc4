import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { type FlagName, flags } from './flags.ts';
import { envOf, flagOf, parseOptions, UsageError } from './options.ts';

const all = Object.keys(flags) as FlagName[];
const folder = mkdtempSync(join(tmpdir(), 'millwright-options-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** The reported problems, one per line. */
function problemsOf(given: Record<string, string>, env: Record<string, string> = {}): string[] {
  try {
    parseOptions(all, given, env);
    return [];
  } catch (error) {
    if (error instanceof UsageError) return error.message.split('\n');
    throw error;
  }
}

describe('parseOptions', () => {
  it("has machine-controller-manager's defaults where it has the same flag", () => {
    expect(parseOptions(all, {}, {})).toMatchObject({
      controlKubeconfig: '',
      targetKubeconfig: '',
      namespace: 'default',
      installation: undefined,
      machineCreationTimeout: 1200,
      machineDrainTimeout: 7200,
      machineMaxEvictRetries: 360,
      nodeConditions: ['KernelDeadlock', 'ReadonlyFilesystem', 'DiskPressure', 'NetworkUnavailable'],
      bootstrapTokenAuthExtraGroups: '',
      leaderElect: true,
      leaderElectLeaseDuration: 15,
      leaderElectRenewDeadline: 10,
      leaderElectRetryPeriod: 2,
      address: '0.0.0.0',
      port: 10258,
    });
  });

  it('takes a flag before the environment, and our variable before that of others', () => {
    const env = { MILLWRIGHT_TEMPORAL_ADDRESS: 'ours:1', TEMPORAL_ADDRESS: 'theirs:1', KUBECONFIG: '/k' };

    expect(parseOptions(['temporalAddress'], { temporalAddress: 'flag:1' }, env).temporalAddress).toBe('flag:1');
    expect(parseOptions(['temporalAddress'], {}, env).temporalAddress).toBe('ours:1');
    expect(parseOptions(['temporalAddress'], {}, { ...env, MILLWRIGHT_TEMPORAL_ADDRESS: '' }).temporalAddress).toBe(
      'theirs:1',
    );
    expect(parseOptions(['kubeconfig'], {}, env).kubeconfig).toBe('/k');
  });

  it('converts what it is given', () => {
    writeFileSync(join(folder, 'key.pem'), 'PEM');
    const given = {
      kubeApiQps: '20.5',
      machineDrainTimeout: '1h30m',
      providers: '',
      nodeConditions: 'KernelDeadlock, DiskPressure',
      temporalTls: '1',
      temporalTlsCert: join(folder, 'key.pem'),
      temporalTlsKey: join(folder, 'key.pem'),
      bootstrapTokenAuthExtraGroups: 'system:bootstrappers:a,system:bootstrappers:b',
      temporalAddress: '[::1]:7233',
    };

    expect(parseOptions(all, given, {})).toMatchObject({
      kubeApiQps: 20.5,
      machineDrainTimeout: 5400,
      providers: [],
      nodeConditions: ['KernelDeadlock', 'DiskPressure'],
      temporalTls: true,
      temporalTlsKey: join(folder, 'key.pem'),
      bootstrapTokenAuthExtraGroups: 'system:bootstrappers:a,system:bootstrappers:b',
      temporalAddress: '[::1]:7233',
    });
  });

  it.each([
    ['port', '65536', "--port is '65536': give a whole number from 0 to 65535"],
    ['kubeApiQps', '0', "--kube-api-qps is '0': give a number from above 0 to 100000"],
    ['kubeApiBurst', '1.5', "--kube-api-burst is '1.5': give a whole number from 1 to 100000"],
    ['namespace', 'a/b', "--namespace is 'a/b': give the name of a namespace"],
    ['installation', 'a/b', "--installation is 'a/b': give a name of letters, digits, -, _ and ."],
    ['temporalAddress', 'http://a:1', "--temporal-address is 'http://a:1': give host:port, without a scheme"],
    ['temporalAddress', 'localhost', "--temporal-address is 'localhost': give host:port, without a scheme"],
    ['temporalTls', 'yes', "--temporal-tls is 'yes': give true or false"],
    ['temporalTlsCa', '/no/such', "--temporal-tls-ca is '/no/such': give the path of a file that can be read"],
    ['machineCreationTimeout', '20', "--machine-creation-timeout is '20': give a duration such as 90s, 20m or 1h30m"],
    ['machineDrainTimeout', '-1s', "--machine-drain-timeout is '-1s': give a duration such as 90s, 20m or 1h30m"],
    [
      'allowedHosts',
      'a.example, http://b',
      "--allowed-hosts is 'a.example, http://b': give names of hosts, without scheme and port",
    ],
    ['providers', 'simulated,gcp', "--providers is 'simulated,gcp': give names of aws, azure, openstack, simulated"],
    ['nodeConditions', 'a b', "--node-conditions is 'a b': give types of Node conditions"],
    ['maxCachedWorkflows', '499', "--max-cached-workflows is '499': give 0 or a whole number from 500 to 100000"],
    ['address', 'localhost', "--address is 'localhost': give an IP address"],
    ['logLevel', 'loud', "--log-level is 'loud': give debug, info, warn or error"],
    ['logFormat', 'xml', "--log-format is 'xml': give pretty or json"],
    ['output', 'xml', "--output is 'xml': give text, wide, json or yaml"],
  ] as const)('refuses %s %j', (name, value, problem) => {
    expect(problemsOf({ [name]: value })).toEqual([problem]);
  });

  it('names the variable that a value came from, and reports all problems at once', () => {
    expect(problemsOf({ port: 'x' }, { MILLWRIGHT_KUBE_API_QPS: 'y', TEMPORAL_ADDRESS: 'z' })).toEqual([
      "MILLWRIGHT_KUBE_API_QPS is 'y': give a number from above 0 to 100000",
      "TEMPORAL_ADDRESS is 'z': give host:port, without a scheme",
      "--port is 'x': give a whole number from 0 to 65535",
    ]);
  });

  it.each(['force', 'skip', 'dryRun', 'toRevision', 'filename', 'blockedOn', 'watch', 'export'] as const)(
    'takes no variable for %s, which says what one call does',
    (name) => {
      const variable = `MILLWRIGHT_${flagOf(name).slice(2).replaceAll('-', '_').toUpperCase()}`;

      expect(envOf(name)).toEqual([]);
      expect(problemsOf({}, { [variable]: 'true' })).toEqual([expect.stringContaining(`${variable} is not known`)]);
    },
  );

  it('refuses a certificate without its key', () => {
    writeFileSync(join(folder, 'cert.pem'), 'PEM');

    expect(problemsOf({ temporalTlsCert: join(folder, 'cert.pem') })).toEqual([
      '--temporal-tls-cert and --temporal-tls-key belong together: give both or none',
    ]);
  });

  it.each([
    [
      { leaderElectRenewDeadline: '15s' },
      ['--leader-elect-renew-deadline is 15s: give less than --leader-elect-lease-duration'],
    ],
    [
      { leaderElectRetryPeriod: '9s' },
      ['--leader-elect-retry-period is 9s: give less than --leader-elect-renew-deadline / 1.2'],
    ],
    [{ leaderElectRetryPeriod: '0s' }, ['--leader-elect-retry-period is 0s: give more than 0s']],
    [
      { leaderElectLeaseDuration: '500ms', leaderElectRenewDeadline: '300ms', leaderElectRetryPeriod: '100ms' },
      ['--leader-elect-lease-duration is 0.5s: give at least 1s'],
    ],
    [{ leaderElect: 'false', leaderElectRenewDeadline: '15s' }, []],
  ])('refuses times of an election that cannot work: %j', (given, problems) => {
    expect(problemsOf(given)).toEqual(problems);
  });

  it('refuses a variable of ours that it does not know, and names those that begin alike', () => {
    expect(problemsOf({}, { MILLWRIGHT_NAMESPCE: 'a', MILLWRIGHT_ETCD: '/bin/etcd', MILLWRIGHT_TEST_X: '' })).toEqual([
      'MILLWRIGHT_NAMESPCE is not known: unset it, or give one of MILLWRIGHT_NAMESPACE, MILLWRIGHT_NODE_CONDITIONS',
    ]);
    expect(problemsOf({}, { MILLWRIGHT_ZONE: 'a' })).toEqual([
      expect.stringMatching(/^MILLWRIGHT_ZONE is not known: unset it, or give one of MILLWRIGHT_CONTROL_KUBECONFIG, /),
    ]);
  });

  it('ignores the variables that Kubernetes sets in pods next to Services named millwright and millwright-metrics', () => {
    const env = {
      MILLWRIGHT_PORT: 'tcp://10.0.0.1:10258',
      MILLWRIGHT_PORT_10258_TCP_ADDR: '10.0.0.1',
      MILLWRIGHT_SERVICE_HOST: '10.0.0.1',
      MILLWRIGHT_SERVICE_PORT: '10258',
      MILLWRIGHT_METRICS_SERVICE_PORT_HTTP: '80',
      MILLWRIGHT_METRICS_PORT_80_TCP: 'tcp://10.0.0.2:80',
    };

    expect(parseOptions(all, {}, env).port).toBe(10258);
  });
});

describe('the table of flags', () => {
  it.each(all)('%s has a default that it accepts, and a description', (name) => {
    const flag = flags[name];

    expect(flag.description).toMatch(/\.$/);
    if ('default' in flag) expect(problemsOf({ [name]: flag.default })).toEqual([]);
  });

  it('names flags and variables after the setting', () => {
    expect(flagOf('kubeApiQps')).toBe('--kube-api-qps');
    expect(envOf('kubeApiQps')).toEqual(['MILLWRIGHT_KUBE_API_QPS']);
    expect(envOf('temporalTlsCa')).toEqual(['MILLWRIGHT_TEMPORAL_TLS_CA', 'TEMPORAL_TLS_SERVER_CA_CERT_PATH']);
  });
});
