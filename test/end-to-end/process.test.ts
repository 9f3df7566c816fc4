/** The processes of Millwright, as people and Kubernetes start and end them. */
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Client } from '@temporalio/client';
import { gardener } from '../../api/gardener/index.ts';
import { finalizers } from '../../api/gardener/names.ts';
import { machineDeployments, machines } from '../../api/gardener/resources.ts';
import { refOf } from '../../controllers/objects.ts';
import { freePort } from '../../deploy/local/ports.ts';
import { findServer } from '../../deploy/local/servers.ts';
import type { KubeClient } from '../../kube/client.ts';
import { mergePatch } from '../../kube/patch.ts';
import { buildName, revision, version } from '../../temporal/version.ts';
import { startWorkflow } from '../../temporal/workflows.ts';
import { type SeenRequest, startFaultProxy } from '../faults/proxy.ts';
import { startTcpProxy, type TcpProxy } from '../faults/tcp-proxy.ts';
import { newNamespace, testClient, testKubeconfig } from '../support/kube.ts';
import { type MillwrightOptions, type Process, startMillwright, startProcess } from '../support/millwright.ts';
import { testRules } from '../support/promtool.ts';
import { connectTemporal } from '../support/temporal.ts';
import { until } from '../support/until.ts';

const temporalAddress = process.env.MILLWRIGHT_TEST_TEMPORAL_ADDRESS ?? '';
const servers = ['--target-kubeconfig', testKubeconfig(), '--temporal-address', temporalAddress];
const alertsFile = fileURLToPath(new URL('../../deploy/chart/monitoring/alerts.yaml', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'millwright-process-test-'));
const running: Process[] = [];
let client: KubeClient;
let namespace: string;

beforeAll(async () => {
  client = testClient();
});

// One each: what was killed keeps its Leases for a while.
beforeEach(async () => {
  namespace = await newNamespace(client);
});

afterEach(async () => {
  await Promise.all(running.splice(0).map((millwright) => millwright.stop()));
});

afterAll(async () => {
  rmSync(folder, { recursive: true });
  await client.close();
});

async function start(options: Partial<MillwrightOptions> = {}) {
  const millwright = await startMillwright({ namespace, ...options });
  running.push(millwright);
  return millwright;
}

/** Runs a command to its end. */
async function outcomeOf(args: readonly string[], env: Record<string, string> = {}) {
  const millwright = startProcess(args, env);
  running.push(millwright);
  const { code } = await millwright.exited;
  return { code, output: millwright.logs() };
}

/** Flags of machine-controller-manager, of which controllers use the first three and workers the last one. */
const ofMcm = [
  ...['--leader-elect', '--machine-safety-orphan-vms-period=15m', '--machine-safety-apiserver-statuscheck-timeout=30s'],
  '--machine-pv-detach-timeout=2m',
];

