/** The namespace of an installation is deleted: it has to end, and nothing of its machines may be left. */
import { afterEach, expect, it } from '@jest/globals';
import { machineClasses, machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { KubeObject, Resource } from '../../api/objects.ts';
import { events, leases, namespaces, secrets } from '../../kube/core.ts';
import { ignoreGoneOrChanged } from '../../kube/update.ts';
import { skipDrainSignal } from '../../workflows/machine/messages.ts';
import { guardNode } from '../support/guarded-node.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { refOf } from '../support/refs.ts';
import { quickSweeps } from '../support/sweeps.ts';
import { until } from '../support/until.ts';

/** What the namespace controller finds in it, first what goes at once. */
const kinds: readonly Resource<KubeObject>[] = [
  leases,
  events,
  machineDeployments,
  machineSets,
  machines,
  machineClasses,
  secrets,
];

let millwright: Installation;

afterEach(() => millwright?.stop());

/**
 * What is left after everything was deleted once more, as the namespace controller of Kubernetes does: no such runs
 * here.
 */
async function deleteContents({ control, namespace }: Installation): Promise<string[]> {
  const left: string[] = [];
  for (const kind of kinds) {
    for (const { metadata } of (await control.list(kind, { namespace })).items) {
      if (metadata.deletionTimestamp === undefined) {
        await ignoreGoneOrChanged(() => control.delete(kind, { namespace, name: metadata.name }));
      }
      if ((await control.find(kind, { namespace, name: metadata.name })) !== undefined)
        left.push(`${kind.kind} ${metadata.name}`);
    }
  }
  return left;
}

it('[invariant 2 partly] ends with its machines, classes and Secrets, and doctor and stuck say what it waits for', async () => {
  const alone = 'its leader loses its Leases';
  millwright = await startInstallation({ alone, isElected: true, awaitsExpiry: true, flags: quickSweeps });
  const { control, target, namespace, cloud } = millwright;
  await millwright.createDeployment('pool', 2);
  const [machine] = await millwright.untilMachines(2, 'Running');
  const guarded = refOf(machine!);
  await guardNode(target, 'default', guarded.name, { name: `guard-${namespace}` });

  await control.delete(namespaces, { name: namespace });
  await until('one machine is left', async (see) => {
    const left = see(await deleteContents(millwright));
    return left.filter((each) => each.startsWith('Machine ')).length === 1;
  });
  await until('it says what its drain waits for', async (see) => see(await millwright.describe(guarded)).blockedOn);
  const { output } = await millwright.command('doctor');
  const left =
    '1 Machine \\(pool-.*\\), 1 MachineSet \\(pool-.*\\), 1 MachineDeployment \\(pool\\), 1 MachineClass \\(small\\), 2 Secrets \\(millwright-signing-key, pool\\)';
  expect(output).toMatch(new RegExp(`^! namespace: it is being deleted, and waits for ${left}$`, 'm'));
  expect((await millwright.command('stuck')).output).toContain(guarded.name);
  await millwright.handleOf(guarded).signal(skipDrainSignal);

  await until('nothing is left', async (see) => see(await deleteContents(millwright)).length === 0);
  expect(await cloud.resources()).toEqual([]);
  expect(await millwright.nodes()).toEqual([]);
});
