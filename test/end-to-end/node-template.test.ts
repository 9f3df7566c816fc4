/** What a Machine wants its Node to have, also after the Node has joined. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { annotations, labels, taints } from '../../api/gardener/names.ts';
import { machineClasses, machines } from '../../api/gardener/resources.ts';
import type { NodeTemplate } from '../../api/gardener/schema/common.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { events, type Node, nodes } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { update } from '../../kube/update.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';

describe('the template of a Node', () => {
  let millwright: Installation;

  beforeAll(async () => {
    millwright = await startInstallation();
    millwright.recordAs('node-template');
  });
  afterAll(async () => {
    await millwright?.stop();
  });

  async function running(name: string, nodeTemplate?: NodeTemplate): Promise<ObjectRef> {
    const spec = { class: { kind: 'MachineClass', name: 'small' }, ...(nodeTemplate && { nodeTemplate }) };
    const ref = await millwright.createMachine(name, spec);
    await millwright.untilPhase(ref, 'Running');
    return ref;
  }

  /** Changes the template of a Machine: null removes a field. */
  async function edit(ref: ObjectRef, nodeTemplate: object): Promise<void> {
    await millwright.control.patch(machines, ref, mergePatch({ spec: { nodeTemplate } }));
  }

  /** Changes a Node as somebody else does. */
  async function change({ name }: ObjectRef, by: (node: Node) => object): Promise<void> {
    const { uid } = (await nodeOf({ name })).metadata;
    await update(millwright.target, nodes, { name, uid }, by);
  }

  // Nodes have the names of their machines.
  const nodeOf = ({ name }: Pick<ObjectRef, 'name'>) => millwright.target.get(nodes, { name });
  const taintsOf = ({ spec }: Node) =>
    (spec?.taints ?? []).map(({ key, value = '', effect }) => `${key}=${value}:${effect}`);

  it('[mcm 38] [mcm 39] adds, changes and removes labels and annotations, and leaves those of others', async () => {
    const ref = await running('template-1', {
      metadata: { labels: { pool: 'a', old: '1' }, annotations: { note: 'a' } },
    });
    const joined = await millwright.untilNode(
      ref,
      'has the labels',
      ({ metadata }) => metadata.labels?.['pool'] === 'a',
    );
    expect(joined.metadata).toMatchObject({
      labels: { [labels.machineName]: ref.name, pool: 'a', old: '1' },
      annotations: { note: 'a' },
    });

    await change(ref, () => ({ metadata: { labels: { theirs: '1' }, annotations: { theirs: '1' } } }));
    await edit(ref, {
      metadata: { labels: { pool: 'b', old: null, added: '1' }, annotations: { note: null, more: 'b' } },
    });
    const edited = await millwright.untilNode(
      ref,
      'has what was edited',
      ({ metadata }) => metadata.labels?.['pool'] === 'b',
    );
    expect(edited.metadata).toMatchObject({
      labels: { [labels.machineName]: ref.name, added: '1', theirs: '1' },
      annotations: { more: 'b', theirs: '1' },
    });
    expect(edited.metadata.labels).not.toHaveProperty('old');
    expect(edited.metadata.annotations).not.toHaveProperty('note');
    expect(JSON.parse(edited.metadata.annotations?.[annotations.lastAppliedNodeTemplate] ?? '')).toMatchObject({
      metadata: { labels: { pool: 'b', added: '1' } },
    });

    await change(ref, () => ({ metadata: { labels: { pool: 'theirs', added: null, [labels.machineName]: null } } }));
    const restored = await millwright.untilNode(
      ref,
      'has them again',
      ({ metadata }) => metadata.labels?.['pool'] === 'b',
    );
    await millwright.untilNode(
      ref,
      'names its Machine again',
      (node) => node.metadata.labels?.[labels.machineName] === ref.name,
    );
    expect(restored.metadata.labels).toMatchObject({ added: '1', theirs: '1' });
  });

  it('[mcm 40] adds, changes and removes taints by key and effect, and leaves those of others', async () => {
    const gpu = { key: 'gpu', value: 'a', effect: 'NoSchedule' };
    const ref = await running('template-2', { spec: { taints: [gpu, { key: 'gpu', effect: 'NoExecute' }] } });
    const joined = await millwright.untilNode(ref, 'has the taints', (node) =>
      taintsOf(node).includes('gpu=a:NoSchedule'),
    );
    expect(taintsOf(joined)).toEqual(expect.arrayContaining(['gpu=a:NoSchedule', 'gpu=:NoExecute']));

    const theirs = { key: 'theirs', effect: 'NoSchedule' };
    await change(ref, ({ spec }) => ({ spec: { taints: [...(spec?.taints ?? []), theirs] } }));
    await edit(ref, {
      spec: {
        taints: [
          { ...gpu, value: 'b' },
          { key: 'added', effect: 'PreferNoSchedule' },
        ],
      },
    });
    const edited = await millwright.untilNode(ref, 'has what was edited', (node) =>
      taintsOf(node).includes('gpu=b:NoSchedule'),
    );
    expect(taintsOf(edited).toSorted()).toEqual(['added=:PreferNoSchedule', 'gpu=b:NoSchedule', 'theirs=:NoSchedule']);

    await edit(ref, { spec: null });
    const removed = await millwright.untilNode(
      ref,
      'has lost them',
      (node) => !taintsOf(node).includes('gpu=b:NoSchedule'),
    );
    expect(taintsOf(removed)).toEqual(['theirs=:NoSchedule']);
  });

  it('[mcm 41] of a class has virtual capacity, which comes and goes on Nodes that exist', async () => {
    const { control, namespace } = millwright;
    const ref = await running('template-5');
    const capacityOf = (node: Node, resource: string) => node.status?.capacity?.[resource];
    const others = (await nodeOf(ref)).status?.capacity ?? {};
    const capacity = { cpu: 4, gpu: 0, memory: '8Gi' };
    const nodeTemplate = { capacity, instanceType: 'small', region: 'here', zone: 'here-a' };
    const editClass = async (virtualCapacity: object | null) => {
      const change = mergePatch({ nodeTemplate: { ...nodeTemplate, virtualCapacity } });
      await control.patch(machineClasses, { namespace, name: 'small' }, change);
    };

    await editClass({ 'example.com/vgpu': 2 });
    const added = await millwright.untilNode(ref, 'has it', (node) => capacityOf(node, 'example.com/vgpu') === '2');
    expect(added.status?.capacity).toEqual({ ...others, 'example.com/vgpu': '2' });
    await editClass({ 'example.com/vgpu': 3 });
    await millwright.untilNode(ref, 'has more', (node) => capacityOf(node, 'example.com/vgpu') === '3');
    const later = await running('template-6');
    await millwright.untilNode(later, 'has it as well', (node) => capacityOf(node, 'example.com/vgpu') === '3');

    await editClass(null);
    for (const each of [ref, later]) {
      const isNoted = ({ metadata }: Node) =>
        metadata.annotations?.[annotations.lastAppliedVirtualCapacity] !== undefined;
      const left = await millwright.untilNode(each, 'has lost it', (node) => !isNoted(node));
      expect(left.status?.capacity).toEqual(others);
    }
  });

  it('is applied before the Node is healthy, so that no pod gets there first', async () => {
    const { key, effect } = taints.criticalComponentsNotReady;
    const ref = await millwright.createMachine('template-3', {
      class: { kind: 'MachineClass', name: 'small' },
      nodeTemplate: { metadata: { labels: { pool: 'a' } }, spec: { taints: [{ key, effect }] } },
    });
    // The taint keeps the Machine from being Running.
    await until('the Node has the label', async (see) => {
      const node = see(await millwright.target.find(nodes, { name: ref.name }));
      return node?.metadata.labels?.['pool'] === 'a' && taintsOf(node).includes(`${key}=:${effect}`);
    });
    await edit(ref, { spec: null });
    await millwright.untilPhase(ref, 'Running');
  });

  it('that no API server accepts in part reaches the Node in all other parts, and the Machine says so until it is corrected', async () => {
    const taints = [
      { key: 'dedicated', value: 'accel', effect: 'NoSchedule' },
      { key: 'typo', effect: 'NoSchedul' },
    ];
    const ref = await running('template-4', {
      metadata: { labels: { team: 'two words', pool: 'a' }, annotations: { note: 'a' } },
      spec: { taints },
    });

    const node = await nodeOf(ref);
    expect(taintsOf(node)).toEqual(['dedicated=accel:NoSchedule']);
    expect(node.metadata).toMatchObject({ labels: { pool: 'a' }, annotations: { note: 'a' } });
    expect(node.metadata.labels).not.toHaveProperty('team');
    const operation = await untilOperation(ref, 'Failed');
    expect(operation.description).toContain(
      'spec.nodeTemplate.metadata.labels has team="two words": write the value as',
    );
    expect(operation.description).toContain(
      'spec.nodeTemplate.spec.taints has typo:NoSchedul: its effect: set it to one of',
    );
    await untilEvent(ref, 'team="two words"');
    await until('it is blocked on a correction', async (see) => {
      const { blockedOn, waitingFor = '' } = see(await millwright.describe(ref));
      return blockedOn === 'MachineSpec' && waitingFor.includes('typo:NoSchedul');
    });

    await edit(ref, { metadata: { labels: { team: 'two-words' } }, spec: { taints: [{ ...taints[0] }] } });
    await millwright.untilNode(ref, 'has the label', ({ metadata }) => metadata.labels?.['team'] === 'two-words');
    expect((await untilOperation(ref, 'Successful')).type).toBe('Update');
    expect(await millwright.describe(ref)).not.toHaveProperty('blockedOn');
    await millwright.remove(ref);
  });

  it('that the API server refuses leaves the taints on the Node before it is Running, and the Machine says so', async () => {
    const taints = [{ key: 'dedicated', effect: 'NoSchedule' }];
    // With the note of what was applied the Node would have more annotations than it may.
    const annotations = { large: 'x'.repeat(140_000) };
    const ref = await running('template-7', { metadata: { annotations, labels: { pool: 'a' } }, spec: { taints } });

    const node = await nodeOf(ref);
    expect(taintsOf(node)).toEqual(['dedicated=:NoSchedule']);
    expect(node.metadata.labels).not.toHaveProperty('pool');
    expect((await untilOperation(ref, 'Failed')).description).toContain('may not be more than 262144 bytes');
    await untilEvent(ref, 'may not be more than 262144 bytes');

    await edit(ref, { metadata: { annotations: { large: null } }, spec: null });
    await millwright.untilNode(ref, 'has the label and not the taint', (live) => {
      return live.metadata.labels?.['pool'] === 'a' && taintsOf(live).length === 0;
    });
    await untilOperation(ref, 'Successful');
    await millwright.remove(ref);
  });

  async function untilOperation(ref: ObjectRef, state: string) {
    return until(
      `what was done to the Node has ${state}`,
      async (see) => {
        const { lastOperation } = see(await millwright.control.get(machines, ref)).status ?? {};
        return lastOperation?.type === 'Update' && lastOperation.state === state ? lastOperation : undefined;
      },
      { describe: () => millwright.story() },
    );
  }

  async function untilEvent(ref: ObjectRef, text: string): Promise<void> {
    await until('an Event says why', async () => {
      const { items } = await millwright.control.list(events, { namespace: ref.namespace });
      return items.some(
        ({ regarding, reason, note }) =>
          regarding?.uid === ref.uid && reason === 'NodeTemplateRefused' && note?.includes(text),
      );
    });
  }
});
