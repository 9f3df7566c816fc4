/** Two Machines, or a Machine and a stranger, meet in one Node or in one VM. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { labels } from '../../api/gardener/names.ts';
import { machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { nodes } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { createStranger, expectUntouched, untilSecondAfter } from '../support/strangers.ts';
import { makeVm } from '../support/sweeps.ts';
import { until } from '../support/until.ts';

const small = { kind: 'MachineClass', name: 'small' };

let millwright: Installation;

beforeAll(async () => {
  millwright = await startInstallation();
});
afterAll(() => millwright?.stop());

const nameOf = (name: string) => `${name}-${millwright.namespace}`;

/** A Machine as somebody creates it who has copied parts of another one. */
async function createCopy(name: string, spec: object, nodeName: string): Promise<ObjectRef> {
  const { control, namespace } = millwright;
  const metadata = { namespace, name, labels: { [labels.node]: nodeName } };
  const { metadata: made } = await control.create(machines, { metadata, spec });
  return { dialect: 'gardener', namespace, name, uid: made.uid };
}

async function createRunning(name: string): Promise<ObjectRef & { readonly providerID: string }> {
  const ref = await millwright.createMachine(nameOf(name));
  const { spec } = await millwright.untilPhase(ref, 'Running');
  return { ...ref, providerID: spec?.providerID ?? '' };
}

const vmNames = async () => (await millwright.cloud.vms()).map(({ name }) => name);

/** The machine runs on its VM and its Node, which is not being drained. */
async function expectRunning({
  name,
  namespace,
  providerID,
}: Awaited<ReturnType<typeof createRunning>>): Promise<void> {
  const { control, target } = millwright;
  const { metadata, spec } = await target.get(nodes, { name });
  expect(metadata.labels).toMatchObject({ [labels.machineName]: name });
  expect([metadata.deletionTimestamp, spec?.unschedulable, spec?.providerID]).toEqual([
    undefined,
    undefined,
    providerID,
  ]);
  expect(await vmNames()).toContain(name);
  expect((await control.get(machines, { namespace, name })).status?.currentStatus?.phase).toBe('Running');
}

describe('[invariant 12 partly] a Node of somebody else', () => {
  it('is not taken, drained or deleted by a Machine of its name', async () => {
    const name = nameOf('cp');
    const node = await createStranger(millwright, name);
    await untilSecondAfter(node);
    const ref = await millwright.createMachine(name);

    const failed = await millwright.untilPhase(ref, 'Failed');
    await millwright.untilEvent(ref, 'StaleNode', `node ${name} is older than the Machine`);
    expect(failed.metadata.labels?.[labels.node]).toBeUndefined();
    await until('its VM is gone', async () => (await millwright.cloud.vms()).every((vm) => vm.name !== name));
    await millwright.remove(ref);
    await expectUntouched(millwright, node);
  });

  it.each([
    ['of a VM', { providerID: 'simulated:///here/of-a-stranger' }],
    ['without provider ID', {}],
  ])('%s is not touched by a Machine whose label names it, and that has no VM', async (_of, spec) => {
    const node = await createStranger(millwright, nameOf(`edited-${Object.keys(spec).length}`), { spec });
    await untilSecondAfter(node);
    const ref = await createCopy(nameOf('edited'), { class: { ...small, name: 'missing' } }, node.metadata.name);
    await millwright.untilRefused(ref, 'InvalidArgument');
    await millwright.remove(ref);

    await expectUntouched(millwright, node);
  });

  it('is not touched when it was created under the name of a Node that is gone', async () => {
    const { target } = millwright;
    const ref = await createRunning('again');
    const { name } = ref;
    // The workflow puts its finalizer back: with that its Machine would be deleted, too.
    await until('the Node is deleted without finalizer', async (see) => {
      const { metadata } = see(await target.patch(nodes, { name }, mergePatch({ metadata: { finalizers: null } })));
      const { uid, resourceVersion } = metadata;
      await target.delete(nodes, { name }, { preconditions: { uid, resourceVersion } });
      return true;
    });
    await millwright.untilPhase(ref, 'Unknown');
    const node = await createStranger(millwright, name, {
      spec: { providerID: 'simulated:///here/of-a-stranger' },
    });
    const why = `not its own: node ${ref.name} is that of another VM, simulated:///here/of-a-stranger`;
    await until('it says why', async (see) => see((await millwright.describe(ref)).waitingFor)?.includes(why));
    await millwright.remove(ref);

    await expectUntouched(millwright, node);
    expect(await vmNames()).not.toContain(ref.name);
  });
});

