/** A rollout that cannot move on fails where people look, says why, and goes on once the cause is away. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { WorkflowExecutionInfo } from '@temporalio/client';
import { annotations } from '../../api/gardener/names.ts';
import { machineClasses, machineDeployments } from '../../api/gardener/resources.ts';
import type { MachineDeployment } from '../../api/gardener/schema/machine-deployment.ts';
import { names, searchAttributes } from '../../api/names.ts';
import { events as kubeEvents } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { update } from '../../kube/update.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';

const replicas = 2;

describe('a rollout that cannot move on', () => {
  let millwright: Installation;

  beforeAll(async () => {
    millwright = await startInstallation();
    millwright.recordAs('failed-rollout');
    await millwright.createClass('sold-out', {
      providerSpec: {
        endpoint: millwright.cloud.url,
        machineType: 'large',
        region: 'here',
        tags: { cluster: millwright.namespace },
      },
    });
    await millwright.createDeployment('pool', replicas);
    await millwright.untilComplete('pool');
  });
  afterAll(() => millwright?.stop());

  const key = () => ({ namespace: millwright.namespace, name: 'pool' });
  const reasonOf = ({ status }: MachineDeployment) =>
    status?.conditions?.find(({ type }) => type === 'Progressing')?.reason;

  async function untilReason(reason: string): Promise<MachineDeployment> {
    return until(
      `Progressing has the reason ${reason}`,
      async () => {
        const now = await millwright.deployment('pool');
        return reasonOf(now) === reason ? now : undefined;
      },
      { describe: () => millwright.story() },
    );
  }

  const rollout = (action: string, ...flags: string[]) => millwright.command('rollout', action, 'pool', ...flags);

  async function failedRuns(): Promise<WorkflowExecutionInfo[]> {
    const query = `MillwrightInstallation = '${millwright.namespace}' AND WorkflowType = 'rollout' AND ExecutionStatus = 'Failed'`;
    const runs: WorkflowExecutionInfo[] = [];
    for await (const run of millwright.temporal.workflow.list({ query })) runs.push(run);
    return runs;
  }

  it('[mcm 80] is a red run that names the machines and why, and completes by itself after a retry', async () => {
    await millwright.cloud.setFaults({ kind: 'capacity', machineType: 'large' });
    await millwright.changeDeployment('pool', { spec: { template: { spec: { class: { name: 'sold-out' } } } } });
    await until('the machine was refused', async (see) => {
      const found = see(await millwright.machines());
      return found.some(({ status }) => status?.lastOperation?.errorCode === 'ResourceExhausted');
    });
    // Before any deadline it says what it waits for, and each machine once.
    const early = await rollout('status', '--watch', 'false');
    expect(early.code).toBe(0);
    expect(early.output).toMatch(/1 of 2 machines updated, 2 old, 2 available/);
    expect(early.output).toContain('1 new machine is not running; no new machine may be created');
    expect(early.output).toMatch(
      /no old machine may be deleted: 2 are available, and at least 2 have to be\n +pool-\S+: CrashLoopBackOff, R/,
    );
    // The refusal itself may still have to be counted in the status.
    const waiting = await until('nothing else is to do', async (see) => {
      const described = see(await millwright.command('describe', 'mcd', 'pool'));
      return /^To do +complete the rollout$/m.test(described.output) ? described : undefined;
    });
    expect(waiting.output).toMatch(/^Machines +2 desired, 3 existing, 3 active, 2 available, 2 old$/m);
    expect(waiting.output).toMatch(/^Waiting for +1 new machine is not running; /m);
    expect(waiting.output.match(/ResourceExhausted/g)).toHaveLength(1);
    expect(waiting.output).not.toMatch(/^Failed/m);

    await millwright.changeDeployment('pool', { spec: { progressDeadlineSeconds: 5 } });
    const late = await untilReason('ProgressDeadlineExceeded');
    const condition = late.status?.conditions?.find(({ type }) => type === 'Progressing');
    expect(condition).toMatchObject({
      status: 'False',
      message: expect.stringMatching(/^MachineSet ".*" has timed out/),
    });

    const [run] = await until('the failed run is listed', async (see) => {
      const runs = see(await failedRuns());
      return runs.length > 0 ? runs : undefined;
    });
    if (run === undefined) throw new Error('no run');
    const stuck = (await millwright.machines()).filter(({ spec }) => spec?.class?.name === 'sold-out');
    const failed = millwright.temporal.workflow.getHandle(run.workflowId, run.runId);
    const { events = [] } = await failed.fetchHistory();
    const { message } = events?.at(-1)?.workflowExecutionFailedEventAttributes?.failure ?? {};
    expect(message).toMatch(/has made no progress for 5 s\nblocked by 1 machine:/);
    expect(message).toContain(`${stuck[0]?.metadata.name}: CrashLoopBackOff, ResourceExhausted`);

    const { workflow } = millwright.temporal;
    await until('the next run is blocked, too', async (see) => {
      const { searchAttributes: shown } = see(await workflow.getHandle(run.workflowId).describe());
      return shown[searchAttributes.blockedOn]?.[0] === 'CloudCapacity';
    });
    const { output } = await until('its workflow answers', async (see) => {
      const answer = see(await millwright.command('describe', 'machinedeployment', 'pool'));
      return /, (no answer|not asked)/.test(answer.output) ? undefined : answer;
    });
    expect(output).toMatch(/Blocked by/);
    expect(output).toMatch(/Blocked on +CloudCapacity/);
    const event = await until('the Event is there', async (see) => {
      const { items } = see(await millwright.control.list(kubeEvents, { namespace: millwright.namespace }));
      return items.find(({ reason, regarding }) => reason === 'ProgressDeadlineExceeded' && regarding.name === 'pool');
    });
    expect(event).toMatchObject({
      type: 'Warning',
      note: expect.stringMatching(/^no progress for 5 s; blocked by 1 machine: pool-\S+: CrashLoopBackOff, Resource/),
    });
    const reported = await rollout('status');
    expect(reported.code).toBe(1);
    expect(reported.output).toMatch(
      /the progress deadline has passed: 1 of 2 .* rollout retry .*\n +pool-\S+: CrashLoopBackOff, R/,
    );
    const elsewhere = await rollout('retry', '--installation', 'other');
    expect(elsewhere.code).toBe(1);
    expect(elsewhere.output).toMatch(
      /installation 'other' has no open .* its 1 machine that .* complete the rollout: .* --inst/,
    );

    // From a retry on it has as long as its deadline before it is late again, though nothing has moved yet.
    await millwright.changeDeployment('pool', { spec: { progressDeadlineSeconds: 600 } });
    const retried = await rollout('retry');
    expect(retried).toMatchObject({
      code: 0,
      output: expect.stringMatching(/signalled the rollout and 1 machine to retry now/),
    });
    const trying = await until('the deadline is seen', async (see) => {
      const answer = see(await rollout('status', '--watch', 'false'));
      return answer.output.includes('to be observed') ? undefined : answer;
    });
    expect([trying.code, trying.output]).toEqual([
      0,
      expect.stringMatching(
        /the progress deadline has passed: 1 of 2 .*; retry was signalled at .*Z; it is late again at .*Z\n +pool-/,
      ),
    ]);

    await millwright.cloud.setFaults();
    expect((await rollout('retry')).code).toBe(0);
    const done = await rollout('status');
    expect([done.code, done.output]).toEqual([0, expect.stringMatching(/complete, 2 of 2/)]);
    await millwright.untilComplete('pool', 'sold-out');
    expect((await failedRuns()).length).toBe(1);
  }, 400_000);

  it('[mcm 83 partly] goes back to the template of a revision, and only to one that there is', async () => {
    const { output } = await rollout('history');
    expect(output).toMatch(/REVISION[^]*\n1 +pool-\S+ +0 +small\n2 \(current\) +pool-\S+ +2 +sold-out/);
    const missing = await rollout('undo', '--to-revision', '9');
    expect([missing.code, missing.output]).toEqual([
      1,
      expect.stringMatching(/has no revision 9; revisions: 1, 2; see .* rollout history/),
    ]);
    const present = await rollout('undo', '--to-revision', '2');
    expect([present.code, present.output]).toEqual([
      0,
      expect.stringMatching(/nothing to do, revision 2 has the current/),
    ]);

    expect((await rollout('undo')).output).toMatch(/rolled back to the template of revision 1/);
    const { metadata, spec } = await millwright.untilComplete('pool', 'small');
    expect(metadata.annotations?.[annotations.revision]).toBe('3');
    expect(spec?.template?.metadata?.labels).toEqual({ name: 'pool' });
    expect((await rollout('history')).output).toMatch(/\n2 +pool-\S+ +0 +sold-out\n3 \(current\) +pool-\S+ +2 +small/);
  });

  it('[mcm 78 partly] rolls nothing over while it is paused, and goes on when it is resumed', async () => {
    const before = (await millwright.machines()).map(({ metadata }) => metadata.uid).toSorted();
    expect((await rollout('pause')).code).toBe(0);
    await untilReason('DeploymentPaused');
    const nothingRolls = await rollout('status');
    expect(nothingRolls.code).toBe(0);
    expect(nothingRolls.output).toMatch(/complete, 2 of 2 .*; it is paused, to resume: .* rollout resume pool/);
    const refused = await rollout('restart');
    expect([refused.code, refused.output]).toEqual([
      1,
      expect.stringMatching(/is paused: resume it first with .* rollout resume pool/),
    ]);
    await millwright.changeDeployment('pool', {
      spec: { template: { metadata: { annotations: { note: 'while paused' } } } },
    });
    await until('the change is seen', async (see) => {
      const { status, metadata } = see(await millwright.deployment('pool'));
      return status?.observedGeneration === metadata.generation;
    });
    expect((await millwright.machines()).map(({ metadata }) => metadata.uid).toSorted()).toEqual(before);
    const { output: described } = await until('it is at rest', async (see) => {
      const answer = see(await millwright.command('describe', 'mcd', 'pool'));
      return /not open/.test(answer.output) ? answer : undefined;
    });
    expect(described).toMatch(/^Workflow .*, not open: there is nothing to do while it is paused$/m);
    expect(described).toMatch(/^Waiting for +2 old machines stay while it is paused$/m);
    expect(described).toMatch(/^To unblock +millwright rollout resume pool -n/m);
    const again = await rollout('pause');
    expect([again.code, again.output]).toEqual([
      1,
      expect.stringMatching(/pool is already paused; to resume it: .* resume/),
    ]);

    expect((await rollout('resume')).code).toBe(0);
    const { code, output } = await rollout('status');
    expect([code, output]).toEqual([0, expect.stringMatching(/complete/)]);
    await millwright.untilComplete('pool', 'small');
    const after = (await millwright.machines()).map(({ metadata }) => metadata.uid);
    expect(after.filter((uid) => before.includes(uid))).toEqual([]);
  });

  it('[invariant 2 partly] goes on with a corrected template when the class of the one before it is beyond use', async () => {
    const { control, cloud, namespace } = millwright;
    const classOf = (machineType: string) => ({
      providerSpec: { endpoint: cloud.url, machineType, region: 'here', tags: { cluster: namespace } },
    });
    await millwright.createClass('wrong', classOf('huge'));
    await millwright.createClass('right', classOf('medium'));
    await millwright.changeDeployment('pool', { spec: { template: { spec: { class: { name: 'wrong' } } } } });
    await until(
      'a machine is refused',
      async () => {
        const found = await millwright.machines();
        return found.find(({ status }) => status?.lastOperation?.errorCode === 'InvalidArgument');
      },
      { describe: () => millwright.story() },
    );

    const nowhere = mergePatch({ providerSpec: { endpoint: null } });
    await control.patch(machineClasses, { namespace, name: 'wrong' }, nowhere);
    await millwright.changeDeployment('pool', { spec: { template: { spec: { class: { name: 'right' } } } } });

    await millwright.untilComplete('pool', 'right');
  });

  it('replaces all machines when it is restarted', async () => {
    const before = (await millwright.machines()).map(({ metadata }) => metadata.uid);
    expect((await rollout('restart')).code).toBe(0);
    await until(
      'all machines are others',
      async () => {
        const found = await millwright.machines();
        return found.some(({ metadata }) => before.includes(metadata.uid)) ? undefined : true;
      },
      { describe: () => millwright.story() },
    );
    await millwright.untilComplete('pool', 'right');
    expect((await millwright.deployment('pool')).spec?.template?.metadata?.annotations).toHaveProperty([
      names.restartedAt,
    ]);
  });

  it('says what a scale-up waits for, though nothing rolls', async () => {
    await millwright.cloud.setFaults({ kind: 'capacity', machineType: 'medium' });
    await millwright.changeDeployment('pool', { spec: { replicas: replicas + 1 } });
    await until('the machine was refused', async (see) => {
      const found = see(await millwright.machines());
      return found.some(({ status }) => status?.lastOperation?.errorCode === 'ResourceExhausted');
    });
    await until('the change is observed', async (see) => {
      const { status, metadata } = see(await millwright.deployment('pool'));
      return status?.observedGeneration === metadata.generation;
    });

    const [status, described] = await Promise.all([
      rollout('status', '--watch', 'false'),
      millwright.command('describe', 'mcd', 'pool'),
    ]);
    await millwright.cloud.setFaults();
    await millwright.changeDeployment('pool', { spec: { replicas } });
    await millwright.untilComplete('pool', 'right');

    for (const { output } of [status, described]) {
      expect(output).toMatch(/1 machine is not running/);
      expect(output).toMatch(/pool-\S+: CrashLoopBackOff, ResourceExhausted/);
    }
  });

  it('is refused for a deployment that is being deleted, or that does not exist', async () => {
    const held = 'example.com/held';
    const { uid } = (await millwright.deployment('pool')).metadata;
    const changeFinalizers = (change: (finalizers: readonly string[]) => string[]) =>
      update(millwright.control, machineDeployments, { ...key(), uid }, ({ metadata: { finalizers = [] } }) => ({
        metadata: { finalizers: change(finalizers) },
      }));
    await changeFinalizers((all) => [...all, held]);
    await millwright.control.delete(machineDeployments, key());
    const outcomes = await Promise.all([
      rollout('undo'),
      rollout('status'),
      millwright.command('rollout', 'pause', 'poool'),
    ]);
    await changeFinalizers((all) => all.filter((finalizer) => finalizer !== held));

    const gone = expect.stringMatching(
      /pool is being deleted for .* \(since .*Z\): create a deployment with another name/,
    );
    expect(outcomes).toEqual([
      { code: 1, output: gone },
      { code: 1, output: gone },
      { code: 1, output: expect.stringMatching(/poool does not exist .*: correct the name or --namespace/) },
    ]);
  });
});
