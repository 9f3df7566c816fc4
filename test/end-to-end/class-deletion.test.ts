/** Classes and their Secrets that are deleted while machines need them. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { finalizers } from '../../api/gardener/names.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import { names } from '../../api/names.ts';
import { nodes, secrets } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { guardNode } from '../support/guarded-node.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { quickSweeps } from '../support/sweeps.ts';
import { until } from '../support/until.ts';

describe('a Secret of a class', () => {
  let millwright: Installation;

  beforeAll(async () => {
    millwright = await startInstallation({ flags: quickSweeps });
  });
  afterAll(async () => {
    await millwright?.stop();
  });

  const keyOf = (name: string) => ({ namespace: millwright.namespace, name });
  const findSecret = (name: string) => millwright.control.find(secrets, keyOf(name));

  async function createClass(name: string, secret: string): Promise<void> {
    const token = (await millwright.control.get(secrets, keyOf('pool'))).data?.['token'] ?? '';
    await millwright.putSecret(secret, { token: Buffer.from(token, 'base64').toString(), userData: '#!/bin/sh' });
    await millwright.createClass(name, { secretRef: keyOf(secret) });
    await until('the Secret has the finalizer', async () => {
      return (await findSecret(secret))?.metadata.finalizers?.includes(finalizers.secret);
    });
  }

  async function untilGone(what: string, find: () => Promise<unknown>): Promise<void> {
    await until(`${what} is gone`, async (see) => see(await find()) === undefined, {
      describe: () => millwright.story(),
    });
  }

  it('[mcm 9] stays while the class refers to it, and machines can be made and deleted; then it goes', async () => {
    const { control } = millwright;
    await createClass('one', 'one');
    await control.delete(secrets, keyOf('one'));
    const ref = await millwright.createMachine('one', { class: { kind: 'MachineClass', name: 'one' } });
    await millwright.untilPhase(ref, 'Running');
    await control.delete(machines, ref);
    await untilGone('the Machine', () => control.find(machines, ref));
    expect((await findSecret('one'))?.metadata.deletionTimestamp).toBeDefined();

    await control.patch(machineClasses, keyOf('one'), mergePatch({ secretRef: keyOf('pool') }));
    await untilGone('the Secret', () => findSecret('one'));
  });

  it('goes with a deployment and its class that are deleted together with it, when the VMs are gone', async () => {
    const { control } = millwright;
    await createClass('two', 'two');
    const spec = { class: { kind: 'MachineClass', name: 'two' } };
    await millwright.createDeployment('two', 2, { template: { metadata: { labels: { name: 'two' } }, spec } });
    await millwright.untilMachines(2, 'Running');
    const names = (await millwright.machines()).map(({ metadata }) => metadata.name);

    await Promise.all([
      control.delete(secrets, keyOf('two')),
      control.delete(machineClasses, keyOf('two')),
      control.delete(machineDeployments, keyOf('two')),
    ]);
    await untilGone('the Secret', () => findSecret('two'));

    expect(await control.find(machineClasses, keyOf('two'))).toBeUndefined();
    expect((await control.list(machineSets, { namespace: millwright.namespace })).items).toEqual([]);
    expect(await millwright.machines()).toEqual([]);
    expect(await millwright.cloud.resources()).toEqual([]);
    for (const name of names) expect(await millwright.target.find(nodes, { name })).toBeUndefined();
  });

  it('goes with its class although the cloud refuses to be listed by then: all its machines are gone', async () => {
    const { control } = millwright;
    await createClass('three', 'three');
    const ref = await millwright.createMachine('three', { class: { kind: 'MachineClass', name: 'three' } });
    await millwright.untilPhase(ref, 'Running');
    await control.delete(machines, ref);
    await millwright.untilGone(ref);

    await millwright.putSecret('three', { token: 'wrong' });
    await Promise.all([control.delete(machineClasses, keyOf('three')), control.delete(secrets, keyOf('three'))]);
    await untilGone('the class', () => control.find(machineClasses, keyOf('three')));
    await untilGone('the Secret', () => findSecret('three'));
    await millwright.untilEvent('three', 'SourceNotSwept');
  });

  it('stays with its class, when the cloud refuses to be listed and a machine was removed without its VM', async () => {
    const { control, target, namespace } = millwright;
    await createClass('four', 'four');
    const ref = await millwright.createMachine('four', { class: { kind: 'MachineClass', name: 'four' } });
    await millwright.untilPhase(ref, 'Running');
    const release = await guardNode(target, namespace, 'four');
    await control.delete(machines, ref);
    await until('it drains', async (see) => see(await millwright.describe(ref)).blockedOn === 'PodDisruptionBudget');
    await millwright.putSecret('four', { token: 'wrong' });
    await control.patch(machines, ref, mergePatch({ metadata: { finalizers: null } }));
    await until('the loss is noted', async (see) => {
      const { metadata } = see(await control.get(machineClasses, keyOf('four')));
      return metadata.annotations?.[names.lostMachine];
    });
    const loss = /^Machine four has disappeared .*, and its VM simulated:\/\/\/here\/vm-\S+ may still be there: /;
    await millwright.untilEvent('four', 'MachineLost', loss);

    await control.delete(machineClasses, keyOf('four'));
    await millwright.untilEvent('four', 'SourceNotReleased');
    expect(await control.find(machineClasses, keyOf('four'))).toBeDefined();
    expect(await findSecret('four')).toBeDefined();
    await release();
  });
});