describe.each([
  ['run', []],
  ['controllers', ofMcm.slice(3)],
  ['worker', ofMcm.slice(0, 3)],
] as const)('millwright %s', (command, unused) => {
  it('becomes ready, also with flags that others use, with settings for little memory, shows metrics and its version, and ends with 0 on SIGTERM', async () => {
    const millwright = await start({ command, isSmall: true, flags: ofMcm });

    expect(readFileSync(`/proc/${millwright.pid}/cmdline`, 'utf8')).toContain('--max-semi-space-size=');
    expect(readFileSync(`/proc/${millwright.pid}/environ`, 'utf8')).toContain('MALLOC_ARENA_MAX=2');

    const live = await fetch(`${millwright.url}/livez`);
    const metrics = await (await fetch(`${millwright.url}/metrics`)).text();
    const ready = await (await fetch(`${millwright.url}/readyz`)).json();
    const exit = await millwright.kill('SIGTERM');

    expect(live.status).toBe(200);
    expect(metrics).toMatch(/millwright_kube_requests_total\{cluster="control",verb="get",resource="\/version"/);
    expect(metrics).toContain(`\nmillwright_build_info{version="${version}",revision="${revision()}"} 1\n`);
    expect(ready).toMatchObject({ version: buildName() });
    const lines = millwright.logs().trim().split('\n');
    expect(lines.map((line) => JSON.parse(line)).find(({ msg }) => msg === 'started')).toMatchObject({
      ...{ command, version: buildName(), namespace, installation: namespace },
      ...{ temporalAddress, temporalNamespace: expect.any(String) },
    });
    const notes = millwright.logs().match(/--[a-z-]+(?= has no effect: only)/g) ?? [];
    expect(notes.toSorted()).toEqual(unused.map((flag) => flag.replace(/=.*/, '')).toSorted());
    expect(exit).toEqual({ code: 0, signal: null });
    expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject({
      level: 'info',
      msg: 'ended',
    });
  });
});

describe('a process that serves', () => {
  it('[mcm 110] starts with every argument of machine-controller-manager and its machine controller, and answers their probe', async () => {
    const manager = [
      ...['--cloud-provider=', '--concurrent-syncs=30', '--min-resync-period=12h0m0s', '--profiling', '--v=3'],
      ...['--contention-profiling=true', '--kube-api-content-type=application/vnd.kubernetes.protobuf'],
      ...['--kube-api-qps=20.5', '--kube-api-burst=30', '--controller-start-interval=0s', '--vmodule='],
      ...['--leader-elect', '--leader-elect-resource-lock=leases', '--log-flush-frequency=5s', '--safety-up=2'],
      ...['--safety-down=1', '--machine-safety-overshooting-period=1m', '--logging-format=text'],
      ...['--log-text-split-stream=false', '--log-text-info-buffer-size=0', '--log-json-split-stream'],
      '--log-json-info-buffer-size=0',
    ];
    const controller = [
      ...['--machine-creation-timeout=20m', '--machine-health-timeout=10m', '--machine-drain-timeout=2h'],
      ...['--machine-inplace-update-timeout=20m', '--machine-max-evict-retries=360', '--machine-pv-detach-timeout=2m'],
      ...['--machine-pv-reattach-timeout=90s', '--machine-preserve-timeout=96h', '--resource-exhausted-retry=10m'],
      ...['--machine-safety-orphan-vms-period=15m', '--machine-safety-apiserver-statuscheck-timeout=30s'],
      ...['--machine-safety-apiserver-statuscheck-period=1m', '--bootstrap-token-auth-extra-groups='],
      ...['--autoscaler-scaledown-annotation-during-rollout=True', '--node-conditions=KernelDeadlock,DiskPressure'],
    ];

    const millwright = await start({ flags: [...manager, ...controller] });

    expect((await fetch(`${millwright.url}/healthz`)).status).toBe(200);
    for (const flag of ['concurrent-syncs', 'v', 'profiling', 'machine-safety-apiserver-statuscheck-period']) {
      expect(millwright.logs()).toContain(`"msg":"--${flag} has no effect: `);
    }
  });

  it('starts with the arguments of both containers in the shoot control plane of Gardener', async () => {
    const manager = [
      ...['--machine-safety-overshooting-period=1m', `--namespace=${namespace}`, '--port=10258', '--safety-up=2'],
      ...['--safety-down=1', '--concurrent-syncs=30', '--kube-api-qps=150', '--kube-api-burst=200', '--v=3'],
    ];
    const controller = [
      ...['--kube-api-qps=100', '--kube-api-burst=200', '--machine-creation-timeout=20m', '--machine-drain-timeout=2h'],
      ...['--machine-health-timeout=10m', '--machine-safety-apiserver-statuscheck-timeout=30s'],
      ...['--machine-safety-apiserver-statuscheck-period=1m', '--machine-safety-orphan-vms-period=30m'],
      ...[`--namespace=${namespace}`, '--port=10259', '--v=3'],
    ];
    const clusters = [`--control-kubeconfig=${testKubeconfig()}`, `--target-kubeconfig=${testKubeconfig(2)}`];

    // Their ports may be taken here.
    const millwright = await start({ flags: [...manager, ...controller, ...clusters, '--port=0'] });

    expect((await fetch(`${millwright.url}/healthz`)).status).toBe(200);
    expect(millwright.logs().match(/--[a-z-]+(?= has no effect)/g)).toEqual([
      ...['--concurrent-syncs', '--machine-safety-apiserver-statuscheck-period', '--v'],
    ]);
  });

  it('answers on both ports only requests for hosts that lead to it, with HEAD as with GET', async () => {
    const flags = ['--fleet-port', '0', '--allowed-hosts', 'Fleet.Example.com'];
    const { url, logs } = await start({ command: 'controllers', flags });
    const page = /"url":"([^"]+)"[^\n]*serving the fleet page/.exec(logs())?.[1] ?? '';
    const urls = [`${url}/livez`, `${url}/readyz`, `${url}/metrics`, page, `${page}/page.js`, `${page}/fleet`];
    /** fetch sets the host by itself. */
    const ask = async (to: string, host: string, method = 'HEAD') => {
      const [response] = await once(request(to, { method, headers: { host } }).end(), 'response');
      return response as IncomingMessage;
    };

    for (const to of urls) {
      const { host } = new URL(to);
      const answers = await Promise.all([host, 'fleet.example.com', 'evil.example'].map((name) => ask(to, name)));
      expect([to, ...answers.map(({ statusCode }) => statusCode)]).toEqual([to, 200, 200, 421]);
      const refused = await ask(to, 'evil.example', 'GET');
      expect([refused.statusCode, await json(refused)]).toEqual([
        421,
        { error: expect.stringMatching(/'evil.example' are refused: .* --allowed-hosts$/) },
      ]);
    }
  });

  it('ends on SIGTERM while it still waits for a server', async () => {
    const silent = createServer().listen(0, '127.0.0.1');
    try {
      await once(silent, 'listening');
      const { port } = silent.address() as AddressInfo;
      const temporal = ['--temporal-address', `127.0.0.1:${port}`];
      const millwright = startProcess(['worker', ...servers, ...temporal, '--port', '0']);
      running.push(millwright);
      const [socket] = await once(silent, 'connection', { signal: AbortSignal.timeout(60_000) });

      const exit = await millwright.kill('SIGTERM');
      socket.destroy();

      expect(exit).toEqual({ code: 0, signal: null });
    } finally {
      silent.close();
    }
  });

  it('waits for what is under way on the first SIGTERM, and not on the second', async () => {
    const proxy = await startFaultProxy(testKubeconfig());
    try {
      const kubeconfig = join(folder, 'proxy.kubeconfig');
      await proxy.writeKubeconfig(kubeconfig);
      // The tests after this one need not wait until Leases expire that nobody gave back.
      const millwright = await start({ kubeconfig, isElected: false });
      const isReadByOwner = ({ method, url }: SeenRequest) =>
        method === 'GET' && url.pathname.endsWith(`/${namespace}/machinedeployments/held`);
      proxy.setRule((request) => (isReadByOwner(request) ? { kind: 'hang' } : undefined));
      await createDeployment('held');
      await until('the deployment is being read', () => proxy.seen.some(isReadByOwner));

      const exit = millwright.kill('SIGTERM');
      await until('it is ending', () => millwright.logs().includes('"msg":"ending'));
      const isReady = (await fetch(`${millwright.url}/readyz`)).ok;
      const insist = setInterval(() => void millwright.kill('SIGTERM'), 200);
      const ended = await exit;
      clearInterval(insist);

      expect(isReady).toBe(false);
      expect(ended).toEqual({ code: 1, signal: null });
      expect(proxy.seen.every(({ headers }) => /^millwright-run\/\d/.test(headers['user-agent'] ?? ''))).toBe(true);
    } finally {
      await proxy.close();
    }
  });

  it('logs in one line what keeps it from starting, and by which flag that was found', async () => {
    const nobody = `127.0.0.1:${await freePort()}`;
    const target = ['--port', '0', '--target-kubeconfig', testKubeconfig()];
    const absent = await kubeconfigOf('absent', `https://${nobody}`, 'any');
    const refused = await kubeconfigOf('refused', client.server, 'wrong');

    const outcomes = await Promise.all([
      outcomeOf(['worker', ...servers, '--port', '0', '--temporal-namespace', 'nowhere']),
      outcomeOf(['worker', ...target, '--control-kubeconfig', '/no/such/file']),
      outcomeOf(['worker', ...target, '--control-kubeconfig', absent]),
      outcomeOf(['worker', '--port', '0', '--target-kubeconfig', refused]),
      outcomeOf(['worker', '--port', '0'], { KUBECONFIG: '', KUBERNETES_SERVICE_HOST: '' }),
    ]);

    expect(outcomes.map(({ code }) => code)).toEqual(outcomes.map(() => 1));
    const lines = outcomes.map(({ output }) => output.trim().split('\n').slice(1).map(toReason));
    expect(lines).toEqual([
      [expect.stringMatching(`^Temporal at ${temporalAddress} has no namespace 'nowhere'.* --temporal-namespace`)],
      ['--control-kubeconfig: kubeconfig /no/such/file cannot be read: give the path of a readable YAML or JSON file'],
      [expect.stringMatching(`^the control cluster https://${nobody} does not answer .* correct --control-kubeconfig`)],
      [
        expect.stringMatching(
          `^the control cluster ${client.server} refuses the request .* 401 .* correct --target-kubeconfig`,
        ),
      ],
      [expect.stringMatching('^--kubeconfig: KUBERNETES_SERVICE_HOST is not set')],
    ]);
  });
});

