/** `millwright doctor`, on installations that work and that do not. */
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { parse, stringify } from 'yaml';
import { machineClasses, machineSets } from '../../api/gardener/resources.ts';
import { names } from '../../api/names.ts';
import { freePort } from '../../deploy/local/ports.ts';
import { mergePatch } from '../../kube/patch.ts';
import { findLastSweep } from '../../temporal/past-sweeps.ts';
import { sweepScheduleId } from '../../temporal/schedules.ts';
import { fromSetup, type Installation, startInstallation } from '../support/installation.ts';
import { startProcess } from '../support/millwright.ts';
import { startSweep } from '../support/sweeps.ts';
import { connectTemporal } from '../support/temporal.ts';
import { until } from '../support/until.ts';

interface Found {
  readonly subject: string;
  readonly state: string;
  readonly message: string;
  readonly fix?: string;
}

describe('millwright doctor', () => {
  let millwright: Installation;
  beforeAll(async () => {
    millwright = await startInstallation({
      alone: 'its controllers show themselves to Temporal',
      isElected: true,
      flags: ['--machine-safety-orphan-vms-period', '1h'],
    });
  });
  afterAll(() => millwright?.stop());

  /** @param flags instead of, or besides, those of the installation */
  async function doctor(flags: Readonly<Record<string, string>> = {}) {
    const servers = {
      '-n': millwright.namespace,
      '--target-kubeconfig': fromSetup('MILLWRIGHT_TEST_KUBECONFIG'),
      '--temporal-address': fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS'),
      ...flags,
    };
    const { exited, logs } = startProcess(['doctor', ...Object.entries(servers).flat()]);
    return { code: (await exited).code, output: logs() };
  }

  async function findings(flags: Readonly<Record<string, string>> = {}) {
    const { code, output } = await doctor({ '-o': 'json', ...flags });
    return { code, found: JSON.parse(output.slice(0, output.lastIndexOf(']') + 1)) as Found[] };
  }

  it('finds no problem in an installation that works, and warns that histories are kept for a day only', async () => {
    // A check of a busy machine may be late, which is one more warning.
    const { output } = await until('its processes are known, and there is one warning', async (see) => {
      const answer = see(await doctor());
      return answer.code === 0 && answer.output.includes('\n0 problems, 1 warning\n') && answer;
    });

    const subjects = [...output.matchAll(/^[✓!✗] (.*?):/gm)].map(([, subject]) => subject);
    expect(subjects).toEqual([
      ...[
        'control cluster',
        'clock',
        'rights in the control cluster',
        'CRDs',
        'Leases',
        'classes',
        'rights in the target cluster',
        'cluster of the Nodes',
      ],
      ...['Temporal', 'retention', 'search attributes', 'clock'],
      ...['controllers', 'workflows', 'versions', 'settings', 'drains', 'orphan sweep', 'provider simulated'],
    ]);
    expect(output).toMatch(/^! retention: .* for 1 d: .*\n {4}to fix: temporal operator namespace update/m);
    expect(output).toMatch(/\n0 problems, 1 warning\n$/);
  });

  it('names what is missing, each with its fix, and exits with 3', async () => {
    await millwright.createClass('big', { provider: 'awz', providerSpec: {} });
    const connection = await connectTemporal();
    const namespace = `doctor-${randomUUID()}`;
    const workflowExecutionRetentionPeriod = { seconds: (10 * 86_400) as never };
    await connection.workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod });
    await until(
      'the namespace exists',
      async (see) => see(await findings({ '--temporal-namespace': namespace })).found.length > 8,
    );
    await connection.close();

    const typo = await findings();
    const empty = await findings({ '--temporal-namespace': namespace });

    expect([typo.code, empty.code]).toEqual([3, 3]);
    const problems = (found: Found[]) => found.filter(({ state }) => state === 'problem');
    expect(problems(typo.found)).toEqual([
      expect.objectContaining({
        subject: 'provider awz',
        fix: expect.stringMatching(/built-in aws, azure, openstack, simulated; else start the worker/),
      }),
    ]);
    expect(empty.found).toContainEqual(expect.objectContaining({ subject: 'retention', state: 'ok' }));
    expect(problems(empty.found).map(({ subject, fix }) => [subject, fix])).toEqual([
      [
        'search attributes',
        expect.stringMatching(/^temporal operator search-attribute create .*MillwrightInstallation/),
      ],
      ['controllers', expect.stringContaining('millwright controllers')],
      ['workflows', expect.stringContaining('millwright worker')],
      ['drains', expect.stringContaining('millwright worker')],
      ['provider awz', expect.any(String)],
      ['provider simulated', 'start a worker with --providers simulated'],
    ]);
  });

  it('says that a namespace does not exist, once and first, and not that the cluster of its Nodes is known', async () => {
    const { code, output } = await doctor({ '-n': 'nosuch' });

    expect(code).toBe(3);
    expect(output).toMatch(/^✗ namespace: nosuch does not exist in the control cluster\n/);
    expect(output).toMatch(/^✓ cluster of the Nodes: not remembered yet/m);
    expect(output).toMatch(/\n4 problems, \d warnings?\n$/);
  });

  it('warns of a Machine that was lost until a sweep could look for its VM', async () => {
    const { cloud, control, namespace, temporal } = millwright;
    const annotations = { [names.lostMachine]: new Date().toISOString() };
    await control.patch(machineClasses, { namespace, name: 'small' }, mergePatch({ metadata: { annotations } }));
    const lost = async () => (await findings()).found.filter(({ subject }) => subject === 'lost machines');

    expect(await lost()).toMatchObject([
      {
        ...{ state: 'warning', message: expect.stringMatching(/class small .*the next sweep starts at 2\d/) },
        fix: expect.stringContaining(`\`millwright sweep -n ${namespace} --target-kubeconfig `),
      },
    ]);
    const sweepOnce = async () => {
      const calledMs = Date.now();
      await startSweep(millwright).exited;
      await until('Temporal lists it', async (see) => {
        const last = see(await findLastSweep({ client: temporal, name: namespace }));
        return last !== undefined && last.startedMs >= calledMs;
      });
    };
    await cloud.setFaults({ kind: 'forbidden' });
    await sweepOnce();
    await cloud.setFaults();
    expect(await lost()).toMatchObject([{ message: expect.stringMatching(/class small /) }]);
    await sweepOnce();
    expect(await lost()).toEqual([]);
  });

  it('names classes that are refused or missing, and a Schedule of sweeps that is paused', async () => {
    await millwright.createClass('bad', { secretRef: { namespace: millwright.namespace, name: 'nowhere' } });
    await millwright.createDeployment('pool', 0, {
      template: { metadata: { labels: { name: 'pool' } }, spec: { class: { kind: 'MachineClass', name: 'nosuch' } } },
    });
    const schedule = millwright.temporal.schedule.getHandle(sweepScheduleId(millwright.namespace));
    await schedule.pause('restoring etcd');

    const { found } = await findings();
    await schedule.unpause();

    expect(found.filter(({ subject }) => subject === 'classes')).toEqual([
      expect.objectContaining({ state: 'problem', message: expect.stringMatching(/"bad": Secret .* does not exist/) }),
      expect.objectContaining({ state: 'problem', message: expect.stringMatching(/"nosuch" does not exist/) }),
    ]);
    expect(found).toContainEqual(
      expect.objectContaining({
        subject: 'orphan sweep',
        state: 'warning',
        message: expect.stringContaining('restoring etcd'),
      }),
    );
  });

  it('names a set whose deployment does not exist, and none of another controller', async () => {
    const { namespace } = millwright;
    for (const [name, kind] of [
      ['lost', 'MachineDeployment'],
      ['foreign', 'NodePool'],
    ] as const) {
      const labels = { name };
      const owner = { apiVersion: 'machine.sapcloud.io/v1alpha1', kind, name: 'gone' };
      await millwright.control.create(machineSets, {
        metadata: { namespace, name, ownerReferences: [{ ...owner, uid: randomUUID(), controller: true }] },
        spec: {
          replicas: 0,
          selector: { matchLabels: labels },
          template: { metadata: { labels }, spec: { class: { kind: 'MachineClass', name: 'small' } } },
        },
      });
    }

    const { code, found } = await findings();

    expect(code).toBe(3);
    const owners = found.filter(({ subject }) => subject === 'owners');
    expect(owners).toEqual([
      expect.objectContaining({ message: expect.stringMatching(/^the owner that 1 MachineSet \(lost\) name/) }),
    ]);
  });

  it('names what the account of a kubeconfig may not do', async () => {
    const config = parse(await readFile(fromSetup('MILLWRIGHT_TEST_KUBECONFIG'), 'utf8'));
    for (const each of config.users) each.user.as = 'nobody';
    const path = join(await mkdtemp(join(tmpdir(), 'millwright-doctor-')), 'kubeconfig');
    await writeFile(path, stringify(config));

    const { found } = await findings({ '--target-kubeconfig': path });
    await rm(dirname(path), { recursive: true });

    const rights = found.filter(({ subject }) => subject.startsWith('rights'));
    expect(rights.map(({ state, message }) => [state, message])).toEqual([
      ['problem', expect.stringMatching(/ may not get, .*machines\.machine\.sapcloud\.io in /)],
      ['problem', expect.stringMatching(/ may not get, list, watch, patch, delete nodes; .*secrets in kube-system$/)],
    ]);
    expect(rights[0]?.fix).toContain('deploy/rbac');
  });

  it('says which servers do not answer, and by which flag they were found', async () => {
    const nobody = `127.0.0.1:${await freePort()}`;

    const { code, found } = await findings({
      '--temporal-address': nobody,
      '--target-kubeconfig': '/no/such/file',
    });

    expect(code).toBe(3);
    expect(found.map(({ subject, message }) => [subject, message])).toEqual([
      ['control cluster', expect.stringContaining('--target-kubeconfig')],
      ['Temporal', expect.stringContaining('--temporal-address')],
    ]);
  });
});
