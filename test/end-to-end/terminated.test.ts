/** What becomes of machines and their owners when somebody terminates their workflows in the Temporal UI. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { labels } from '../../api/gardener/names.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import type { WorkflowKind } from '../../api/workflow-id.ts';
import { mergePatch } from '../../kube/patch.ts';
import { guardNode } from '../support/guarded-node.ts';
import { phaseOf } from '../support/installation.ts';
import { isThorough } from '../support/long.ts';
import { until } from '../support/until.ts';
import { startWatchedInstallation, type WatchedInstallation } from '../support/watched-installation.ts';

/** More than are created at once. */
const owned = 24;

const timeoutMs = 180_000;
const isOfOwner = (scenario: string) => scenario.startsWith('[invariant 5]');

/** Controllers look again every 5 s here; people have 60 s. */
describe('[invariant 1] a workflow that is terminated by hand is started again', () => {
  let millwright: WatchedInstallation;
  const outcomes = new Map<string, Promise<void>>();

  beforeAll(async () => {
    millwright = await startWatchedInstallation({ resyncMs: 5_000, cloud: { maxGraceMs: 200 } });
    millwright.recordAs('terminated');
    const { cloud } = millwright;
    const of = (fault: string) => ({ tags: { fault } });
    await cloud.setFaults(
      { kind: 'latency', ms: 12_000, operation: 'create', ...of('late') },
      { kind: 'ignoreTokens', ...of('late') },
      { kind: 'hang', effect: 'done', operation: 'create', times: 1, ...of('hanging') },
      { kind: 'capacity', ...of('full') },
      { kind: 'neverJoin', ...of('joining') },
      { kind: 'hang', ms: 20_000, effect: 'none', operation: 'delete', times: 1, ...of('kept') },
      { kind: 'outage', how: 'unavailable', operation: 'delete', times: 8, ...of('refusing') },
    );
    for (const fault of ['late', 'hanging', 'full', 'joining', 'kept', 'refusing']) {
      await millwright.createClass(fault, {
        providerSpec: { endpoint: cloud.url, machineType: 'small', region: 'here', tags: { fault } },
      });
    }
    for (const [name, run] of Object.entries(scenarios)) if (!isOfOwner(name)) outcomes.set(name, run());
    if (isThorough()) startOwners();
    for (const outcome of outcomes.values()) outcome.catch(() => undefined); // its test reports it
  });
  afterAll(async () => {
    await millwright?.stop();
  });

  /** Starts them when all others have ended: their machines would only be in the way. */
  function startOwners(): void {
    const { proxy } = millwright;
    const afterThem = Promise.allSettled(outcomes.values()).then(() =>
      // So that there is a middle of creating machines, long enough to be met.
      proxy.setRule(({ method, url }) =>
        method === 'POST' && url.pathname.endsWith('/machines') ? { kind: 'delay', ms: 3_000 } : undefined,
      ),
    );
    for (const [name, run] of Object.entries(scenarios)) {
      if (isOfOwner(name)) outcomes.set(name, afterThem.then(run));
    }
  }

  const create = (name: string, machineClass = 'small') =>
    millwright.createMachine(`${name}-${millwright.namespace}`, {
      class: { kind: 'MachineClass', name: machineClass },
    });
  const untilSaying = (ref: ObjectRef, what: string, check: (description: { doing: string }) => boolean) =>
    until(
      `${ref.name} is ${what}`,
      async (see) => {
        const description = see(await millwright.describe(ref).catch(() => undefined));
        return description && check(description) ? description : undefined;
      },
      { timeoutMs },
    );

  /** Terminates its workflow as the UI does, and waits until another run has taken over. */
  async function terminate(ref: ObjectRef, kind: WorkflowKind = 'Machine'): Promise<void> {
    const { runId } = await millwright.handleOf(ref, kind).describe();
    await millwright.handleOf(ref, kind).terminate('by hand');
    await until(
      `the workflow of ${ref.name} is started again`,
      async (see) => {
        const now = see(await millwright.handleOf(ref, kind).describe());
        return now.runId === runId ? undefined : true;
      },
      { timeoutMs },
    );
  }

  async function runAndGo(ref: ObjectRef): Promise<void> {
    await millwright.untilPhase(ref, 'Running', timeoutMs);
    expect(await millwright.vmsOf(ref)).toHaveLength(1);
    await millwright.control.delete(machines, ref);
    await goAway(ref);
  }

  async function goAway(ref: ObjectRef): Promise<void> {
    await millwright.untilGone(ref, timeoutMs);
    const vms = await millwright.vmsOf(ref);
    expect(vms).toHaveLength(1);
    expect(vms[0]?.state).toBe('terminated');
  }

  const scenarios = {
    async 'while it waits for its class'() {
      const ref = await create('classless', 'coming');
      await untilSaying(ref, 'waiting', ({ doing }) => doing.startsWith('checking'));
      await millwright.untilPhase(ref, 'CrashLoopBackOff', timeoutMs);
      await terminate(ref);
      await millwright.createClass('coming');
      await runAndGo(ref);
    },
    async 'while a create call hangs that has made a VM'() {
      const ref = await create('hanging', 'hanging');
      await until('the VM is there', async (see) => see(await millwright.vmsOf(ref)).length > 0);
      await terminate(ref);
      await runAndGo(ref);
    },
    async 'while a create call lasts, in a cloud without tokens, that makes the VM at its end'() {
      const ref = await create('late', 'late');
      await until('the call is made', async (see) => see(await createsOf(ref)) > 0);
      await terminate(ref);
      await runAndGo(ref);
    },
    async 'after a create call was refused'() {
      const ref = await create('refused', 'full');
      await millwright.untilPhase(ref, 'CrashLoopBackOff', timeoutMs);
      await terminate(ref);
      const withRoom = mergePatch({ providerSpec: { tags: { fault: 'none' } } });
      await millwright.control.patch(machineClasses, { namespace: ref.namespace, name: 'full' }, withRoom);
      await runAndGo(ref);
    },
    async 'while its node joins'() {
      const ref = await create('joining', 'joining');
      await millwright.untilPhase(ref, 'Pending', timeoutMs);
      await terminate(ref);
      const [vm] = await millwright.vmsOf(ref);
      await millwright.cloud.restartVm(vm?.id ?? '');
      await runAndGo(ref);
    },
    async 'while it runs: when something is to be done for it'() {
      const ref = await create('running');
      await millwright.untilPhase(ref, 'Running', timeoutMs);
      await millwright.handleOf(ref).terminate('by hand');
      await runAndGo(ref);
    },
    async 'while a PodDisruptionBudget blocks its drain'() {
      const ref = await create('guarded');
      await millwright.untilPhase(ref, 'Running', timeoutMs);
      const release = await guardNode(millwright.target, ref.namespace, ref.name);
      await millwright.control.delete(machines, ref);
      await until('the drain is blocked', async () => {
        return (await millwright.describe(ref)).blockedOn === 'PodDisruptionBudget';
      });
      await terminate(ref);
      await untilSaying(ref, 'draining again', ({ doing }) => doing === 'draining the node');
      await release();
      await goAway(ref);
    },
    async 'while a delete call hangs'() {
      const ref = await create('kept', 'kept');
      await millwright.untilPhase(ref, 'Running', timeoutMs);
      await millwright.control.delete(machines, ref);
      await untilSaying(ref, 'deleted', ({ doing }) => doing === 'deleting the VM');
      await terminate(ref);
      await goAway(ref);
    },
    async 'after a delete call was refused'() {
      const ref = await create('refusing', 'refusing');
      await millwright.untilPhase(ref, 'Running', timeoutMs);
      await millwright.control.delete(machines, ref);
      await until('it says so', async (see) => {
        const { status } = see(await millwright.control.get(machines, ref));
        return status?.lastOperation?.state === 'Failed';
      });
      await terminate(ref);
      await goAway(ref);
    },
    async '[invariant 5] of a MachineDeployment in the middle of creating'() {
      const { control, namespace } = millwright;
      await millwright.createDeployment('pool', owned);
      const key = { namespace, name: 'pool' };
      const { metadata } = await control.get(machineDeployments, key);
      await createsAll({ dialect: 'gardener', ...key, uid: metadata.uid }, 'MachineDeployment', owned);
      await control.delete(machineDeployments, key);
    },
    async '[invariant 5] of a MachineSet in the middle of creating'() {
      const { control, namespace } = millwright;
      const key = { namespace, name: 'alone' };
      const { metadata } = await control.create(machineSets, {
        metadata: key,
        spec: {
          replicas: owned,
          selector: { matchLabels: { [labels.name]: 'alone' } },
          template: {
            metadata: { labels: { [labels.name]: 'alone' } },
            spec: { class: { kind: 'MachineClass', name: 'small' } },
          },
        },
      });
      await createsAll({ dialect: 'gardener', ...key, uid: metadata.uid }, 'MachineSet', owned);
      await control.patch(machineSets, key, mergePatch({ spec: { replicas: 0 } }));
    },
  };

  async function createsOf({ name }: ObjectRef): Promise<number> {
    const [machine] = (await millwright.machines()).filter(({ metadata }) => metadata.name === name);
    const calls = await millwright.cloud.calls();
    return calls.filter(({ token }) => machine !== undefined && token?.startsWith(machine.metadata.uid)).length;
  }

  /** Terminates the owner's workflow when some of its machines are made, and sees that no other than these are. */
  async function createsAll(owner: ObjectRef, kind: WorkflowKind, replicas: number): Promise<void> {
    const uids = new Set<string>();
    const count = async () => {
      const found = (await millwright.machines()).filter(({ metadata }) => metadata.name.startsWith(`${owner.name}-`));
      for (const { metadata } of found) uids.add(metadata.uid);
      return found;
    };
    await until('some machines are made', async (see) => see(await count()).length > 0);
    expect((await count()).length).toBeLessThan(replicas);
    await terminate(owner, kind);
    await until(
      `${replicas} machines run`,
      async (see) => see(await count()).filter((each) => phaseOf(each) === 'Running').length >= replicas,
      { timeoutMs, describe: () => millwright.story() },
    );
    expect(uids.size).toBe(replicas);
  }

  for (const name of Object.keys(scenarios)) {
    if (isOfOwner(name) && !isThorough()) continue;
    const outcome = () => {
      const run = outcomes.get(name);
      if (run === undefined) throw new Error(`nothing was started for ${name}`); // a test of nothing would pass
      return run;
    };
    it(name, outcome, 3 * timeoutMs);
  }
});
