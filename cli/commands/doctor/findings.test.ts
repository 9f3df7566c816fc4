import { describe, expect, it } from '@jest/globals';
import { versionOf, workerIdentity } from '../../../temporal/clusters.ts';
import type { Poller } from '../../../temporal/task-queues.ts';
import { buildName } from '../../../temporal/version.ts';
import {
  clockFinding,
  codecFindings,
  findingsText,
  lostFinding,
  ownersFinding,
  providerFinding,
  type Right,
  retentionFinding,
  rightsFinding,
  serverFinding,
  settingsFinding,
  sweepFinding,
  terminatingFinding,
  versionsFinding,
} from './findings.ts';

it('warns of a retention under 7 days, with the command that changes it', () => {
  expect(retentionFinding(7 * 86_400, 'default').state).toBe('ok');
  expect(retentionFinding(7 * 86_400 - 1, 'default')).toMatchObject({
    state: 'warning',
    fix: 'temporal operator namespace update --namespace default --retention 7d',
  });
});

it.each([
  [[], 'holds nothing of Millwright', 'conditions'],
  [
    [
      ['Machine', ['a']],
      ['MachineClass', ['c']],
    ],
    'waits for 1 Machine (a), 1 MachineClass (c)',
    'see Machine',
  ],
  [
    [
      ['Machine', []],
      ['Secret', ['a', 'b', 'c', 'd', 'e']],
    ],
    'waits for 5 Secrets (a, b, c, and 2 more)',
    'see Secret',
  ],
] as const)('says what a namespace that is being deleted waits for: %j', (left, message, fix) => {
  const remainders = left.map(([kind, names]) => ({ kind, names, fix: `see ${kind}` }));
  expect(terminatingFinding(remainders)).toMatchObject({
    ...{ subject: 'namespace', state: 'warning' },
    ...{ message: expect.stringContaining(message), fix: expect.stringContaining(fix) },
  });
});

it.each([
  [5_000, 'ok', /agrees/],
  [-5_000, 'ok', /agrees/],
  [61_000, 'warning', /1 min 1 s ahead of the one of this host/],
  [-6_000, 'warning', /6\.0 s behind the one of this host/],
] as const)('judges a clock that is %d ms ahead', (aheadMs, state, message) => {
  expect(clockFinding('Temporal', aheadMs)).toMatchObject({ state, message: expect.stringMatching(message) });
});

it.each([
  [undefined, 'ok'],
  [{ paused: false }, 'ok'],
  [{ paused: true, note: 'restoring etcd' }, 'warning'],
] as const)('judges the Schedule of sweeps: %j', (schedule, state) => {
  expect(sweepFinding(schedule, 0, 'a/orphan-sweep', 'default').state).toBe(state);
});

it.each([
  [1, { paused: false }, '1 sweep waits for approval, and the next one of the Schedule may wait for that'],
  [2, { paused: true }, '2 sweeps wait for approval, and the Schedule is paused'],
  [1, undefined, '1 sweep waits for approval'],
] as const)('warns of %d sweeps that wait for approval, with the Schedule %j', (waiting, schedule, message) => {
  expect(sweepFinding(schedule, waiting, 'a/orphan-sweep', 'default')).toMatchObject({
    ...{ state: 'warning', message },
    fix: expect.stringMatching(/^`millwright stuck` lists the orphans, and the command that approves them/),
  });
});

