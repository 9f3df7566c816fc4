/** Has machine-controller-manager (MCM) itself bring machines and rollouts into the states of mcm-states.ts. */
import { annotations, labels, leases as leaseNames, updateResults } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { MachineDeployment } from '../../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../../api/gardener/schema/machine-set.ts';
import type { KubeObject } from '../../api/objects.ts';
import { leases, type Node, nodes, podDisruptionBudgets, pods } from '../../kube/core.ts';
import { mergePatch, strategicMergePatch } from '../../kube/patch.ts';
import { type Installation, phaseOf } from './installation.ts';
import { machineSpec } from './mcm.ts';
import type { McmProcesses } from './mcm-processes.ts';
import { inPlace, resting } from './mcm-states.ts';
import type { ObjectHistory } from './object-history.ts';

/** Flags of MCM: a short period of its freezes, and a creation timeout that is longer than the test. */
export const mcmFlags = {
  machineControllerManager: [
    ...['--kube-api-qps', '300', '--kube-api-burst', '600'],
    ...['--machine-safety-overshooting-period', '2s'],
  ],
  machineController: [
    ...['--kube-api-qps', '300', '--kube-api-burst', '600'],
    ...['--concurrent-syncs', '50', '--machine-creation-timeout', '2h'],
  ],
};

interface Lives {
  /** Its cluster is its own. */
  readonly installation: Installation;
  /** Of all kinds of MCM, and of the Nodes. */
  readonly history: ObjectHistory;
  start(): Promise<McmProcesses>;
}

