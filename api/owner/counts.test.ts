import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { KubeClient } from '../../kube/client.ts';
import { mergePatch } from '../../kube/patch.ts';
import { newNamespace, testClient } from '../../test/support/kube.ts';
import { gardener } from '../gardener/index.ts';
import { apiVersion } from '../gardener/names.ts';
import { machineDeployments, machineSets, machines } from '../gardener/resources.ts';
import type { Machine } from '../gardener/schema/machine.ts';
import type { MachineDeployment } from '../gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../gardener/schema/machine-set.ts';
import { toDeploymentCounts, toSetCounts } from './counts.ts';

const api = { ...gardener, nowMs: Date.parse('2026-08-19T12:00:00Z') };

const matchLabels = { name: 'pool' };
const template = { metadata: { labels: matchLabels }, spec: { class: { kind: 'MachineClass', name: 'small' } } };

describe('counts', () => {
  let client: KubeClient;
  let namespace: string;

  beforeAll(async () => {
    client = testClient();
    namespace = await newNamespace(client);
  });
  afterAll(() => client.close());

  const spec = { replicas: 1, selector: { matchLabels }, template };
  const ownedBy = (kind: string, { metadata: { name, uid } }: MachineSet | MachineDeployment) => ({
    ownerReferences: [{ apiVersion, kind, name, uid, controller: true }],
  });

  /** A machine whose last operation failed, written with its fields in no order that a server would choose. */
  async function failedMachine(set: MachineSet): Promise<Machine> {
    const metadata = { namespace, name: `${set.metadata.name}-m`, labels: matchLabels, ...ownedBy('MachineSet', set) };
    const { metadata: made } = await client.create(machines, {
      metadata,
      spec: { ...template.spec, providerID: 'simulated:///here/1' },
    });
    const time = '2026-01-01T00:00:00Z';
    const lastOperation = {
      type: 'Create',
      state: 'Failed',
      lastUpdateTime: time,
      errorCode: 'Internal',
      description: 'x',
    };
    const status = { lastOperation, currentStatus: { phase: 'CrashLoopBackOff' } };
    return client.patch(machines, made, mergePatch({ status }), { subresource: 'status' });
  }

  it('[mcm 67 partly] [invariant 9 partly] of a set and a deployment that were written once are not written again', async () => {
    const strategy = { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } };
    const deployment = await client.create(machineDeployments, {
      metadata: { namespace, name: 'pool' },
      spec: { ...spec, strategy },
    });
    const set = await client.create(machineSets, {
      metadata: { namespace, name: 'pool-1', ...ownedBy('MachineDeployment', deployment) },
      spec,
    });
    const machine = await failedMachine(set);

    const ofSet = toSetCounts(api, set, [machine]);
    const ofDeployment = toDeploymentCounts(api, deployment, [set], [machine]);
    const onStatus = { subresource: 'status' } as const;
    const setAfter = await client.patch(machineSets, set.metadata, mergePatch({ status: ofSet }), onStatus);
    const deploymentAfter = await client.patch(
      machineDeployments,
      deployment.metadata,
      mergePatch({ status: ofDeployment }),
      onStatus,
    );

    expect(setAfter.status?.failedMachines).toMatchObject([{ name: 'pool-1-m', ownerRef: 'pool-1' }]);
    expect(deploymentAfter.status).toMatchObject({ replicas: 1, updatedReplicas: 1, failedMachines: [{}] });
    expect(toSetCounts(api, setAfter, [machine])).toBeUndefined();
    expect(toDeploymentCounts(api, deploymentAfter, [setAfter], [machine])).toBeUndefined();
    expect(toSetCounts(api, setAfter, [])).toEqual({ replicas: 0, fullyLabeledReplicas: 0, failedMachines: [] });
  });

  it('take the set that stays for the updated one, not an older one that is being deleted', () => {
    const meta = { resourceVersion: '1', creationTimestamp: '2026-08-19T10:00:00Z' };
    const pool: MachineDeployment = { metadata: { ...meta, name: 'pool', uid: 'pool' }, spec };
    const setOf = (uid: string, change: Partial<MachineSet['metadata']> = {}): MachineSet => ({
      metadata: { ...meta, name: uid, uid, ...ownedBy('MachineDeployment', pool), ...change },
      spec,
    });
    const sets = [setOf('a', { deletionTimestamp: '2026-08-19T11:00:00Z' }), setOf('b')];
    const own = ['b-1', 'b-2'].map((name): Machine => {
      const [, b] = sets;
      return { metadata: { ...meta, name, uid: name, ...(b && ownedBy('MachineSet', b)) } };
    });
    expect(toDeploymentCounts(api, pool, sets, own)).toMatchObject({ updatedReplicas: 2 });
  });
});