/** Why a process ends, by the line of its log that says so. */
function toReason(line: string): unknown {
  const { level, msg, reason } = JSON.parse(line);
  expect([level, msg]).toEqual(['fatal', 'ending: the process cannot start']);
  return reason;
}

describe.each(['worker', 'controllers'])('millwright %s without Temporal', (command) => {
  const proxies: TcpProxy[] = [];
  beforeAll(() => findServer('promtool'), 900_000); // where it has to be built
  afterEach(() => Promise.all(proxies.splice(0).map((proxy) => proxy.close())));

  it('waits for it unready, works once it is there, and shows when it is gone again, which an alert reports', async () => {
    const proxy = await startTcpProxy(temporalAddress);
    proxies.push(proxy);
    await proxy.goDown();
    const args = [command, '-n', namespace, ...servers.slice(0, 2), '--temporal-address', proxy.address];
    const millwright = startProcess([...args, '--address', '127.0.0.1', '--port', '0', '--leader-elect=false']);
    running.push(millwright);
    const url = await until('it serves', (see) => /"url":"([^"]+)"/.exec(see(millwright.logs()))?.[1]);
    const ask = async (path: string) => fetch(`${url}${path}`);
    const scrape = async () => (await ask('/metrics')).text();

    const waiting = await until('it says what it waits for', (see) =>
      see(millwright.logs())
        .split('\n')
        .find((line) => line.includes('"waiting for Temporal"')),
    );
    expect(JSON.parse(waiting).reason).toContain(`Temporal does not answer at ${proxy.address}`);
    expect((await ask('/readyz')).status).toBe(503);
    await expectAlert('MillwrightTemporalUnreachable', await scrape(), true);

    await proxy.comeUp();
    await until('it is ready', async (see) => see(await ask('/readyz')).status === 200);
    await expectAlert('MillwrightTemporalUnreachable', await scrape(), false);

    await proxy.goDown();
    await until('it notices the outage', async (see) =>
      see(await scrape()).includes('\nmillwright_temporal_reachable 0'),
    );
    expect(await (await ask('/readyz')).json()).toMatchObject({ missing: [], temporal: { reachable: false } });
    await expectAlert('MillwrightTemporalUnreachable', await scrape(), true);

    expect(await millwright.kill('SIGTERM')).toEqual({ code: 0, signal: null });
  });

  /** Whether an alert fires where the series of a scrape stay as they are for a quarter of an hour. */
  async function expectAlert(alert: string, scraped: string, fires: boolean): Promise<void> {
    const lines = [...scraped.matchAll(/^(millwright_\w+(?:\{.*\})?) (\S+)$/gm)];
    const input_series = lines.map(([, series = '', value = '']) => ({ series, values: `${value}x20` }));
    const query = `count(ALERTS{alertname="${alert}", alertstate="firing"}) or vector(0)`;
    const expected = { expr: query, eval_time: '15m', exp_samples: [{ labels: '{}', value: fires ? 1 : 0 }] };
    await testRules([{ name: alert, interval: '1m', input_series, promql_expr_test: [expected] }], alertsFile);
  }
});

