/** What becomes of what is under way when an upgrade has changed the code of the workflows, without `patched()`. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { labels, taints } from '../../api/gardener/names.ts';
import { machineDeployments, machines } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { names, searchAttributes } from '../../api/names.ts';
import { type WorkflowKind, workflowId } from '../../api/workflow-id.ts';
import { events, nodes } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type ChangedBuild, makeChangedBuild } from '../support/changed-build.ts';
import { guardNode } from '../support/guarded-node.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { type MillwrightProcess, startMillwright } from '../support/millwright.ts';
import { makeVm, startSweep, untilOld } from '../support/sweeps.ts';
import { until } from '../support/until.ts';

const flags = ['--orphan-confirm-after', '20s', '--orphan-minimum-age', '1s'];

/** One activity more before each phase of a machine, each step of an owner, and the first look of a sweep. */
const changes = {
  'workflows/machine/machine.ts': [
    ['return await phase(state);', 'await kubernetes.observeMachine(state.ref);\n    return await phase(state);'],
  ],
  'workflows/rollout/step.ts': [
    ['import { actOnOwner, observeOwner }', 'import { actOnOwner, listBlockers, observeOwner }'],
    ['const askedMs = Date.now();', 'const askedMs = Date.now();\n  await listBlockers(run.ref);'],
  ],
  'workflows/orphansweep/sweep.ts': [
    ["show(sweep, { doing: 'reading the sources' });", 'await kubernetes.readSweepScope(input);'],
  ],
} as const;

interface UnderWay {
  readonly id: string;
  /** The run that the first build had. */
  readonly runId: string;
}

