/** What somebody who may edit Machines, and nothing else, can do to Nodes and VMs that are not those of his Machines. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { finalizers, labels } from '../../api/gardener/names.ts';
import { machines } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { names } from '../../api/names.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type Node, nodes } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { becomeEditor, controlPlane, createStranger, expectUntouched, untilSecondAfter } from '../support/strangers.ts';
import { makeVm } from '../support/sweeps.ts';
import { until } from '../support/until.ts';

const small = { kind: 'MachineClass', name: 'small' };

let millwright: Installation;
let editor: KubeClient;

beforeAll(async () => {
  millwright = await startInstallation({ flags: ['--orders-in-annotations', 'true'] });
  editor = await becomeEditor(millwright, machines);
});
afterAll(async () => {
  await editor?.close();
  await millwright?.stop();
});

const nameOf = (name: string) => `${name}-${millwright.namespace}`;

async function createRunning(name: string): Promise<ObjectRef> {
  const ref = await millwright.createMachine(nameOf(name));
  await millwright.untilPhase(ref, 'Running');
  return ref;
}

/** A Machine that the editor makes, and that names a VM and its Node. */
async function create(name: string, providerID: string, node: string, annotations: Readonly<Record<string, string>>) {
  const { namespace } = millwright;
  const { metadata } = await editor.create(machines, {
    metadata: { namespace, name, annotations, labels: { [labels.node]: node } },
    spec: { class: small, providerID },
  });
  return { dialect: 'gardener', namespace, name, uid: metadata.uid };
}

/** Points a Machine at a Node, as far as that says which VM it is. */
async function repoint(ref: ObjectRef, { metadata, spec }: Node): Promise<void> {
  const identity = {
    metadata: { labels: { [labels.node]: metadata.name }, annotations: { [names.firstUid]: null } },
    ...(spec?.providerID && { spec: { providerID: spec.providerID } }),
  };
  await editor.patch(machines, ref, mergePatch(identity));
}

const aliveVms = async () => (await millwright.cloud.vms()).map(({ name }) => name);

const strangers = {
  'of the control plane': { labels: controlPlane },
  'of the control plane, with a provider ID': {
    labels: controlPlane,
    spec: { providerID: 'metal:///control-plane' },
  },
  'of the control plane as it was called before': { labels: { 'node-role.kubernetes.io/master': '' } },
  'of another pool': {},
  'of another pool, with a provider ID of the cloud': { spec: { providerID: 'simulated:///here/of-another-pool' } },
};

describe('a Running Machine that is pointed at a Node', () => {
  it.each(Object.entries(strangers))('%s does not touch it, and says why', async (of, node) => {
    const which = Object.keys(strangers).indexOf(of);
    const stranger = await createStranger(millwright, nameOf(`stranger-${which}`), node);
    const ref = await createRunning(`pointed-${which}`);
    await repoint(ref, stranger);

    await millwright.untilEvent(ref, 'NodeLeftAlone', stranger.metadata.name);
    const { waitingFor } = await millwright.describe(ref);
    expect(waitingFor).toContain(`permission to mark its node: node ${stranger.metadata.name}`);
    await expectUntouched(millwright, stranger);
    await editor.delete(machines, ref);
    await millwright.untilGone(ref);
    await expectUntouched(millwright, stranger);
    expect(await aliveVms()).not.toContain(ref.name);
  });

  it('says so until that is corrected, and its own Node was its own meanwhile', async () => {
    const stranger = await createStranger(millwright, nameOf('for-a-while'));
    const ref = await createRunning('corrected');
    await repoint(ref, stranger);
    await millwright.untilEvent(ref, 'NodeLeftAlone', stranger.metadata.name);
    const { metadata } = await millwright.target.get(nodes, { name: ref.name });
    expect(metadata.labels).toMatchObject({ [labels.machineName]: ref.name });
    expect(metadata.deletionTimestamp).toBeUndefined();

    await editor.patch(machines, ref, mergePatch({ metadata: { labels: { [labels.node]: ref.name } } }));
    await until('it waits for nothing', async () => (await millwright.describe(ref)).waitingFor === undefined);
    await expectUntouched(millwright, stranger);
    await millwright.remove(ref);
    expect(await millwright.target.find(nodes, { name: ref.name })).toBeUndefined();
  });

  it('takes its own Node along when it is deleted', async () => {
    const stranger = await createStranger(millwright, nameOf('instead'), {
      spec: { providerID: 'simulated:///here/of-another-pool' },
    });
    const ref = await createRunning('leaves-nothing');
    await repoint(ref, stranger);
    await millwright.untilEvent(ref, 'NodeLeftAlone', stranger.metadata.name);
    await editor.delete(machines, ref);
    await millwright.untilGone(ref);

    await expectUntouched(millwright, stranger);
    expect(await millwright.target.find(nodes, { name: ref.name })).toBeUndefined();
  });
});

