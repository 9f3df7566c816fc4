/** Machines that an agent on their Nodes updates: the VMs stay. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { annotations, labels, taints, updateResults } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { MachineDeployment } from '../../api/gardener/schema/machine-deployment.ts';
import { names } from '../../api/names.ts';
import { controllerOf } from '../../api/owner/ownership.ts';
import { type Node, nodes, pods } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Reflector, startReflector } from '../../kube/reflector.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { recordingLogger } from '../support/kube.ts';
import { until } from '../support/until.ts';

describe('a deployment that updates its machines in place', () => {
  let millwright: Installation;
  let machineWatch: Reflector<Machine>;
  let nodeWatch: Reflector<Node>;
  /** What an agent says of a Node that is ready to be updated; undefined: nothing. */
  const agents = new Map<string, (node: Node) => string | undefined>();
  const samplers = new Set<() => void>();

  beforeAll(async () => {
    millwright = await startInstallation({ cloud: { statusUpdateMs: 2 ** 31 - 1, maxGraceMs: 200 } });
    millwright.recordAs('in-place');
    const sample = () => {
      if (machineWatch?.store.synced && nodeWatch?.store.synced) for (const each of samplers) each();
    };
    const { control, target, namespace } = millwright;
    const logger = recordingLogger();
    machineWatch = startReflector<Machine>({ client: control, resource: machines, namespace, logger, onEvent: sample });
    nodeWatch = startReflector<Node>({
      ...{ client: target, resource: nodes, logger },
      onEvent: () => {
        sample();
        for (const node of nodeWatch?.store.list() ?? []) void playAgent(node).catch(() => undefined);
      },
    });
    await Promise.all([machineWatch.waitForSync(), nodeWatch.waitForSync()]);
  });
  afterAll(async () => {
    await Promise.all([machineWatch?.stop(), nodeWatch?.stop()]);
    await millwright?.stop();
  });

  /** The agent on a Node, and whoever sees its critical components run after it was handed over. */
  async function playAgent(node: Node): Promise<void> {
    const { name } = node.metadata;
    const answer = agents.get(name);
    if (answer === undefined) return;
    const rest = node.spec?.taints?.filter(({ key }) => key !== taints.criticalComponentsNotReady.key) ?? [];
    if (rest.length < (node.spec?.taints?.length ?? 0)) {
      await millwright.target.patch(nodes, { name }, mergePatch({ spec: { taints: rest } }));
      return;
    }
    if (reasonOf(node) !== 'ReadyForUpdate' || node.metadata.labels?.[labels.updateResult] !== undefined) return;
    const result = answer(node);
    if (result === undefined) return;
    const failed = result === updateResults.failed && { annotations: { [annotations.updateFailedReason]: 'no space' } };
    const patch = mergePatch({ metadata: { labels: { [labels.updateResult]: result }, ...failed } });
    await millwright.target.patch(nodes, { name }, patch);
  }

  const wait = <T>(what: string, check: () => Promise<T | false | undefined>): Promise<T> =>
    until(what, check, { describe: () => millwright.story() });
  const keyOf = (name: string) => ({ namespace: millwright.namespace, name });
  const reasonOf = ({ status }: Node) => status?.conditions?.find(({ type }) => type === 'InPlaceUpdate')?.reason;
  const nodeOf = (name: string): Promise<Node> => millwright.target.get(nodes, { name });
  const machinesOf = (name: string) =>
    machineWatch.store.list().filter(({ metadata }) => metadata.labels?.[labels.name] === name);
  const isOfUpdate = ({ metadata }: Node) =>
    [labels.candidateForUpdate, labels.selectedForUpdate, labels.updateResult].some(
      (key) => metadata.labels?.[key] !== undefined,
    );

  interface Update {
    readonly maxSurge?: number;
    readonly maxUnavailable?: number;
    readonly orchestrationType?: 'Auto' | 'Manual';
    readonly inPlaceUpdateTimeout?: string;
  }

  /** Machines that run. Their Nodes have their names. */
  async function pool(name: string, replicas: number, update: Update = {}): Promise<Machine[]> {
    const { maxSurge = 0, maxUnavailable = 1, orchestrationType = 'Auto', inPlaceUpdateTimeout = '20m' } = update;
    await millwright.createDeployment(name, replicas, {
      strategy: { type: 'InPlaceUpdate', inPlaceUpdate: { maxSurge, maxUnavailable, orchestrationType } },
      template: {
        metadata: { labels: { [labels.name]: name } },
        spec: { class: { kind: 'MachineClass', name: 'small' }, disableHealthTimeout: true, inPlaceUpdateTimeout },
      },
    });
    return wait(`${name} runs`, async () => {
      const all = machinesOf(name);
      const isDone = all.length === replicas && all.every((each) => phaseOf(each) === 'Running');
      return isDone && isComplete(name).then((is) => is && all);
    });
  }

  async function isComplete(name: string): Promise<boolean> {
    const { status } = await millwright.control.get(machineDeployments, keyOf(name));
    const progressing = status?.conditions?.find(({ type }) => type === 'Progressing');
    return progressing?.reason === 'NewMachineSetAvailable';
  }

  const change = (name: string) =>
    millwright.control.patch<MachineDeployment>(
      machineDeployments,
      keyOf(name),
      mergePatch({ spec: { template: { metadata: { annotations: { version: 'new' } } } } }),
    );

  /** The set of the current template, and the one before. */
  async function setsOf(name: string) {
    return wait(`${name} has two sets`, async () => {
      const { items } = await millwright.control.list(machineSets, { namespace: millwright.namespace });
      const own = items.filter(({ metadata }) => metadata.name.startsWith(`${name}-`));
      const isNew = ({ spec }: (typeof own)[number]) => spec?.template?.metadata?.annotations?.['version'] === 'new';
      const [fresh, old] = [own.find(isNew), own.find((each) => !isNew(each))];
      return fresh && old && { fresh, old };
    });
  }

  const untilUpdated = (name: string, count: number) =>
    wait(`${name} is updated`, async () => {
      const { fresh } = await setsOf(name);
      const all = machinesOf(name);
      const isOfNew = (each: Machine) => controllerOf(each) === fresh.metadata.uid && phaseOf(each) === 'Running';
      const isDone = all.length === count && all.every(isOfNew) && (await isComplete(name));
      const clean = isDone && (await Promise.all(all.map(({ metadata }) => nodeOf(metadata.name))));
      return clean && clean.every((node) => !isOfUpdate(node) && !node.spec?.unschedulable) && all;
    });

  it('[mcm 99] takes at most maxUnavailable of them at a time, drained, and hands each one over with its VM', async () => {
    const before = await pool('auto', 5, { maxUnavailable: 2 });
    const { namespace, target } = millwright;
    for (const { metadata } of before) {
      agents.set(metadata.name, (node) => (node.spec?.unschedulable ? updateResults.successful : updateResults.failed));
      await target.create(pods, {
        metadata: { namespace, name: metadata.name },
        spec: { nodeName: metadata.name, containers: [{ name: 'app', image: 'app' }] },
      });
    }
    const seen = { selected: 0, available: 5, total: 5 };
    const sample = () => {
      const all = machinesOf('auto');
      const selected = nodeWatch.store
        .list()
        .filter(({ metadata }) => metadata.labels?.[labels.selectedForUpdate] && agents.has(metadata.name));
      seen.selected = Math.max(seen.selected, selected.length);
      seen.available = Math.min(seen.available, all.filter((each) => phaseOf(each) === 'Running').length);
      seen.total = Math.max(seen.total, all.length);
    };
    samplers.add(sample);
    await change('auto');
    const after = await untilUpdated('auto', 5);
    samplers.delete(sample);

    const { available, ...most } = seen;
    expect(most).toEqual({ selected: 2, total: 5 });
    expect(available).toBeGreaterThanOrEqual(3);
    const identity = ({ metadata, spec }: Machine) => [metadata.uid, spec?.providerID];
    expect(after.map(identity).sort()).toEqual(before.map(identity).sort());
    for (const { metadata } of before) {
      expect(await target.find(pods, { namespace, name: metadata.name })).toBeUndefined();
      expect(reasonOf(await nodeOf(metadata.name))).toBe('UpdateSuccessful');
    }
    const { old, fresh } = await setsOf('auto');
    expect([old.spec?.replicas, fresh.spec?.replicas]).toEqual([0, 5]);
  });

  it('[mcm 100] drains only those that a person has labelled where it is Manual', async () => {
    const all = await pool('manual', 3, { orchestrationType: 'Manual', maxUnavailable: 3 });
    for (const { metadata } of all) agents.set(metadata.name, () => updateResults.successful);
    const cordoned = new Set<string>();
    const sample = () => {
      for (const { metadata, spec } of nodeWatch.store.list()) if (spec?.unschedulable) cordoned.add(metadata.name);
    };
    samplers.add(sample);
    await change('manual');
    const nodeNames = all.map(({ metadata }) => metadata.name);
    await wait('all are candidates', async () => {
      const found = await Promise.all(nodeNames.map(nodeOf));
      return found.every((node) => reasonOf(node) === 'CandidateForUpdate');
    });
    const [chosen = ''] = nodeNames;
    const labelled = mergePatch({ metadata: { labels: { [labels.selectedForUpdate]: 'true' } } });
    await millwright.target.patch(nodes, { name: chosen }, labelled);
    const { fresh } = await setsOf('manual');
    await wait('it is handed over', async () => {
      const machine = machinesOf('manual').find(({ metadata }) => metadata.name === chosen);
      return machine && controllerOf(machine) === fresh.metadata.uid && !isOfUpdate(await nodeOf(chosen));
    });
    expect(nodeNames.filter((name) => cordoned.has(name))).toEqual([chosen]);

    for (const name of nodeNames.slice(1)) await millwright.target.patch(nodes, { name }, labelled);
    await untilUpdated('manual', 3);
    samplers.delete(sample);
  });

  it('[mcm 101] shows what has failed or takes too long, leaves it in its set, and goes on when its agent succeeds', async () => {
    const untilFailed = async (name: string, result: string | undefined, update: Update) => {
      const [before] = await pool(name, 1, update);
      const machine = before?.metadata.name ?? '';
      agents.set(machine, () => result);
      await change(name);
      const { old } = await setsOf(name);
      const [failed] = await wait(`${name} has failed`, async () => {
        const found = machinesOf(name);
        return found.every((each) => phaseOf(each) === 'InPlaceUpdateFailed') && found;
      });
      expect(failed && controllerOf(failed)).toBe(old.metadata.uid);
      return { name, machine, uid: before?.metadata.uid, description: failed?.status?.lastOperation?.description };
    };
    const [refusing, silent] = await Promise.all([
      untilFailed('refusing', updateResults.failed, {}),
      untilFailed('silent', undefined, { inPlaceUpdateTimeout: '3s' }),
    ]);
    expect(refusing.description).toBe(`Machine ${refusing.machine} failed to update dependencies: no space`);
    expect(silent.description).toBe(`Machine ${silent.machine} failed to in-place update in 3 s`);
    await wait('its Node says so', async () => reasonOf(await nodeOf(refusing.machine)) === 'UpdateFailed');

    for (const { name, machine, uid } of [refusing, silent]) {
      const succeeded = mergePatch({ metadata: { labels: { [labels.updateResult]: updateResults.successful } } });
      await millwright.target.patch(nodes, { name: machine }, succeeded);
      const [after] = await untilUpdated(name, 1);
      expect(after?.metadata.uid).toBe(uid);
      expect((await nodeOf(machine)).metadata.annotations).not.toHaveProperty([annotations.updateFailedReason]);
    }
  });

  it('[mcm 102] makes no machine in its old set meanwhile, also when one of that is deleted or the replicas change', async () => {
    const all = await pool('growing', 3);
    const isOld = new Set(all.map(({ metadata }) => metadata.uid));
    for (const { metadata } of all) agents.set(metadata.name, () => undefined);
    await change('growing');
    const { old } = await setsOf('growing');
    const strangers = new Set<string>();
    const sample = () => {
      for (const machine of machinesOf('growing'))
        if (controllerOf(machine) === old.metadata.uid && !isOld.has(machine.metadata.uid))
          strangers.add(machine.metadata.name);
    };
    samplers.add(sample);
    const turn = await wait('one is being updated', async () =>
      machinesOf('growing').find((each) => phaseOf(each) === 'InPlaceUpdating'),
    );
    const other = all.find(({ metadata }) => metadata.uid !== turn.metadata.uid);
    await millwright.control.delete(machines, keyOf(other?.metadata.name ?? ''));
    await millwright.scale('growing', 4);
    for (const { metadata } of all) agents.set(metadata.name, () => updateResults.successful);
    await playAgent(await nodeOf(turn.metadata.name));
    const after = await untilUpdated('growing', 4);
    samplers.delete(sample);
    expect([...strangers]).toEqual([]);
    expect(after.filter(({ metadata }) => isOld.has(metadata.uid))).toHaveLength(2);
  });

  it('leaves alone again those that are not drained when its template goes back, and the others when their agents succeed', async () => {
    const all = await pool('back', 2);
    for (const { metadata } of all) agents.set(metadata.name, () => undefined);
    await change('back');
    const turn = await wait('one is being updated', async () =>
      machinesOf('back').find((each) => phaseOf(each) === 'InPlaceUpdating'),
    );
    const other = all.find(({ metadata }) => metadata.uid !== turn.metadata.uid)?.metadata.name ?? '';
    await wait('the other one is a candidate', async () => reasonOf(await nodeOf(other)) === 'CandidateForUpdate');
    const back = mergePatch({ spec: { template: { metadata: { annotations: null } } } });
    await millwright.control.patch<MachineDeployment>(machineDeployments, keyOf('back'), back);
    await wait('it is none any more', async () => {
      const [machine, node] = [await millwright.control.get(machines, keyOf(other)), await nodeOf(other)];
      const isMarked = machine.metadata.annotations?.[names.inPlaceUpdate] !== undefined;
      return !isMarked && !isOfUpdate(node) && reasonOf(node) === undefined;
    });
    expect((await nodeOf(other)).spec?.unschedulable).toBeUndefined();

    const { name } = turn.metadata;
    expect((await nodeOf(name)).spec?.unschedulable).toBe(true);
    agents.set(name, () => updateResults.successful);
    await playAgent(await nodeOf(name));
    await wait('the drained one takes pods again', async () => {
      const [machine, node] = [await millwright.control.get(machines, keyOf(name)), await nodeOf(name)];
      const isMarked = machine.metadata.labels?.[labels.updateResult] !== undefined;
      const isBack = !isMarked && !isOfUpdate(node) && !node.spec?.unschedulable && phaseOf(machine) === 'Running';
      return isBack && (await isComplete('back'));
    });
  });
});