describe('millwright describe', () => {
  it('asks the workflow, and the object when no worker answers', async () => {
    const spec = { class: { kind: 'MachineClass', name: 'missing' } };
    const { metadata } = await client.create(machines, { metadata: { namespace, name: 'blocked' }, spec });
    const id = `${namespace}/machine/${namespace}/blocked/${metadata.uid}`;
    const command = ['describe', 'machine', 'blocked', '-n', namespace, ...servers];

    const before = await outcomeOf(command);
    const millwright = await start();
    await until('the machine is refused', async (see) => {
      const { status } = see(await client.get(machines, { namespace, name: 'blocked' }));
      return status?.lastOperation?.state === 'Failed';
    });
    const answered = (args: readonly string[]) =>
      until('its workflow answers', async (see) => {
        const outcome = see(await outcomeOf(args));
        return !/no answer|"silent"/.test(outcome.output) && outcome;
      });
    const [asText, asJson] = await Promise.all([answered(command), answered([...command, '-o', 'json'])]);
    await millwright.kill('SIGKILL');
    const after = await outcomeOf(command);

    const noControllers =
      'the controllers have to start it, and Temporal knows of none of this installation: start them, or correct --installation';
    expect(before).toEqual({
      code: 0,
      output: [
        `Machine   ${namespace}/blocked`,
        `Workflow  ${id}, not open: ${noControllers}`,
        'Phase     (new)',
        'Owner     none',
        '',
      ].join('\n'),
    });
    const fields = Object.fromEntries(asText.output.split('\n').map((line) => line.split(/\s\s+/)));
    expect(fields).toMatchObject({
      Workflow: id,
      'Blocked on': expect.stringMatching('^Source: '),
      'Last error': expect.stringContaining('MachineClass "missing" does not exist'),
      'To unblock': expect.anything(),
    });
    expect(JSON.parse(asJson.output)).toMatchObject({
      kind: 'Machine',
      uid: metadata.uid,
      workflow: { id, state: 'open' },
      description: { blockedOn: 'Source' },
      status: { lastOperation: { state: 'Failed' } },
    });
    expect(after).toMatchObject({ code: 0, output: expect.stringContaining('is a worker running?') });
    expect(after.output).toMatch(
      /Last operation +Create Failed, for .* \(since .*Z\): MachineClass "missing" does not exist/,
    );
  });

  it('misses no workflow of a machine at rest, as when somebody has terminated it', async () => {
    const key = { namespace, name: 'resting' };
    const metadata = { ...key, finalizers: [finalizers.machine] };
    const spec = { class: { kind: 'MachineClass', name: 'small' } };
    await client.create(machines, { metadata, spec });
    const status = { currentStatus: { phase: 'Running' } };
    await client.patch(machines, key, mergePatch({ status }), { subresource: 'status' });

    const { output } = await outcomeOf(['describe', 'machine', 'resting', '-n', namespace, ...servers]);
    await client.patch(machines, key, mergePatch({ metadata: { finalizers: null } }));
    await client.delete(machines, key);

    expect(output).toMatch(
      /not open: the Machine is at rest, and the controllers start it when there is something to do/,
    );
  });

  it('names the failed machines of a deployment, whether or not its workflow is open', async () => {
    await createDeployment('failing');
    const command = ['describe', 'mcd', 'failing', '-n', namespace, ...servers];
    const millwright = await start();
    await until('the deployment has a failed machine', async (see) => {
      const { status } = see(await client.get(machineDeployments, { namespace, name: 'failing' }));
      return status?.failedMachines?.length === 1;
    });

    const open = await until('its workflow answers', async (see) => {
      const outcome = see(await outcomeOf(command));
      return /^Doing +.*since/m.test(outcome.output) && outcome;
    });
    await millwright.kill('SIGKILL');
    const silent = await outcomeOf(command);

    for (const { output } of [open, silent]) {
      expect(output).toMatch(/^Blocked by +failing-\S+: .*MachineClass "missing" does not exist/m);
      expect(output.match(/does not exist/g)).toHaveLength(1);
    }
  });

  it('says that Temporal was not asked where it does not answer', async () => {
    await createDeployment('unasked');
    const nobody = `127.0.0.1:${await freePort()}`;
    const { code, output } = await outcomeOf([
      ...['describe', 'mcd', 'unasked', '-n', namespace, ...servers],
      ...['--temporal-address', nobody],
    ]);

    expect(code).toBe(0);
    expect(output).toMatch(new RegExp(`not asked: Temporal does not answer at ${nobody} .* --temporal-address`));
    expect(output).not.toContain('worker');
  });

  it('says what does not exist', async () => {
    const { code, output } = await outcomeOf(['describe', 'mcd', 'nothing', '-n', namespace, ...servers]);

    expect(code).toBe(1);
    const past = `millwright rollout runs nothing -n ${namespace} `;
    expect(output).toMatch(
      new RegExp(
        `^MachineDeployment ${namespace}/nothing does not exist in the control cluster: correct .* or if it was deleted run ${past}`,
      ),
    );
  });
});

