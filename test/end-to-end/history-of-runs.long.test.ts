/** The runs of a rollout as people list and replay them, against this code and against code that decides otherwise. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { machineDeployments } from '../../api/gardener/resources.ts';
import { mergePatch } from '../../kube/patch.ts';
import type { RolloutRun } from '../../temporal/rollout-runs.ts';
import { type Changes, makeChangedBuild } from '../support/changed-build.ts';
import { fromSetup, type Installation, startInstallation } from '../support/installation.ts';
import { startProcess } from '../support/millwright.ts';
import { until } from '../support/until.ts';

describe('the runs of a rollout', () => {
  let millwright: Installation;
  let folder: string;
  let failed: RolloutRun;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millwright-histories-'));
    millwright = await startInstallation();
    const { cloud, namespace } = millwright;
    const tags = { cluster: namespace };
    await millwright.createClass('sold-out', {
      providerSpec: { endpoint: cloud.url, machineType: 'large', region: 'here', tags },
    });
    await millwright.createDeployment('pool', 2);
    await millwright.untilMachines(2, 'Running');
    await cloud.setFaults({ kind: 'capacity', machineType: 'large' });
    await change({ template: { spec: { class: { name: 'sold-out' } } }, progressDeadlineSeconds: 5 });
  });
  afterAll(async () => {
    await millwright?.stop();
    if (folder !== undefined) await rm(folder, { recursive: true });
  });

  async function change(spec: object): Promise<void> {
    const key = { namespace: millwright.namespace, name: 'pool' };
    await millwright.control.patch(machineDeployments, key, mergePatch({ spec }));
  }

  const temporal = () => ['--temporal-address', fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS')];

  /** A command to its end. @param program of another build */
  async function command(
    args: readonly string[],
    program?: readonly string[],
  ): Promise<{ code: number | null; output: string }> {
    const { exited, logs } = startProcess([...args, '-n', millwright.namespace, ...temporal()], {}, program);
    const { code } = await exited;
    return { code, output: logs() };
  }
  const runs = (...flags: string[]) =>
    command(['rollout', 'runs', 'pool', '--target-kubeconfig', fromSetup('MILLWRIGHT_TEST_KUBECONFIG'), ...flags]);

  async function withBuild<T>(changes: Changes, use: (program: readonly string[]) => Promise<T>): Promise<T> {
    const build = await makeChangedBuild(changes);
    try {
      return await use(build.program);
    } finally {
      await build.remove();
    }
  }

  it('are listed with their revision and outcome, a failed one with the machine that blocks it', async () => {
    failed = await until(
      'a failed run is listed',
      async () => {
        const { output } = await runs('-o', 'json');
        const listed: RolloutRun[] = JSON.parse(output);
        return listed.find(({ outcome }) => outcome === 'failed');
      },
      { describe: () => millwright.story() },
    );

    expect(failed).toMatchObject({ revision: 2, end: expect.any(String) });
    expect(failed.failure).toMatch(/has made no progress for 5 s\nblocked by 1 machine:\n.*ResourceExhausted/);
    const { code, output } = await runs();
    expect(code).toBe(0);
    const lines = output.split('\n');
    const at = lines.findIndex((line) => line.includes(failed.runId));
    expect(lines[0]).toMatch(/^START +TOOK +OUTCOME +REVISION +SET +RUN ID$/);
    expect(lines[at]).toMatch(/^\S+Z +\d.* s +failed +2 +pool-\S+ /);
    expect(lines[at + 1]).toMatch(/^ {2}.*has made no progress for 5 s$/);
    // The run of the first template was before it, and is below it.
    expect(lines.slice(at + 1).some((line) => /(completed|continued as new) +1 +pool-/.test(line))).toBe(true);
    expect((await command(['rollout', 'status', 'pool', '-o', 'json'])).output).toContain(
      "--output is not a flag of 'rollout status'",
    );
  });

  it('are replayed from the server as the same decisions, and from the file that it writes', async () => {
    const file = join(folder, 'failed.json');

    const fromServer = await command(['replay', failed.workflowId, failed.runId, '--export', file]);
    const fromFile = await command(['replay', file, '-o', 'json']);

    expect([fromServer.code, fromServer.output]).toEqual([
      0,
      expect.stringMatching(/ \d+ events, \d+ decisions: this version decides the same$/m),
    ]);
    expect(fromFile.code).toBe(0);
    expect(JSON.parse(fromFile.output)).toMatchObject({
      ...{ same: true, workflowId: failed.workflowId, workflowType: 'rollout' },
      decisions: expect.any(Number),
    });
    const [machine] = await millwright.machines();
    const { namespace, name, uid } = { namespace: '', ...machine!.metadata };
    const ofMachine = await command(['replay', `${millwright.namespace}/machine/${namespace}/${name}/${uid}`]);
    expect([ofMachine.code, ofMachine.output]).toEqual([0, expect.stringContaining('this version decides the same')]);
  });

  it('show the first decision that differs, with the reading that it was made from', async () => {
    const file = join(folder, 'failed.json');

    // Temporal compares the kinds of decisions alone: it would go on.
    const content = await withBuild(
      { 'workflows/rollout/plan.ts': [["replicas: desired.get('') ?? 0", 'replicas: 7']] },
      (program) => command(['replay', file], program),
    );
    const kind = await withBuild(
      {
        'workflows/rollout/step.ts': [
          ['import { actOnOwner, observeOwner }', 'import { actOnOwner, listBlockers, observeOwner }'],
          ['const askedMs = Date.now();', 'const askedMs = Date.now();\n  await listBlockers(run.ref);'],
        ],
      },
      (program) => command(['replay', file, '-o', 'json'], program),
    );

    expect([content.code, content.output]).toEqual([3, expect.stringContaining('recorded: activity actOnOwner\n')]);
    expect(content.output).toMatch(/now: activity actOnOwner\n {2}\[2\]\.createSet\.replicas: recorded \d, now 7$/m);
    expect(content.output).toMatch(
      /^made from event \d+, result of observeOwner\n {2}view:\n {4}kind: MachineDeployment$/m,
    );
    expect(content.output).toContain('Temporal would not notice');
    expect(kind.code).toBe(3);
    const { difference, error } = JSON.parse(kind.output.slice(0, kind.output.lastIndexOf('}') + 1));
    expect(difference).toMatchObject({
      recorded: { what: 'activity observeOwner' },
      now: { what: 'activity listBlockers' },
      madeFrom: [{ event: '1', what: 'start of the workflow' }],
    });
    expect(error).toContain('Nondeterminism');
  });

  it('cannot be replayed where there is no history, or no such workflow', async () => {
    const other = join(folder, 'other.json');
    await writeFile(other, (await readFile(join(folder, 'failed.json'), 'utf8')).replaceAll('"rollout"', '"another"'));
    const none = join(folder, 'none.json');
    await writeFile(none, '{}');

    const answers = await Promise.all([
      command(['replay', none]),
      command(['replay', other]),
      command(['replay', `${millwright.namespace}/rollout/none`]),
    ]);

    expect(answers).toEqual([
      { code: 1, output: expect.stringContaining('none.json is no history of a run: give a file as') },
      { code: 1, output: expect.stringContaining("is of a workflow 'another', which this version of Millwright") },
      { code: 1, output: expect.stringMatching(/Temporal knows no workflow '.*none': the retention/) },
    ]);
  });
});
