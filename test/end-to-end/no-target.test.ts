/** An installation without a target cluster: Machines have VMs, and Millwright knows of no Nodes. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { finalizers, labels } from '../../api/gardener/names.ts';
import { machineDeployments } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import { nodes } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { startProcess } from '../support/millwright.ts';
import { until } from '../support/until.ts';

describe('--target-kubeconfig none', () => {
  let millwright: Installation;

  beforeAll(async () => {
    const flags = ['--target-kubeconfig', 'none'];
    millwright = await startInstallation({ alone: 'it has no target cluster', flags });
  });
  afterAll(async () => {
    for (const { metadata } of (await millwright?.nodes()) ?? []) await millwright.target.delete(nodes, metadata);
    await millwright?.stop();
  });

  const untilAvailable = (count: number, className: string): Promise<Machine[]> =>
    until(
      `${count} machines of ${className} are Available`,
      async () => {
        const all = await millwright.machines();
        const isDone = all.every((each) => phaseOf(each) === 'Available' && each.spec?.class?.name === className);
        return all.length === count && isDone ? all : undefined;
      },
      { describe: () => millwright.story() },
    );

  it('[mcm 103] makes Machines Available with addresses, replaces and deletes them, and does nothing to a Node', async () => {
    const { namespace, control, cloud } = millwright;
    await millwright.createDeployment('pool', 2);
    const made = await untilAvailable(2, 'small');
    for (const { metadata, spec, status } of made) {
      expect(spec?.providerID).toMatch(/^simulated:/);
      expect(metadata.labels?.[labels.node]).toBeUndefined();
      expect(status?.lastOperation).toMatchObject({ type: 'Create', state: 'Successful' });
      expect(status?.currentStatus?.timeoutActive).toBe(false);
      expect(status?.addresses).toContainEqual({ type: 'InternalIP', address: expect.stringMatching(/^[\d.]+$/) });
    }
    const key = { namespace, name: 'pool' };
    const counts = await until('they are counted', async (see) => {
      const { status } = see(await control.get(machineDeployments, key));
      return status?.availableReplicas === 2 ? status : undefined;
    });
    expect(counts.readyReplicas ?? 0).toBe(0);
    // Their kubelets have registered Nodes, which are none of Millwright's business.
    await until('there are Nodes', async (see) => see(await millwright.nodes()).length === 2);

    await millwright.createClass('other');
    const template = { spec: { class: { name: 'other' } } };
    await control.patch(machineDeployments, key, mergePatch({ spec: { template } }));
    await untilAvailable(2, 'other');
    expect(await cloud.stats()).toMatchObject({ vmsEver: 4, vmsNow: 2 });

    await until('all four VMs have registered Nodes', async (see) => see(await millwright.nodes()).length === 4);
    await control.delete(machineDeployments, key);
    await until('all is gone', async (see) => see(await millwright.machines()).length === 0, {
      describe: () => millwright.story(),
    });
    expect(await cloud.stats()).toMatchObject({ vmsEver: 4, vmsNow: 0 });
    const left = await millwright.nodes();
    expect(left).toHaveLength(4);
    for (const { metadata, spec } of left) {
      expect(metadata.finalizers ?? []).not.toContain(finalizers.node);
      expect(metadata.labels).not.toHaveProperty([labels.machineName]);
      expect(metadata.deletionTimestamp).toBeUndefined();
      expect(spec?.unschedulable).toBeUndefined();
    }
  });

  it('needs a cluster for the Machines', async () => {
    const process = startProcess(['run', '--target-kubeconfig', 'none', '--port', '0']);
    expect((await process.exited).code).toBe(1);
    expect(process.logs()).toContain('--control-kubeconfig is missing: with --target-kubeconfig none');
  });
});
