/** Classes and their Secrets that are deleted while machines need them. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { finalizers } from '../../api/gardener/names.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import { nodes, secrets } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { quickSweeps } from '../support/sweeps.ts';
import { until } from '../support/until.ts';

describe('a Secret of a class', () => {
  let millwright: Installation;

  beforeAll(async () => {
    millwright = await startInstallation({ flags: quickSweeps });
  }, 120_000);
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
    await until(`${what} is gone`, async () => (await find()) === undefined, { describe: () => millwright.story() });
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
  }, 120_000);

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
  }, 120_000);
});
