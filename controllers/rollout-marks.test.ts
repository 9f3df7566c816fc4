import { beforeEach, describe, expect, it } from '@jest/globals';
import { gardener } from '../api/gardener/index.ts';
import { annotations, labels, taints } from '../api/gardener/names.ts';
import type { KubeObject, ObjectMeta } from '../api/objects.ts';
import type { OwnerDeployment } from '../api/owner/objects.ts';
import type { Node } from '../kube/core.ts';
import type { Patch } from '../kube/patch.ts';
import { createStore } from '../kube/store.ts';
import { createRolloutMarkController } from './rollout-marks.ts';
import { indexesOf, type Watches } from './watches.ts';

const defaults = { creationSeconds: 60, drainSeconds: 60, maxEvictRetries: 360, nodeConditions: [] };
const { scaleDownDisabled, scaleDownDisabledByMcm } = annotations;

/** The caches, which the test fills, and what was sent to the cluster of the Nodes. */
function newWorld({ isSynced = true } = {}) {
  const indexes = indexesOf(gardener, defaults);
  const stores = {
    deployments: createStore<KubeObject>(indexes.deployments),
    sets: createStore<KubeObject>(indexes.sets),
    machines: createStore<KubeObject>(indexes.machines),
    nodes: createStore<Node>(indexes.nodes),
  };
  for (const each of Object.values(stores)) {
    if (isSynced) each.setSynced();
    each.setReachable(true);
  }
  const patches: object[] = [];
  const entries = Object.entries(stores).map(([kind, { store }]) => [kind, store]);
  const controller = createRolloutMarkController({
    target: {
      patch: async (_resource: unknown, _key: unknown, { body }: Patch) => patches.push(body as object),
    } as never,
    watches: Object.fromEntries(entries) as Watches,
    dialect: gardener,
    defaults,
    keepsAutoscalerAway: true,
  });
  return { stores, patches, controller };
}

let versions = 0;
function metaOf(name: string, owner?: string): ObjectMeta {
  versions += 1;
  const reference = { apiVersion: 'v1', kind: 'Owner', name: '', uid: owner ?? '', controller: true };
  return {
    ...{ name, uid: name, resourceVersion: String(versions), creationTimestamp: '2030-01-01T00:00:00Z' },
    ...(owner !== undefined && { ownerReferences: [reference] }),
  };
}
const templateOf = (name: string) => ({ spec: { class: { kind: 'MachineClass', name } } });
const setOf = (name: string, ofClass: string, owner?: string) => ({
  metadata: metaOf(name, owner),
  spec: { template: templateOf(ofClass) },
});
const machineOf = (name: string, owner?: string) => ({
  metadata: { ...metaOf(name, owner), labels: { [labels.node]: name } },
  spec: { providerID: `fake://${name}` },
});
const nodeOf = (name: string, isMarked: boolean, hasJoined = true): Node => ({
  metadata: {
    ...metaOf(name),
    labels: { [labels.machineName]: name },
    finalizers: hasJoined ? [gardener.marks.nodeFinalizer] : [],
    annotations: isMarked ? { [scaleDownDisabled]: 'true', [scaleDownDisabledByMcm]: 'true' } : {},
  },
  spec: { providerID: `fake://${name}`, taints: isMarked ? [taints.preferNoSchedule] : [] },
});

describe('marks of a rollout', () => {
  let { stores, patches, controller } = newWorld();
  const pool: OwnerDeployment = { metadata: metaOf('pool'), spec: { template: templateOf('large') } };
  beforeEach(() => {
    ({ stores, patches, controller } = newWorld());
    stores.deployments.put(pool);
    stores.sets.put(setOf('old', 'small', 'pool'));
    stores.sets.put(setOf('new', 'large', 'pool'));
    stores.machines.put(machineOf('a', 'old'));
    stores.nodes.put(nodeOf('a', true));
  });

  const removed = {
    metadata: { annotations: { [scaleDownDisabled]: null, [scaleDownDisabledByMcm]: null } },
    spec: { taints: [] },
  };

  it('stay while old machines are there', async () => {
    await controller.handle('a');
    expect(patches).toEqual([]);
    stores.nodes.put(nodeOf('a', false));
    await controller.handle('a');
    expect(patches).toMatchObject([{ spec: { taints: [taints.preferNoSchedule] } }]);
  });

  it.each<[string, () => void]>([
    ['its set has no deployment any more', () => stores.sets.put(setOf('old', 'small'))],
    ['the deployment of its set is gone', () => stores.deployments.remove(pool)],
    ['it has no set any more', () => stores.machines.put(machineOf('a'))],
  ])('go with the rollout of a machine when %s', async (_, change) => {
    change();
    await controller.handle('a');
    expect(patches).toMatchObject([removed]);
  });

  it('are not put on the Node of another machine, which a machine names', async () => {
    stores.machines.put(machineOf('b', 'old'));
    stores.nodes.put({ ...nodeOf('b', false), spec: { providerID: 'fake://c' } });
    await controller.handle('b');
    expect(patches).toEqual([]);
  });

  it('come when the workflow of the machine has written on a Node that joins', async () => {
    stores.machines.put(machineOf('b', 'new'));
    stores.nodes.put(nodeOf('b', false, false));
    await controller.handle('b');
    expect(patches).toEqual([]);
    stores.nodes.put(nodeOf('b', false));
    await controller.handle('b');
    expect(patches).toMatchObject([{ metadata: { annotations: { [scaleDownDisabled]: 'true' } } }]);
  });

  it('stay, but for the taint, until all new machines are available', async () => {
    stores.machines.put(machineOf('a', 'new'));
    await controller.handle('a');
    expect(patches).toMatchObject([{ spec: { taints: [] } }]);
    expect(patches[0]).not.toHaveProperty('metadata.annotations');
    const conditions = [{ type: 'Progressing', status: 'True', reason: 'NewMachineSetAvailable' }];
    stores.deployments.put({ ...pool, metadata: metaOf('pool'), status: { conditions } } as OwnerDeployment);
    await controller.handle('a');
    expect(patches).toMatchObject([{}, removed]);
  });

  it('stay while not all is known', async () => {
    ({ stores, patches, controller } = newWorld({ isSynced: false }));
    stores.sets.put(setOf('old', 'small', 'pool'));
    stores.machines.put(machineOf('a', 'old'));
    stores.nodes.put(nodeOf('a', true));
    await controller.handle('a');
    expect(patches).toEqual([]);
  });

  it('stay while its set is not known', async () => {
    stores.machines.put(machineOf('a', 'unknown'));
    await controller.handle('a');
    expect(patches).toEqual([]);
  });

  it('are looked at again where a set has lost its deployment', () => {
    const [previous, object] = [setOf('old', 'small', 'pool'), setOf('old', 'small')];
    stores.sets.put(object);
    expect(controller.hears.sets?.({ kind: 'updated', previous, object })).toContain('a');
  });
});