describe('[invariant 1] a build with other workflows takes over from one', () => {
  let build: ChangedBuild;
  let millwright: Installation;
  let second: MillwrightProcess;
  let release: () => Promise<unknown>;
  let sweep: ReturnType<typeof startSweep>;
  const refs: Partial<Record<'creating' | 'joining' | 'draining' | 'pool', ObjectRef>> = {};
  const underWay: Record<string, UnderWay> = {};

  beforeAll(async () => {
    build = await makeChangedBuild(changes);
    millwright = await startInstallation({ alone: 'another build takes over', flags, cloud: { maxGraceMs: 200 } });
    const { cloud, control, namespace } = millwright;
    const of = (fault: string) => ({ tags: { fault, cluster: namespace } });
    for (const fault of ['hanging', 'tainted', 'out']) {
      const providerSpec = { endpoint: cloud.url, machineType: 'small', region: 'here', ...of(fault) };
      const startingUp = { taints: [taints.criticalComponentsNotReady] };
      await millwright.createClass(fault, {
        providerSpec: { ...providerSpec, ...(fault === 'tainted' && startingUp) },
      });
    }
    const create = (name: string, machineClass: string) =>
      millwright.createMachine(`${name}-${namespace}`, { class: { kind: 'MachineClass', name: machineClass } });

    await millwright.createDeployment('pool', 2);
    refs.draining = await create('draining', 'small');
    await millwright.untilMachines(3, 'Running');
    const { metadata } = await control.get(machineDeployments, { namespace, name: 'pool' });
    refs.pool = { dialect: 'gardener', namespace, name: 'pool', uid: metadata.uid };
    const guarded = refs.draining;
    release = await guardNode(millwright.target, namespace, guarded.name);

    await cloud.setFaults(
      { kind: 'hang', effect: 'done', operation: 'create', times: 1, ...of('hanging') },
      { kind: 'outage', how: 'unavailable', operation: 'create', ...of('out') },
    );
    await makeVm(millwright, 'orphan');
    await untilOld(millwright);
    refs.joining = await create('joining', 'tainted');
    await control.delete(machines, guarded);
    const other = mergePatch({ spec: { template: { spec: { class: { name: 'out' } } } } });
    await control.patch(machineDeployments, { namespace, name: 'pool' }, other);
    sweep = startSweep(millwright);

    await until(
      'all are in the middle',
      async () => {
        const found = await millwright.machines();
        const isRefused = found.some(({ status }) => status?.lastOperation?.errorCode === 'Unavailable');
        const isJoining = found.some((each) => each.metadata.name.startsWith('joining') && phaseOf(each) === 'Pending');
        const isBlocked = (await millwright.describe(guarded)).blockedOn === 'PodDisruptionBudget';
        return isRefused && isJoining && isBlocked && sweep.logs().includes('look again');
      },
      { describe: () => millwright.story() },
    );
    // Last, for the provider gives a call up after 15 s and finds the VM: the machine would be past its creation.
    refs.creating = await create('creating', 'hanging');
    await until('the VM of the creation is made', async (see) =>
      see(await cloud.vms()).some(({ name }) => name.startsWith('creating')),
    );
    for (const [name, ref] of Object.entries(refs)) await note(name, idOf(ref));
    await note('sweep', `${namespace}/orphan-sweep/now`);

    await Promise.all(millwright.processes.map((each) => each.stop()));
    second = await startMillwright({ namespace, program: build.program, isElected: false, flags });
  });
  afterAll(async () => {
    await sweep?.kill('SIGKILL');
    await second?.stop();
    await millwright?.stop();
    await build?.remove();
  });

  function idOf(ref: ObjectRef): string {
    const kind: WorkflowKind = ref.name === 'pool' ? 'MachineDeployment' : 'Machine';
    return workflowId(millwright.namespace, kind, ref);
  }
  async function note(name: string, id: string): Promise<void> {
    const { runId } = await millwright.temporal.workflow.getHandle(id).describe();
    underWay[name] = { id, runId };
  }

  /** Waits until the run of the first build has failed, and sees why. */
  async function untilFailed(name: string): Promise<void> {
    const { id, runId } = underWay[name] ?? { id: '', runId: '' };
    const handle = millwright.temporal.workflow.getHandle(id, runId);
    await until(`the run of ${name} has failed`, async (see) => see(await handle.describe()).status.name === 'FAILED', {
      describe: async () => second.logs().slice(-3_000),
    });
    const last = (await handle.fetchHistory()).events?.at(-1);
    expect(last?.workflowExecutionFailedEventAttributes?.failure?.message).toContain('Nondeterminism');
  }

  async function untilTold(name: string): Promise<void> {
    const { namespace, control } = millwright;
    await until(`an Event names ${name}`, async (see) => {
      const { items } = see(await control.list(events, { namespace }));
      return items.find(
        ({ reason, type, regarding, note: text }) =>
          reason === 'RunFailed' &&
          type === 'Warning' &&
          regarding?.name === refs[name as keyof typeof refs]?.name &&
          text?.includes('NonDeterminism'),
      );
    });
  }

  it('in the middle of a creation whose answer is lost with it', async () => {
    await untilFailed('creating');
    await millwright.untilPhase(refs.creating!, 'Running');
    await untilTold('creating');
    expect(await millwright.vmsOf(refs.creating!)).toHaveLength(1);
  }, 360_000);

  it('while a node joins, and says so in `millwright describe` from then on', async () => {
    await untilFailed('joining');
    await millwright.target.patch(nodes, { name: refs.joining!.name }, mergePatch({ spec: { taints: null } }));
    await millwright.untilPhase(refs.joining!, 'Running');
    await untilTold('joining');
    expect(await millwright.vmsOf(refs.joining!)).toHaveLength(1);
    const lastRun = /^Last failed run +.* ago \(.*Z\) \(NonDeterminism: \[TMPRL1100\][^]*; a new run took over$/m;
    expect((await millwright.command('describe', 'machine', refs.joining!.name)).output).toMatch(lastRun);
  }, 360_000);

  it('in the middle of a drain', async () => {
    await untilFailed('draining');
    await untilTold('draining');
    await until('it drains again', async (see) => {
      const { blockedOn } = see(await millwright.describe(refs.draining!));
      return blockedOn === 'PodDisruptionBudget';
    });
    await release();
    await until(
      'the machine is gone',
      async (see) => see(await millwright.control.find(machines, refs.draining!)) === undefined,
      { describe: async () => second.logs().slice(-3_000) },
    );
    const vms = await millwright.vmsOf(refs.draining!);
    expect(vms.map(({ state }) => state)).toEqual(['terminated']);
  }, 360_000);

  it('[invariant 5] in the middle of a rollout', async () => {
    await untilFailed('pool');
    await untilTold('pool');
    expect((await millwright.command('describe', 'machinedeployment', 'pool')).output).toMatch(
      /^Last failed run +.* ago \(.*Z\) \(NonDeterminism/m,
    );
    await millwright.cloud.setFaults();
    const found = await until(
      'the rollout is complete',
      async () => {
        const all = await millwright.machines();
        const own = all.filter(({ metadata }) => metadata.labels?.[labels.name] === 'pool');
        const isNew = own.every((each) => each.spec?.class?.name === 'out' && phaseOf(each) === 'Running');
        return own.length === 2 && isNew ? own : undefined;
      },
      { describe: async () => second.logs().slice(-3_000) },
    );
    expect(found).toHaveLength(2);
  }, 360_000);

  it('[invariant 4] in the middle of a sweep, which begins from the start', async () => {
    await untilFailed('sweep');
    expect(await sweep.exited).toEqual({ code: 0, signal: null });
    const orphan = (await millwright.cloud.vms({ all: true })).find(({ name }) => name === 'orphan');
    expect(orphan?.state).toBe('terminated');
    expect(sweep.logs()).toMatch(/deleted vm .* orphan/);
  }, 360_000);

  it('with one VM for each Machine, a count of the runs that have failed, and no task that goes on failing', async () => {
    const all = await millwright.cloud.vms({ all: true });
    const uids = all.map(({ tags }) => tags[names.machineUid]);
    expect(uids).toHaveLength(new Set(uids).size);
    expect(all.filter(({ state }) => state !== 'terminated')).toHaveLength((await millwright.machines()).length);

    const metrics = await (await fetch(`${second.url}/metrics`)).text();
    for (const type of ['machine', 'rollout', 'orphanSweep']) {
      const count = `runs_failed_total{workflow_type="${type}",reason="NonDeterminism"} `;
      expect(metrics.split(count).slice(1)).toEqual([expect.stringMatching(/^[1-9]/)]);
    }

    const query = `${searchAttributes.installation} = '${millwright.namespace}' AND ExecutionStatus = 'Running'`;
    for await (const { workflowId: id } of millwright.temporal.workflow.list({ query })) {
      const { raw } = await millwright.temporal.workflow.getHandle(id).describe();
      expect({ id, attempt: raw.pendingWorkflowTask?.attempt ?? 1 }).toEqual({ id, attempt: 1 });
    }
  });
});