describe('a Node of somebody else', () => {
  it('stays though a Machine has its name, and names no VM any more when it is deleted', async () => {
    const { namespace, target } = millwright;
    const name = nameOf('victim');
    const stranger = await createStranger(millwright, name, { spec: { providerID: 'metal:///victim' } });
    await untilSecondAfter(stranger);
    const { metadata } = await editor.create(machines, { metadata: { namespace, name }, spec: { class: small } });
    const ref = { dialect: 'gardener', namespace, name, uid: metadata.uid };
    await millwright.untilEvent(ref, 'StaleNode', name);
    const change = { metadata: { annotations: { [names.firstUid]: null } }, spec: { providerID: null } };
    await editor.patch(machines, ref, mergePatch(change));
    await editor.delete(machines, ref);
    await millwright.untilGone(ref);
    expect(await target.get(nodes, { name })).toMatchObject({ metadata: { uid: stranger.metadata.uid } });
    await expectUntouched(millwright, stranger);
  });

  it('stays though it is that of a Machine of the same name in another namespace', async () => {
    const { target } = millwright;
    const ref = await createRunning('twin');
    const other = await createStranger(millwright, nameOf('of-twin'), {
      spec: { providerID: 'metal:///twin' },
      labels: { [labels.machineName]: ref.name },
    });
    const marks = { annotations: { [names.machine]: `elsewhere/${ref.name}` }, finalizers: [finalizers.node] };
    const stranger = await target.patch(nodes, other.metadata, mergePatch({ metadata: marks }));
    await repoint(ref, stranger);
    await millwright.untilEvent(ref, 'NodeLeftAlone', stranger.metadata.name);
    await editor.delete(machines, ref);
    await millwright.untilGone(ref);
    await expectUntouched(millwright, stranger);
  });
});

describe('a VM of somebody else', () => {
  const foreign = { cluster: 'another' };
  const uid = '00000000-0000-4000-8000-000000000001';
  const attacks = {
    'by its provider ID': (vm: string) => ({ name: `names-${vm}`, annotations: {} }),
    'by its name': (vm: string) => ({ name: vm, annotations: {} }),
    'by the UID in its tags': (vm: string) => ({ name: `uid-${vm}`, annotations: { [names.firstUid]: uid } }),
  };
  it.each(Object.entries(attacks))('is not taken or deleted %s', async (how, attack) => {
    const vm = nameOf(`database-${Object.keys(attacks).indexOf(how)}`);
    const providerID = await makeVm(millwright, vm, {
      tags: foreign,
      joins: true,
      ...(how.includes('UID') && { uid }),
    });
    const { name, annotations } = attack(vm);
    await millwright.untilNode({ name: vm }, 'has joined', ({ status }) => status?.conditions !== undefined);
    const ref = await create(name, providerID, vm, annotations);

    await millwright.untilEvent(ref, 'NodeLeftAlone', `the VM ${providerID} (${vm}) is neither used nor deleted`);
    await editor.delete(machines, ref);
    const why = `the VM ${providerID} (${vm}) is neither used nor deleted`;
    await millwright.untilMachine(
      ref,
      'is refused',
      ({ status }) => status?.lastOperation?.description?.includes(why) === true,
    );
    await editor.patch(machines, ref, mergePatch({ spec: { providerID: null } }));
    await millwright.handleOf(ref).signal('retryNow');
    await millwright.untilGone(ref);
    expect(await aliveVms()).toContain(vm);
    const { metadata, spec } = await millwright.target.get(nodes, { name: vm });
    expect([metadata.deletionTimestamp, metadata.finalizers, spec?.unschedulable]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });
});

describe('its own Node with the label of the control plane', () => {
  const asControlPlane = (own: Installation) => ({
    providerSpec: {
      ...{ endpoint: own.cloud.url, machineType: 'small', region: 'here', tags: { cluster: own.namespace } },
      labels: controlPlane,
    },
  });

  it('is neither marked nor drained without the flag, and keeps its VM until an annotation skips the drain', async () => {
    await millwright.createClass('control-plane', asControlPlane(millwright));
    const name = nameOf('cp-refused');
    const ref = await millwright.createMachine(name, { class: { ...small, name: 'control-plane' } });
    await millwright.untilPhase(ref, 'Running');
    await millwright.untilEvent(ref, 'NodeLeftAlone', '--control-plane-nodes');
    await millwright.control.delete(machines, ref);
    const why = 'has the label node-role.kubernetes.io/control-plane';
    await millwright.untilMachine(
      ref,
      'says why',
      ({ status }) => status?.lastOperation?.description?.includes(why) === true,
    );
    expect(await aliveVms()).toContain(name);

    await editor.patch(machines, ref, mergePatch({ metadata: { annotations: { [names.skipDrain]: 'true' } } }));
    await millwright.untilEvent(ref, 'Ordered', names.skipDrain);
    await millwright.untilGone(ref);
    const { metadata } = await millwright.target.get(nodes, { name });
    expect([metadata.deletionTimestamp, metadata.finalizers, metadata.labels?.[labels.machineName]]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });

  it('is taken and deleted with the flag', async () => {
    const own = await startInstallation({ flags: ['--control-plane-nodes', 'true'] });
    try {
      await own.createClass('control-plane', asControlPlane(own));
      const name = `cp-${own.namespace}`;
      const ref = await own.createMachine(name, { class: { ...small, name: 'control-plane' } });
      await own.untilPhase(ref, 'Running');
      await own.remove(ref);
      await until('its Node is gone', async () => (await own.target.find(nodes, { name })) === undefined);
    } finally {
      await own.stop();
    }
  });
});