describe('a field of a Running Machine that somebody has edited', () => {
  const edits = {
    'spec.providerID': () => ({ spec: { providerID: 'simulated:///here/of-nobody' } }),
    'the label node': (other: string) => ({ metadata: { labels: { [labels.node]: other } } }),
  };
  it.each(['spec.providerID', 'the label node'] as const)('is to be corrected: %s', async (field) => {
    const ref = await createRunning(`edit-${field.length}`);
    const other = await createStranger(millwright, nameOf(`other-${field.length}`), {
      spec: { providerID: 'simulated:///here/stranger' },
    });
    await millwright.control.patch(machines, ref, mergePatch(edits[field](other.metadata.name)));

    await millwright.untilEvent(ref, 'NodeUnhealthy', 'not its own: node');
    const { unblock } = await millwright.describe(ref);
    expect(unblock).toMatch(/^If the provider ID or the node name of the Machine was edited, correct it/);
    const undo = field === 'spec.providerID' ? { spec: { providerID: ref.providerID } } : edits[field](ref.name);
    await millwright.control.patch(machines, ref, mergePatch(undo));
    await millwright.untilPhase(ref, 'Running');
    const all = await millwright.eventsOf(ref, 'NodeUnhealthy');
    expect(all.map(({ note }) => note)).not.toContainEqual(expect.stringContaining('it does not exist'));
  });
});

describe('[invariant 12 partly] a VM that two Machines name', () => {
  it('stays with the one that has it, when the other was created as a copy', async () => {
    const original = await createRunning('original');
    const { providerID } = original;
    const copy = await createCopy(nameOf('copy'), { class: small, providerID }, original.name);

    await millwright.untilPhase(copy, 'Failed');
    const why = `the VM ${providerID} is that of Machine ${original.name}, which names it, too`;
    await millwright.untilEvent(copy, 'StaleNode', why);
    await millwright.remove(copy);
    await millwright.untilEvent(copy, 'VmKept', `the VM ${providerID} stays`);
    await expectRunning(original);
  });

  it('stays with the one that has it, when the other was edited', async () => {
    const { control } = millwright;
    const owner = await createRunning('owner');
    const { providerID, name } = owner;
    const ofVm = await createRunning('of-vm');
    const ofNode = await createRunning('of-node');
    await control.patch(machines, ofVm, mergePatch({ spec: { providerID } }));
    await control.patch(machines, ofNode, mergePatch({ metadata: { labels: { [labels.node]: name } } }));
    for (const edited of [ofVm, ofNode]) {
      await millwright.untilPhase(edited, 'Unknown');
      await millwright.remove(edited);
      expect(await vmNames()).not.toContain(edited.name);
    }

    await expectRunning(owner);
  });

  it('is gone when both are deleted together', async () => {
    const { control, target } = millwright;
    const original = await createRunning('both');
    const copy = await createCopy(
      nameOf('both-copy'),
      { class: small, providerID: original.providerID },
      original.name,
    );
    await millwright.untilPhase(copy, 'Failed');
    const isOf = ({ metadata }: Machine) => metadata.name.startsWith(nameOf('both').slice(0, 4));
    await Promise.all(
      (await millwright.machines()).filter(isOf).map(({ metadata }) => control.delete(machines, metadata)),
    );
    for (const ref of [copy, original]) await millwright.untilGone(ref);

    expect(await vmNames()).not.toContain(original.name);
    expect(await target.find(nodes, { name: original.name })).toBeUndefined();
  });
});

describe('[invariant 12 partly] a VM of another namespace', () => {
  it('stays when a Machine that was edited to name it is deleted, which is gone once that is corrected', async () => {
    const { control } = millwright;
    const stranger = nameOf('stranger');
    const uid = '00000000-0000-4000-8000-000000000000';
    const providerID = await makeVm(millwright, stranger, { uid, tags: { cluster: 'another' }, joins: true });
    const edited = await createRunning('to-stranger');
    await control.patch(machines, edited, mergePatch({ spec: { providerID } }));
    await millwright.untilPhase(edited, 'Unknown');
    await control.delete(machines, edited);

    const why = `[FailedPrecondition] message = [the VM ${providerID}`;
    await millwright.untilMachine(
      edited,
      'is refused',
      ({ status }) => status?.lastOperation?.description?.includes(why) === true,
    );
    expect(await vmNames()).not.toContain(edited.name);
    await control.patch(machines, edited, mergePatch({ spec: { providerID: null } }));
    await millwright.handleOf(edited).signal('retryNow');
    await millwright.untilGone(edited);
    expect(await vmNames()).toContain(stranger);
  });
});
