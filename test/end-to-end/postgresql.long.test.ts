/** Millwright with a Temporal server of one's own, on PostgreSQL. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { machineDeployments } from '../../api/gardener/resources.ts';
import { runTour } from '../../deploy/local/demo/run-tour.ts';
import { createScreen } from '../../deploy/local/demo/screen.ts';
import { setUp } from '../../deploy/local/demo/set-up.ts';
import { firstStop, tour } from '../../deploy/local/demo/tour.ts';
import { mergePatch } from '../../kube/patch.ts';
import { fromSetup, type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { startProcess } from '../support/millwright.ts';
import { lackOfPostgresql, startTemporalOnPostgresql, type TemporalOnPostgresql } from '../support/postgresql.ts';
import { until } from '../support/until.ts';

const lack = lackOfPostgresql();

(lack === undefined ? describe : describe.skip)(`Temporal on PostgreSQL${lack ?? ''}`, () => {
  let temporal: TemporalOnPostgresql;
  let installation: Installation;
  beforeAll(async () => {
    temporal = await startTemporalOnPostgresql();
    installation = await startInstallation({ temporalAddress: temporal.temporalAddress });
  }, 900_000); // where the server has to be built
  afterAll(async () => {
    await installation?.stop();
    await temporal?.stop();
  });

  it('has no problem that millwright doctor finds', async () => {
    const doctor = async () => {
      const servers = ['--temporal-address', temporal.temporalAddress, '-n', installation.namespace];
      const cluster = ['--target-kubeconfig', fromSetup('MILLWRIGHT_TEST_KUBECONFIG')];
      const { exited, logs } = startProcess(['doctor', ...servers, ...cluster]);
      return { code: (await exited).code, output: logs() };
    };
    const { output } = await until('its processes are known', async (see) => {
      const answer = see(await doctor());
      return answer.code === 0 && answer;
    });

    expect(output).toContain('✓ retention');
    expect(output).toContain('✓ search attributes');
  });

  it('lets a MachineDeployment get its machines, roll over while both are restarted, and leave no machine, VM or open workflow', async () => {
    const { control, cloud, namespace } = installation;
    const workers = { namespace, name: 'workers' };
    await installation.createDeployment('workers', 3);
    const old = (await installation.untilMachines(3, 'Running')).map(({ metadata }) => metadata.name);
    const newMachines = async () =>
      (await installation.machines()).filter(({ metadata }) => !old.includes(metadata.name));

    const template = { metadata: { annotations: { 'example.com/image': '2' } } };
    await control.patch(machineDeployments, workers, mergePatch({ spec: { template } }));
    await until('a new machine exists', async (see) => see(await newMachines()).length > 0);
    await temporal.server.kill('SIGKILL');
    await temporal.postgresql.restart();
    await temporal.server.restart();
    await until(
      'all machines are new',
      async () => {
        const isDone = (await newMachines()).filter((machine) => phaseOf(machine) === 'Running').length === 3;
        return isDone && (await installation.machines()).length === 3;
      },
      { timeoutMs: 180_000, describe: () => installation.story() },
    );
    expect(await cloud.vms({ all: true })).toHaveLength(6);

    await control.delete(machineDeployments, workers);
    await installation.untilMachines(0, '');
    expect([...(await installation.nodes()), ...(await cloud.vms())]).toEqual([]);
    const open = `MillwrightInstallation = '${namespace}' AND ExecutionStatus = 'Running'`;
    await until('no workflow is open', async (see) => {
      const { count } = see(await installation.temporal.workflow.count(open));
      return count === 0;
    });
  });

  it('runs every command of the demo but the one that needs the Temporal UI', async () => {
    const { temporalAddress } = temporal;
    const dir = await mkdtemp(join(tmpdir(), 'millwright-tour-'));
    const screen = createScreen(process.stdout);
    const ending: (() => Promise<void>)[] = [];
    try {
      const demo = await setUp({ dir, cloudName: 'simulated', temporalAddress }, screen, ending);
      await runTour(demo, screen, [firstStop, ...tour.filter(({ command }) => !command.includes('$TEMPORAL_UI'))]);
    } finally {
      for (const stop of ending.toReversed()) await stop();
      await rm(dir, { recursive: true });
    }
  }, 600_000);
});