/** Resolves when all states have been there. Machines and deployments are named `real-…`. */
export async function liveWithMcm({ installation, history, start }: Lives): Promise<void> {
  const { control, target, cloud, namespace } = installation;
  const keyOf = (name: string) => ({ namespace, name });
  const machineNow = (name: string) => history.find<Machine>(machines, name);
  const phaseNow = (name: string) => phaseOf(machineNow(name)!);
  const ofDeployment = (name: string) =>
    history.list<Machine>(machines).filter(({ metadata }) => metadata.labels?.[labels.name] === name);
  const ofVersion = (name: string, version: string) =>
    ofDeployment(name).filter(({ metadata }) => metadata.annotations?.['version'] === version);
  const inPhase = (found: readonly Machine[], phase: string) => found.filter((each) => phaseOf(each) === phase);
  const running = (name: string, version: string) => inPhase(ofVersion(name, version), 'Running').length;
  const conditionOf = (name: string, type: string) =>
    history.find<Node>(nodes, name)?.status?.conditions?.find((each) => each.type === type);
  const describes = (name: string) => machineNow(name)?.status?.lastOperation?.description ?? '';
  const deploymentNow = (name: string) => history.find<MachineDeployment>(machineDeployments, name);
  const setNow = (name: string, version?: string) =>
    history
      .list<MachineSet>(machineSets)
      .find(
        ({ metadata, spec }) =>
          metadata.labels?.[labels.name] === name && spec?.template?.metadata?.annotations?.['version'] === version,
      );
  /** Whether the deployment says that the set of this version goes on. */
  function goesOn(name: string, version: string): boolean {
    const progressing = deploymentNow(name)?.status?.conditions?.find(({ type }) => type === 'Progressing');
    const set = setNow(name, version)?.metadata.name;
    return progressing?.reason === 'MachineSetUpdated' && progressing.message === `MachineSet "${set}" is progressing.`;
  }

  const patch = (name: string, change: object) => control.patch(machines, keyOf(name), mergePatch(change));
  const patchNode = (name: string, metadata: object) => target.patch(nodes, { name }, mergePatch({ metadata }));
  const { conditions } = resting['unknown']!.node!;
  const fallIll = (name: string) =>
    target.patch(nodes, { name }, strategicMergePatch({ status: { conditions } }), { subresource: 'status' });
  /** Faults of the cloud meet the machines of a class by its tag. */
  async function createClass(name: string): Promise<{ readonly class: object }> {
    const tags = { cluster: namespace, class: name };
    await installation.createClass(name, {
      providerSpec: { endpoint: cloud.url, machineType: 'small', region: 'here', tags },
    });
    return { class: { kind: 'MachineClass', name } };
  }
  const deploy = (name: string, replicas: number, more: object = {}, metadata: object = {}, spec: object = {}) =>
    installation.createDeployment(name, replicas, {
      template: { metadata: { labels: { [labels.name]: name }, ...metadata }, spec: { ...machineSpec, ...spec } },
      ...more,
    });
  const change = (name: string, version: string, className = 'small') =>
    installation.changeDeployment(name, {
      spec: { template: { metadata: { annotations: { version } }, spec: { class: { name: className } } } },
    });

  let mcm = await start();
  try {
    await makeAll();
    mcm = await restart();
    await changeAll();
  } finally {
    await mcm.stop();
  }

  async function makeAll(): Promise<void> {
    const full = await createClass('small-full');
    const kept = await createClass('small-kept');
    await createClass('small-silent');
    await cloud.setFaults(
      { kind: 'capacity', tags: { class: 'small-full' } },
      { kind: 'outage', how: 'unavailable', operation: 'delete', tags: { class: 'small-kept' } },
      { kind: 'neverJoin', tags: { class: 'small-silent' } },
    );
    const bare = ['life', 'forced', 'guarded', 'unknown', 'failed', 'preserved-failed', 'preserved', 'updating'];
    for (const name of bare) await installation.createMachine(`real-${name}`, machineSpec);
    await installation.createMachine('real-refused', { ...machineSpec, ...full });
    await installation.createMachine('real-kept', { ...machineSpec, ...kept });
    await deploy('real-pool', 2);
    await deploy('real-frozen', 5, {}, {}, kept);
    await deploy('real-saved', 1, { autoPreserveFailedMachineMax: 1 }, {}, { healthTimeout: '1s' });
    const first = { annotations: { version: '1' } };
    for (const name of ['walk', 'stuck', 'again', 'back']) await deploy(`real-${name}`, 3, {}, first);
    const { strategy, replicas = 0 } = inPlace;
    await deploy('real-in-place', replicas, { strategy }, first);
    const count = bare.length + 1 + 2 + 5 + 1 + 4 * 3 + replicas;
    const areRunning = () => inPhase(history.list<Machine>(machines), 'Running').length === count;
    await history.when('all machines but the refused one run', areRunning);
  }

  /** MCM adds its finalizer to the Nodes that it finds when it starts, and to others sometimes three minutes later. */
  async function restart(): Promise<McmProcesses> {
    await mcm.stop();
    for (const name of Object.values(leaseNames)) await control.delete(leases, keyOf(name));
    const next = await start();
    const isMarked = ({ metadata }: Node) =>
      metadata.finalizers !== undefined &&
      metadata.labels?.[labels.machineName] !== undefined &&
      metadata.annotations?.[annotations.lastAppliedNodeTemplate] !== undefined;
    await history.when('all Nodes are marked', () => history.list<Node>(nodes).every(isMarked));
    return next;
  }

  /** Runs a pod that cannot be evicted, because its budget says so. */
  async function guard(nodeName: string): Promise<void> {
    const key = { namespace: 'default', name: 'guard' };
    const matchLabels = { app: 'guarded' };
    const containers = [{ name: 'app', image: 'app' }];
    await target.create(pods, { metadata: { ...key, labels: matchLabels }, spec: { nodeName, containers } });
    const { metadata } = await target.create(podDisruptionBudgets, {
      metadata: key,
      spec: { selector: { matchLabels }, maxUnavailable: 0 },
    });
    const counts = { expectedPods: 1, currentHealthy: 1, desiredHealthy: 1, disruptionsAllowed: 0 };
    const status = mergePatch({ status: { observedGeneration: metadata.generation, ...counts } });
    await target.patch(podDisruptionBudgets, key, status, { subresource: 'status' });
  }

  async function changeAll(): Promise<void> {
    await guard('real-guarded');
    await patch('real-forced', { metadata: { labels: { [labels.forceDeletion]: 'true' } } });
    const deleted = ['life', 'forced', 'guarded', 'kept', 'refused'];
    for (const name of deleted) await control.delete(machines, keyOf(`real-${name}`));
    await patch('real-preserved', { metadata: { annotations: { [annotations.preserve]: 'now' } } });
    for (const name of ['failed', 'preserved-failed']) await patch(`real-${name}`, { spec: { healthTimeout: '1s' } });
    const [saved] = ofDeployment('real-saved');
    for (const name of ['unknown', 'failed', 'preserved-failed']) await fallIll(`real-${name}`);
    await fallIll(saved!.metadata.name);
    const selected = { [labels.candidateForUpdate]: 'true', [labels.selectedForUpdate]: 'true' };
    await patchNode('real-updating', { labels: selected });
    await installation.scale('real-frozen', 2);
    for (const name of ['walk', 'again', 'back', 'in-place']) await change(`real-${name}`, '2');
    await change('real-stuck', '2', 'small-silent');

    const isDrained = (name: string) => /drained/.test(conditionOf(name, 'Preserved')?.message ?? '');
    const ends: Readonly<Record<string, () => boolean>> = {
      'the deleted ones are gone': () =>
        ['life', 'forced', 'refused'].every((name) => machineNow(`real-${name}`) === undefined),
      'a drain has failed': () => /Drain failed/.test(describes('real-guarded')),
      'a deletion is refused': () => /VM deletion failed/.test(describes('real-kept')),
      'one has failed': () => phaseNow('real-failed') === 'Failed',
      'one is unknown': () => phaseNow('real-unknown') === 'Unknown',
      'one is preserved': () => conditionOf('real-preserved', 'Preserved') !== undefined,
      'the one that its set preserves is drained': () => isDrained(saved!.metadata.name),
      'one is updated': () => phaseNow('real-updating') === 'InPlaceUpdating',
      'one waits for its Node': () => inPhase(ofVersion('real-stuck', '2'), 'Pending').length === 1,
      'a rollout has scaled down the old set': () =>
        setNow('real-walk', '1')?.spec?.replicas === undefined && running('real-walk', '2') === 3,
    };
    await Promise.all([
      ...Object.entries(ends).map(([what, check]) => history.when(what, check)),
      ...[preserveFailed, updateInPlace, loseMachines, freeze, changeAgain, changeBack].map((act) => act()),
    ]);
    async function preserveFailed(): Promise<void> {
      await history.when('one has failed', () => phaseNow('real-preserved-failed') === 'Failed');
      await patchNode('real-preserved-failed', { annotations: { [annotations.preserve]: 'now' } });
      await history.when('the one that a user preserves is drained', () => isDrained('real-preserved-failed'));
    }
  }

  async function updateInPlace(): Promise<void> {
    const isReady = ({ metadata }: Machine) => conditionOf(metadata.name, 'InPlaceUpdate')?.reason === 'ReadyForUpdate';
    const ready = () => ofDeployment('real-in-place').find(isReady);
    const { metadata } = await history.when('one is ready for its update', ready);
    await patchNode(metadata.name, { labels: { [labels.updateResult]: updateResults.successful } });
    const ownerOf = (object: KubeObject | undefined) => object?.metadata.ownerReferences?.[0]?.name;
    const newSet = () => ownerOf(machineNow(metadata.name)) === setNow('real-in-place', '2')?.metadata.name;
    await history.when('one that was updated is in the new set', newSet);
  }

  async function loseMachines(): Promise<void> {
    const available = () => deploymentNow('real-pool')?.status?.availableReplicas;
    const [first, second] = ofDeployment('real-pool');
    await fallIll(first!.metadata.name);
    await history.when('one is available', () => available() === 1);
    await fallIll(second!.metadata.name);
    await history.when('none is available', () => available() === undefined);
  }

  async function freeze(): Promise<void> {
    const both = () => [setNow('real-frozen'), deploymentNow('real-frozen')] as const;
    const areFrozen = () => both().every((each) => each?.metadata.labels?.[labels.freeze] === 'True');
    await history.when('a set is frozen', areFrozen);
    await history.when('its counts are settled', () => both().every((each) => each?.status?.availableReplicas === 2));
    // MCM may have lost the condition of the set, with a status that it had read before. It freezes the set once more.
    const thawed = history.when('it is thawed', () => !areFrozen());
    const [set, deployment] = both();
    const others = deployment?.status?.conditions?.filter(({ type }) => type !== 'Frozen');
    const subresource = 'status';
    const unmark = mergePatch({ metadata: { labels: { [labels.freeze]: null } } });
    await control.patch(machineSets, set!.metadata, mergePatch({ status: { machineSetCondition: null } }), {
      subresource,
    });
    await control.patch(machineSets, set!.metadata, unmark);
    await control.patch(machineDeployments, deployment!.metadata, mergePatch({ status: { conditions: others } }), {
      subresource,
    });
    await control.patch(machineDeployments, deployment!.metadata, unmark);
    await thawed;
    await history.when('it is frozen again', areFrozen);
  }

  async function changeAgain(): Promise<void> {
    await history.when('the second template goes on', () => goesOn('real-again', '2'));
    await change('real-again', '3');
    await history.when('the third template goes on', () => goesOn('real-again', '3'));
    await history.when('one waits for its Node', () => inPhase(ofVersion('real-again', '3'), 'Pending').length > 0);
  }

  async function changeBack(): Promise<void> {
    await history.when('the second template goes on', () => goesOn('real-back', '2'));
    const isMarked = ({ metadata }: Machine) => {
      const marks = history.find<Node>(nodes, metadata.name)?.metadata.annotations ?? {};
      return [annotations.scaleDownDisabled, annotations.lastAppliedNodeTemplate].every((key) => key in marks);
    };
    const newOnes = () => inPhase(ofVersion('real-back', '2'), 'Running');
    await history.when('a Node of the second template is marked', () => newOnes().some(isMarked));
    await change('real-back', '1');
  }
}
