/** What looks at all Nodes of a cluster, in one that has no Nodes of other tests. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { annotations, finalizers, labels } from '../../api/gardener/names.ts';
import { machineDeployments, machines } from '../../api/gardener/resources.ts';
import { names } from '../../api/names.ts';
import { loadKubeconfig } from '../../kube/config.ts';
import { events, type Node, nodes } from '../../kube/core.ts';
import { mergePatch, strategicMergePatch } from '../../kube/patch.ts';
import { startControllersHere } from '../support/controllers.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { reportCondition } from '../support/node-conditions.ts';
import { type OwnClusters, startOwnClusters } from '../support/own-cluster.ts';
import { refOf } from '../support/refs.ts';
import { until } from '../support/until.ts';

let own: OwnClusters;
let kubeconfig: string;
beforeAll(async () => {
  own = await startOwnClusters(['whole']);
  kubeconfig = own.clusters[0]!.kubeconfig;
});
afterAll(() => own?.stop());

describe('a Node without a Machine', () => {
  let millwright: Installation;
  const made: string[] = [];
  let stopControllers: () => Promise<void> = async () => undefined;

  async function start(): Promise<void> {
    await millwright.start('worker');
    const creationSeconds = 5;
    stopControllers = startControllersHere(millwright, loadKubeconfig(kubeconfig), 1_000, creationSeconds);
  }

  beforeAll(async () => {
    millwright = await startInstallation({ kubeconfig, isStopped: true });
    await start();
  });
  afterAll(async () => {
    await stopControllers();
    for (const name of made) {
      await millwright.target.patch(nodes, { name }, mergePatch({ metadata: { finalizers: null } }));
      await millwright.target.delete(nodes, { name });
    }
    await millwright?.stop();
  });

  async function makeNode(name: string, metadata: object): Promise<string> {
    const node = { metadata: { name: `${name}-${millwright.namespace}`, ...metadata } };
    made.push(node.metadata.name);
    await millwright.target.create(nodes, node);
    return node.metadata.name;
  }
  const isMarked = ({ metadata }: Node) => metadata.annotations?.[annotations.notManaged] === '1';
  const isOurs = ({ metadata }: Node) => metadata.finalizers?.includes(finalizers.node) === true;

  it('[mcm 91] is marked and loses our finalizer once it is old, until a Machine appears', async () => {
    const { control, target, namespace, processes } = millwright;
    const name = `lone-${namespace}`;
    const ref = await millwright.createMachine(name);
    await millwright.untilPhase(ref, 'Running');
    const machine = await control.get(machines, ref);
    const before = await millwright.untilNode({ name: name }, 'is managed', isOurs);
    expect(before.metadata.annotations?.[names.machine]).toBe(`${namespace}/${name}`);

    // The Machine is lost, and nobody deletes its VM.
    await stopControllers();
    await Promise.all(processes.splice(0).map((each) => each.stop()));
    await millwright.handleOf(ref).terminate();
    await control.patch(machines, ref, mergePatch({ metadata: { finalizers: null } }));
    await control.delete(machines, ref);
    const createdMs = Date.now();
    const plain = await makeNode('plain', { finalizers: ['example.com/other'] });
    const lost = await makeNode('lost', {
      annotations: { [names.machine]: `${namespace}/lost` },
      finalizers: ['example.com/other', finalizers.node],
    });
    const others = await makeNode('others', {
      annotations: { [names.machine]: 'other/m' },
      finalizers: [finalizers.node],
    });
    const ofMcm = await makeNode('mcm', { labels: { [labels.machineName]: 'm' }, finalizers: [finalizers.node] });
    await start();

    const marked = await millwright.untilNode({ name: name }, 'is marked', isMarked);
    expect(isOurs(marked)).toBe(false);
    for (const node of [plain, lost]) {
      const old = await millwright.untilNode({ name: node }, 'is marked when it is old', isMarked);
      expect(Date.now()).toBeGreaterThan(createdMs + 4_000);
      expect(old.metadata.finalizers).toEqual(['example.com/other']);
    }
    for (const node of [others, ofMcm]) {
      const left = await target.get(nodes, { name: node });
      expect([isMarked(left), isOurs(left)]).toEqual([false, true]);
    }

    const again = await control.create(machines, {
      metadata: { namespace, name, labels: { [labels.node]: name }, finalizers: [finalizers.machine] },
      spec: machine.spec,
    });
    const { currentStatus, conditions } = machine.status ?? {};
    await control.patch(machines, again.metadata, mergePatch({ status: { currentStatus, conditions } }), {
      subresource: 'status',
    });
    const managed = await millwright.untilNode(
      { name: name },
      'is managed again',
      (node) => isOurs(node) && !isMarked(node),
    );
    expect(managed.metadata.uid).toBe(before.metadata.uid);
    expect((await millwright.cloud.stats()).vmsEver).toBe(1);
  });
});

describe('a machine that is unhealthy for longer than its health timeout', () => {
  let millwright: Installation;
  beforeAll(async () => {
    // The kubelets report once and no more, so that what a test writes into a Node stays.
    millwright = await startInstallation({ kubeconfig, cloud: { statusUpdateMs: 2 ** 31 - 1 } });
  });
  afterAll(async () => {
    await millwright?.stop();
  });

  it('is not replaced while most Nodes of its zone are unhealthy; then only what is still unhealthy', async () => {
    const { control, target, namespace } = millwright;
    const template = {
      metadata: { labels: { [labels.name]: 'pool' } },
      spec: { class: { kind: 'MachineClass', name: 'small' }, healthTimeout: '1h' },
    };
    await millwright.createDeployment('pool', 4, { template });
    const all = await millwright.untilMachines(4, 'Running');
    const zone = `zone-${namespace}`;
    const inZone = mergePatch({ metadata: { labels: { 'topology.kubernetes.io/zone': zone } } });
    for (const { metadata } of all) await target.patch(nodes, { name: metadata.name }, inZone);
    const report = (name: string, status: string) => reportCondition(target, name, 'Ready', status);
    const lost = all.slice(0, 3).map(({ metadata }) => metadata.name);
    await Promise.all(lost.map((name) => report(name, 'Unknown')));
    for (const machine of all.slice(0, 3)) await millwright.untilPhase(refOf(machine), 'Unknown');
    await millwright.changeDeployment('pool', { spec: { template: { spec: { healthTimeout: '1s' } } } });

    const deployment = refOf(await control.get(machineDeployments, { namespace, name: 'pool' }));
    const handle = millwright.handleOf(deployment, 'MachineDeployment');
    await until(
      'the deployment says so',
      async () => {
        const { outage } = await handle.query<{ outage?: string }>('describe').catch(() => ({ outage: '' }));
        return outage === `3 of 4 Nodes in zone ${zone} are unhealthy`;
      },
      { describe: () => millwright.story() },
    );
    await until('with an Event', async (see) => {
      const { items } = see(await control.list(events, { namespace }));
      return items.some(({ regarding, reason }) => regarding.name === 'pool' && reason === 'ReplacementHeld');
    });
    const uidsOf = (found: typeof all) => found.map(({ metadata }) => metadata.uid).sort();
    expect(uidsOf(await millwright.machines())).toEqual(uidsOf(all));

    await Promise.all(lost.slice(1).map((name) => report(name, 'True'))); // one of them alone would end the outage
    const after = await until(
      'the one that is left was replaced',
      async () => {
        const found = await millwright.machines();
        const isReplaced = found.length === 4 && found.every(({ metadata }) => metadata.name !== lost[0]);
        return isReplaced && found.every((each) => phaseOf(each) === 'Running') && found;
      },
      {
        describe: async () => `${await millwright.story()}\n${JSON.stringify(await handle.query('describe'))}`,
      },
    );
    expect(after.filter(({ metadata }) => uidsOf(all).includes(metadata.uid))).toHaveLength(3);
    expect((await millwright.cloud.stats()).vmsEver).toBe(5);
  });

  it('[invariant 6 partly] stays in an outage in which its Node is deleted, the first one before the others are unhealthy, also after its run is lost', async () => {
    const { target, namespace, cloud } = millwright;
    const template = {
      metadata: { labels: { [labels.name]: 'deleted' } },
      spec: { class: { kind: 'MachineClass', name: 'small' }, healthTimeout: '5s' },
    };
    await millwright.createDeployment('deleted', 3, { template });
    const all = await millwright.untilRunning('deleted', 3);
    const { vmsEver } = await cloud.stats();
    const inZone = mergePatch({ metadata: { labels: { 'topology.kubernetes.io/zone': `deleted-${namespace}` } } });
    for (const { metadata } of all) await target.patch(nodes, { name: metadata.name }, inZone);
    for (const { metadata } of all) {
      await reportCondition(target, metadata.name, 'Ready', 'Unknown');
      await target.delete(nodes, { name: metadata.name });
    }
    for (const { metadata } of all) await millwright.untilEvent(metadata.name, 'NodeKept');
    const [lost, ...others] = all;
    await millwright.handleOf(refOf(lost!)).terminate();
    await millwright.untilEvent('deleted', 'ReplacementHeld');
    const later = new Date(Date.now() + 1_000).toISOString(); // times of Kubernetes have seconds
    const ready = { type: 'Ready', status: 'True', lastTransitionTime: later };
    const becomeReady = strategicMergePatch({ status: { conditions: [ready] } });
    for (const { metadata } of all)
      await target.patch(nodes, { name: metadata.name }, becomeReady, { subresource: 'status' });
    await millwright.untilRunning('deleted', 3);

    expect((await millwright.machinesOf('deleted')).map(({ metadata }) => metadata.uid).sort()).toEqual(
      all.map(({ metadata }) => metadata.uid).sort(),
    );
    expect((await cloud.stats()).vmsEver).toBe(vmsEver);
    await millwright.control.delete(machines, others[0]!.metadata);
    await millwright.untilGone(refOf(others[0]!));
    expect(await target.find(nodes, { name: others[0]!.metadata.name })).toBeUndefined();
  });

  it('is replaced when its Node is deleted while it is not ready and most others are healthy', async () => {
    const { target } = millwright;
    const template = {
      metadata: { labels: { [labels.name]: 'single' } },
      spec: { class: { kind: 'MachineClass', name: 'small' }, healthTimeout: '2s' },
    };
    await millwright.createDeployment('single', 1, { template });
    const [sick] = await millwright.untilRunning('single', 1);
    await reportCondition(target, sick!.metadata.name, 'Ready', 'Unknown');
    await millwright.untilPhase(refOf(sick!), 'Unknown');
    await target.delete(nodes, { name: sick!.metadata.name });

    await millwright.untilGone(refOf(sick!));
    await millwright.untilRunning('single', 1);
  });
});