describe('without anybody at work', () => {
  it('a rollout does not seem to wait for nothing, and prints once that nothing moves', async () => {
    await createDeployment('idle');
    const rollout = (action: string) => ['rollout', action, 'idle', '-n', namespace, ...servers];
    const watching = startProcess(rollout('status'));
    running.push(watching);
    const once = await outcomeOf([...rollout('status'), '--watch', 'false']);
    await until('it asks for the controllers', (see) => see(watching.logs()).includes('are the controllers'));
    const said = watching.logs();
    const retried = await outcomeOf(rollout('retry'));
    await client.delete(machineDeployments, { namespace, name: 'idle' });
    const { code } = await watching.exited;

    expect([code, watching.logs().slice(said.length)]).toEqual([1, expect.stringMatching(/idle does not exist/)]);
    expect(once.code).toBe(0);
    for (const output of [once.output, said]) {
      expect(output).toMatch(
        /^.*: waiting for the spec update to be observed\n {2}are the controllers and a worker running\?\n$/,
      );
    }
    expect(retried.code).toBe(1);
    expect(retried.output).toContain(
      `installation '${namespace}' has no open workflow for MachineDeployment ${namespace}/idle; to do: `,
    );
    expect(retried.output).toMatch(/: start the controllers, or correct --installation/);
  });

  it('a retry waits for the workflow of a deployment that has just changed', async () => {
    await createDeployment('new');
    const deployment = await client.get(machineDeployments, { namespace, name: 'new' });
    const connection = await connectTemporal(temporalAddress);
    const installation = { client: new Client({ connection }), name: namespace };
    const retrying = startProcess(['rollout', 'retry', 'new', '-n', namespace, ...servers]);
    running.push(retrying);
    await until('it waits', (see) => see(retrying.logs()).includes('waiting for the controllers'));
    await startWorkflow(installation, 'MachineDeployment', refOf(gardener, deployment));
    await connection.close();
    const { code } = await retrying.exited;

    expect(code).toBe(0);
    expect(retrying.logs()).toBe(
      [
        `MachineDeployment ${namespace}/new: waiting for the controllers to start its workflow`,
        `MachineDeployment ${namespace}/new: signalled the rollout to retry now\n`,
      ].join('\n'),
    );
  });

  it('no sweep begins where there was no worker, and one that lost its workers prints how to end it', async () => {
    const sweep = ['sweep', '-n', namespace, '--temporal-address', temporalAddress];
    const refused = await outcomeOf(sweep);
    const worker = await start({ command: 'worker' });
    await until('Temporal knows of it', async (see) => see(await outcomeOf([...sweep, '--dry-run'])).code === 0);
    await worker.kill('SIGKILL');
    const waiting = startProcess(sweep);
    running.push(waiting);
    await until('it has noticed', (see) => see(waiting.logs()).includes('no worker'));

    const fix = 'start one and try again, or correct --namespace, --installation or --temporal-namespace';
    expect(refused).toEqual({
      code: 1,
      output: `Temporal knows of no worker of installation '${namespace}', so no sweep was started: ${fix}\n`,
    });
    expect(waiting.logs()).toContain(`no worker of installation '${namespace}' answers: start one, or correct --inst`);
    expect(waiting.logs()).toMatch(/`millwright stuck -n .*` whether the code of the sweep fails/);
    const servers = `--address ${temporalAddress} --namespace default`;
    expect(waiting.logs()).toContain(
      `temporal workflow terminate ${servers} --workflow-id ${namespace}/orphan-sweep/now`,
    );
  });
});