it.each([
  [
    ['a'],
    undefined,
    0,
    /^a Machine of class a may be gone .*: the Schedule starts no sweep$/,
    /^`millwright sweep -n a` /,
  ],
  [
    ['a', 'b'],
    new Date(0),
    0,
    /of classes a, b may be gone .*: the next sweep starts at 1970-01-01T00:00:00.000Z$/,
    /./,
  ],
  [
    ['a'],
    new Date(0),
    1,
    /: 1 sweep waits for approval, maybe for this VM$/,
    /^`millwright stuck` lists .*, and `millwright/,
  ],
])('warns of a Machine that was lost, with what becomes of its VM: %j, %j, %d', (lost, next, waiting, message, fix) => {
  expect(lostFinding(lost, next, waiting, 'millwright sweep -n a')).toMatchObject({
    ...{ state: 'warning', message: expect.stringMatching(message), fix: expect.stringMatching(fix) },
  });
});

describe('a provider that nobody serves', () => {
  const known = ['aws', 'simulated'];

  it('is started, where it is a built-in one', () => {
    expect(providerFinding('AWS', ['small'], [], known, 0).fix).toBe('start a worker with --providers aws');
  });

  it('may be a mistake, where it is none', () => {
    const { message, fix } = providerFinding('awz', ['a', 'b', 'c', 'd'], [], known, 0);

    expect(message).toBe('no worker serves it: the machines of a, b, c and 1 more wait');
    expect(fix).toMatch(/^correct the name, if it is one of the built-in aws, simulated; else start the worker/);
  });

  it('is served as far as a worker has polled: it says when the last one did, for it may have ended since', () => {
    const pollers = [1_000, 21_000].map((seenMs) => ({ identity: '1@host', seenMs }));

    expect(providerFinding('acme', ['a'], pollers, known, 51_000)).toEqual({
      ...{ subject: 'provider acme', state: 'ok' },
      message: 'a worker has polled its task queue 30 s ago, for a',
    });
  });
});

it('prints findings with their fixes, and counts them', () => {
  const problem = { subject: 'a', state: 'problem', message: 'it is broken', fix: 'repair it' } as const;

  expect(findingsText([problem, { subject: 'b', state: 'ok', message: 'fine' }])).toBe(
    '✗ a: it is broken\n    to fix: repair it\n✓ b: fine\n\n1 problem, 0 warnings',
  );
});

it('says whose account has all rights of which process, or lacks which', () => {
  const account = 'the account of the Pod';
  const right = { group: '', resource: 'nodes', name: undefined, verb: 'get', namespace: undefined };
  const token = { ...right, resource: 'secrets', namespace: 'kube-system', isForTokens: true };
  const rights = (ofControllers: readonly Right[], ofWorkers: readonly Right[]) =>
    rightsFinding('rights', account, [
      { role: 'controllers', count: 4, lacking: ofControllers },
      { role: 'workers', count: 8, lacking: ofWorkers },
    ]);

  expect(rights([], [])).toMatchObject({ state: 'ok', message: `${account} has all of controllers and workers` });
  expect(rights([right], [])).toMatchObject({
    state: 'ok',
    message: `${account} has all of workers, and not of controllers`,
  });
  expect(rights([right], [right, token])).toMatchObject({
    state: 'problem',
    message: `${account}, as that of workers, may not get nodes; get secrets in kube-system`,
  });
  expect(rights([], [right])).toMatchObject({
    state: 'ok',
    message: `${account} has all of controllers, and not of workers`,
  });
  expect(rights([right], [token])).toMatchObject({
    state: 'warning',
    message: `${account}, as that of workers, may not get secrets in kube-system`,
    fix: expect.stringContaining('deploy/rbac/bootstrap-tokens.yaml'),
  });
});

it.each([
  ['Kubernetes', 'v1.31.0', 'ok'],
  ['Kubernetes', 'v1.30.14', 'warning'],
  ['Temporal', '1.31.2', 'ok'],
  ['Temporal', '1.9.3', 'warning'],
] as const)('judges the version of a server: %s %s', (product, of, state) => {
  expect(serverFinding('server', product, of, 'here')).toMatchObject({
    state,
    message: expect.stringContaining(`${product} ${of} here`),
  });
});

it('names the versions of Millwright of this command, of the controllers and of the workers', () => {
  const own = { identity: workerIdentity({ clusterId: 'b2c9' }), seenMs: 0 };
  const of = (build: string) => ({ identity: `1@host with Millwright ${build} for cluster b2c9`, seenMs: 0 });
  const [released, newer] = [of('9.8.0'), of('10.2.0-dev+4faeed52d21c')];

  expect(versionsFinding(buildName(), { controllers: [own], workers: [own, own] })).toEqual({
    ...{ subject: 'versions', state: 'ok' },
    message: `this command is Millwright ${buildName()}; controllers ${buildName()}, workers ${buildName()}`,
  });
  expect(versionsFinding('9.8.0', { controllers: [], workers: [] })).toEqual({
    ...{ subject: 'versions', state: 'ok' },
    message: 'this command is Millwright 9.8.0; controllers not there, workers not there',
  });
  expect(versionsFinding('9.8.0', { controllers: [released], workers: [newer, released] })).toMatchObject({
    state: 'warning',
    message: 'this command is Millwright 9.8.0; controllers 9.8.0, workers 9.8.0 and 10.2.0-dev+4faeed52d21c',
    fix: expect.stringMatching(/^complete the upgrade/),
  });
  expect(versionsFinding('10.2.0', { controllers: [released], workers: [released] })).toMatchObject({
    state: 'warning',
    message: 'this command is Millwright 10.2.0; controllers 9.8.0, workers 9.8.0',
    fix: expect.stringMatching(/^use the command of 9\.8\.0/),
  });
});

describe('settingsFinding', () => {
  const of = (settings: Readonly<Record<string, string>>, clusterId?: string) => ({
    identity: workerIdentity({ settings, clusterId }),
    seenMs: 0,
  });
  const [bare, keyed] = [of({}, 'b2c9'), of({ '--temporal-codec-keys': 'given' })];
  const full = of({ '--control-plane-nodes': 'true', '--node-conditions': 'A,B' }, 'b2c9');
  const ok = { subject: 'settings', state: 'ok' };

  it('says how many processes agree, and what is compared of their target clusters', () => {
    const other = { ...full, identity: full.identity.replace(/^\d+/, '0') };
    expect(settingsFinding(buildName(), { controllers: [full], workers: [full, other] }, false)).toEqual({
      ...ok,
      message:
        'the 2 processes of this version do not differ in the flags of which all need the same value; of --target-kubeconfig only the kind of cluster is compared',
    });
  });

  it.each([
    [{ controllers: [full], workers: [full] }, 'one process of this version is there: nothing was compared'],
    [
      { controllers: [{ ...full, identity: '1@host with Millwright 0.1.0' }], workers: [] },
      'no process of this version is there: nothing was compared',
    ],
  ])('says that it has compared nothing, where too few processes have this version', (running, message) => {
    expect(settingsFinding(buildName(), running, false)).toEqual({ ...ok, message });
  });

  it('finds nothing where processes and this command have keys', () => {
    expect(settingsFinding(buildName(), { controllers: [keyed], workers: [keyed] }, true)).toMatchObject(ok);
    expect([full, keyed].map(({ identity }) => versionOf(identity))).toEqual([buildName(), buildName()]);
  });

  it('warns of each flag in which processes differ, with its values', () => {
    const slow = of({ '--machine-drain-timeout': '60s' });
    expect(settingsFinding(buildName(), { controllers: [full], workers: [bare, slow] }, false)).toEqual({
      ...{ subject: 'settings', state: 'warning' },
      message:
        'of this version, --machine-drain-timeout is 7200s in 1 of 1 controllers, 7200s in 1 of 2 workers and 60s in 1 of 2 workers; ' +
        '--node-conditions is A,B in 1 of 1 controllers and DiskPressure,KernelDeadlock,NetworkUnavailable,ReadonlyFilesystem in 2 of 2 workers; ' +
        '--control-plane-nodes is true in 1 of 1 controllers and false in 2 of 2 workers',
      fix: 'give all controllers and workers the same --machine-drain-timeout, --node-conditions, --control-plane-nodes',
    });
  });

  it('leaves processes of other versions out', () => {
    const older = { identity: '1@host with Millwright 0.1.0 for cluster b2c9', seenMs: 0 };
    expect(settingsFinding(buildName(), { controllers: [full, older], workers: [older, full] }, false)).toMatchObject(
      ok,
    );
    expect(settingsFinding(buildName(), { controllers: [older], workers: [older] }, true)).toMatchObject(ok);
  });

  it('warns of processes that write payloads in plain text', () => {
    const findingOf = (worker: Poller, hasKeys: boolean) =>
      settingsFinding(buildName(), { controllers: [worker], workers: [keyed, worker] }, hasKeys);
    expect(findingOf(bare, false)).toMatchObject({
      state: 'warning',
      message:
        'of this version, --temporal-codec-keys is not given in 1 of 1 controllers, given in 1 of 2 workers and not given in 1 of 2 workers: processes without it write payloads in plain text',
    });
    expect(settingsFinding(buildName(), { controllers: [bare], workers: [] }, true)).toMatchObject({
      state: 'warning',
      message:
        'of this version, --temporal-codec-keys is given in this command and not given in 1 of 1 controllers: processes without it write payloads in plain text',
    });
  });
});

it('names machines and sets whose owner does not exist', () => {
  const lost = [
    { kind: 'Machine', names: ['a', 'b'] },
    { kind: 'MachineSet', names: [] },
  ];
  expect(ownersFinding(lost)).toMatchObject({
    state: 'problem',
    message: expect.stringContaining('2 Machines (a, b) name does not exist'),
  });
});

describe('codecFindings', () => {
  const keys = (current: string | undefined) => ({ current, keys: new Map([['a', Buffer.alloc(32)]]) });

  it('says nothing where nothing is encrypted', () => {
    expect(codecFindings(undefined, [{}, {}])).toEqual([]);
  });

  it('says which key encrypts, and with which keys the inputs of open workflows are encrypted', () => {
    expect(codecFindings(keys('a'), [])).toMatchObject([
      { state: 'ok', message: "payloads are encrypted with the key 'a'" },
    ]);
    expect(codecFindings(keys('a'), [{ key: 'a' }, {}, { key: 'a' }])).toMatchObject([
      { message: expect.stringMatching(/; of 3 open .*, 2 began with the key 'a', 1 began without encryption$/) },
    ]);
  });

  it('warns of keys that encrypt nothing, and of workflows that cannot be read', () => {
    expect(codecFindings(keys(undefined), [])).toMatchObject([{ state: 'warning', fix: expect.any(String) }]);
    for (const given of [keys('a'), undefined]) {
      expect(codecFindings(given, [{}, { key: 'b', problem: "the key 'b' is missing" }])).toMatchObject([
        {
          state: 'problem',
          message: "of 2 open workflows that were looked at, 1 cannot be read: the key 'b' is missing",
        },
      ]);
    }
  });
});
