/** etcd of the control cluster is restored from a backup: it has lost Machines whose VMs are there. */
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from '@jest/globals';
import { machineClasses } from '../../api/gardener/resources.ts';
import { isNewer } from '../../api/model/ref.ts';
import { type Stack, startStack } from '../../deploy/local/stack.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { heldSweep, quickSweeps, sweep, untilOld } from '../support/sweeps.ts';

let millwright: Installation;
let stack: Stack;
let dir: string;

afterEach(async () => {
  await millwright?.stop();
  await stack?.stop();
  await rm(dir, { recursive: true, force: true });
});

/** Writes until the revision is higher than this one, as `etcdutl snapshot restore --bump-revision` does by itself. */
async function bumpRevision({ control, namespace }: Installation, above: string): Promise<void> {
  const key = { namespace, name: 'small' };
  let newest = '0';
  for (let count = 0; !isNewer(newest, above); count += 1) {
    const patch = mergePatch({ metadata: { annotations: { count: `${count}` } } });
    newest = (await control.patch(machineClasses, key, patch)).metadata.resourceVersion;
  }
}

it.each([
  ['with the revisions of the backup', false, /the list of Machines has resourceVersion \d+, but a sweep read \d+ at/],
  [
    'with higher revisions than ever',
    true,
    /1 orphan may be healthy .*: Temporal does not say that Millwright deleted its Machine/,
  ],
])(
  '[mcm 89 partly] [invariant 4] a control cluster that was restored %s costs no VM of a Machine that the backup does not have',
  async (_how, isBumped, reason) => {
    dir = await mkdtemp(join(tmpdir(), 'millwright-restored-'));
    stack = await startStack({ dir });
    const { kubeconfig, temporalAddress, etcd } = stack;
    const [{ apiServer }] = stack.clusters;
    millwright = await startInstallation({ kubeconfig, temporalAddress, flags: quickSweeps });
    const { cloud, processes, namespace } = millwright;
    const stopAll = async () => {
      for (const each of processes.splice(0)) await each.stop();
      await apiServer.kill('SIGKILL'); // it would wait for its watchers
      await etcd.kill();
    };
    const startServers = async () => {
      await etcd.restart();
      await apiServer.restart();
    };
    await millwright.createMachine(`before-${namespace}`);
    await millwright.untilMachines(1, 'Running');
    await stopAll();
    await cp(join(dir, 'etcd'), join(dir, 'etcd-copy'), { recursive: true });
    await startServers();
    await millwright.start();
    await millwright.createMachine(`after-${namespace}`);
    await millwright.untilMachines(2, 'Running');
    await untilOld(millwright);
    const { report } = await sweep(millwright, '--temporal-address', temporalAddress);
    expect(report.unanswered).toEqual([]);
    await stopAll();
    await rm(join(dir, 'etcd'), { recursive: true });
    await cp(join(dir, 'etcd-copy'), join(dir, 'etcd'), { recursive: true });
    await startServers();
    if (isBumped) await bumpRevision(millwright, report.machines?.resourceVersion ?? '');
    await millwright.start();

    const { code, output } = await heldSweep(millwright, '--temporal-address', temporalAddress);

    expect(code).toBe(1);
    expect(output).toMatch(new RegExp(`waits for approval: ${reason.source}`));
    expect(output).toContain(`after-${namespace}`);
    expect(await cloud.stats()).toMatchObject({ deletes: 0, vmsNow: 2 });
  },
);