describe('the command line', () => {
  it('shows flags, variables and defaults', async () => {
    const { code, output } = await outcomeOf(['worker', '--help']);

    expect(code).toBe(0);
    expect(output).toMatch(/--providers <names>[^]*default: simulated;\s+env:\s+MILLWRIGHT_PROVIDERS/);
    expect(output).toContain('MILLWRIGHT_TEMPORAL_API_KEY, TEMPORAL_API_KEY: ');
  });

  it.each([
    [['run', '--kube-api-qpz', '3'], "unknown option '--kube-api-qpz'\n(Did you mean --kube-api-qps?)"],
    [['run', '--port', 'http'], "--port is 'http': give a whole number from 0 to 65535"],
    [['run', '--temporal-api-key', 'secret'], "unknown option '--temporal-api-key'"],
    [['wrok'], "unknown command 'wrok'\n(Did you mean worker?)"],
    [['describe', 'pod', 'a'], "kind is 'pod': give one of machine, "],
    [['describe', 'machine'], 'name is missing: name the object'],
    [
      ['rollout', 'retry', 'a', '--watch', 'false'],
      "--watch is not a flag of 'rollout retry': use it with 'rollout status' only",
    ],
  ])('refuses %j with code 2', async (args, message) => {
    const { code, output } = await outcomeOf(args);

    expect(output).toContain(message);
    expect(code).toBe(2);
  });
});

async function createDeployment(name: string): Promise<void> {
  const template = { metadata: { labels: { name } }, spec: { class: { kind: 'MachineClass', name: 'missing' } } };
  const strategy = { type: 'Recreate' };
  const spec = { replicas: 1, selector: { matchLabels: { name } }, strategy, template };
  await client.create(machineDeployments, { metadata: { namespace, name }, spec });
}

async function kubeconfigOf(name: string, server: string, token: string): Promise<string> {
  const path = join(folder, `${name}.kubeconfig`);
  const config = {
    clusters: [{ name, cluster: { server, 'insecure-skip-tls-verify': true } }],
    users: [{ name, user: { token } }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    'current-context': name,
  };
  await writeFile(path, JSON.stringify(config));
  return path;
}
