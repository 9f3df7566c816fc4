/** What a deletion of an owner leaves, with the real garbage collector. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { MachineSet } from '../../api/gardener/schema/machine-set.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { isActive } from '../support/machine-facts.ts';
import { type OwnClusters, startOwnClusters } from '../support/own-cluster.ts';
import { until } from '../support/until.ts';

describe('an owner of three machines that is deleted', () => {
  let own: OwnClusters;
  let millwright: Installation;

  beforeAll(async () => {
    own = await startOwnClusters(['cascade'], { isControlled: true });
  }, 900_000); // where the controller manager has to be built
  afterAll(() => own?.stop());
  beforeEach(async () => {
    millwright = await startInstallation({ kubeconfig: own.clusters[0]!.kubeconfig });
  });
  afterEach(() => millwright?.stop());

  const key = () => ({ namespace: millwright.namespace, name: 'pool' });
  const deployment = () => millwright.control.find(machineDeployments, key());
  const sets = async () => (await millwright.control.list(machineSets, { namespace: millwright.namespace })).items;
  const uids = (found: readonly Machine[]) => found.map(({ metadata }) => metadata.uid).toSorted();
  const controllersOf = (found: readonly (Machine | MachineSet)[]) =>
    found.flatMap(({ metadata }) => metadata.ownerReferences ?? []);

  /** A set of three machines without a deployment. */
  async function createLoneSet(): Promise<void> {
    const matchLabels = { group: 'lone' };
    const template = { metadata: { labels: matchLabels }, spec: { class: { kind: 'MachineClass', name: 'small' } } };
    const spec = { replicas: 3, selector: { matchLabels }, template };
    await millwright.control.create(machineSets, { metadata: key(), spec });
  }

  /** Has nothing released before `act` is done. */
  async function withoutGarbageCollector(act: () => Promise<void>): Promise<void> {
    const controllerManager = own.clusters[0]?.controllerManager;
    await controllerManager?.kill();
    try {
      await act();
    } finally {
      await controllerManager?.restart();
    }
  }

  /** Waits until the workflow of an owner says that it waits for the garbage collector. Answers what it says. */
  async function untilItWaits(kind: string): Promise<string> {
    let said = '';
    return until(
      `${kind} pool waits`,
      async () => {
        expect((await millwright.machines()).filter(isActive)).toHaveLength(3);
        said = (await millwright.command('describe', kind, 'pool')).output;
        return said.includes('waiting for the Kubernetes garbage collector, for ') ? said : undefined;
      },
      { describe: async () => said },
    );
  }

  async function expectThreeRunning(before: readonly Machine[]): Promise<void> {
    expect(uids(await millwright.untilMachines(3, 'Running'))).toEqual(uids(before));
    const vms = (await millwright.cloud.vms()).map(({ name }) => name).toSorted();
    expect(vms).toEqual(before.map(({ metadata }) => metadata.name).toSorted());
    expect(await millwright.cloud.stats()).toMatchObject({ vmsEver: 3, vmsNow: 3 });
  }

  it('with --cascade=orphan, a deployment leaves its set, which keeps the machines until another deployment adopts it', async () => {
    const { control } = millwright;
    await millwright.createDeployment('pool', 3);
    const before = await millwright.untilMachines(3, 'Running');

    await withoutGarbageCollector(async () => {
      await control.delete(machineDeployments, key(), { propagationPolicy: 'Orphan' });
      expect(await untilItWaits('machinedeployment')).toMatch(
        /the Kubernetes garbage collector has to release what it owns, after a deletion with `--cascade=or/,
      );
      expect((await millwright.command('rollout', 'status', 'pool')).output).toMatch(
        /is being deleted with --cascade=orphan for .* \(since .*Z\): wait until the Kubernetes garbage collector has released/,
      );
      await expectThreeRunning(before);
    });
    await until('the deployment is gone', async (see) => see(await deployment()) === undefined);
    expect(controllersOf(await sets())).toEqual([]);
    await expectThreeRunning(before);

    // The set looks after itself now.
    const [first, ...others] = before;
    await control.delete(machines, { namespace: millwright.namespace, name: first?.metadata.name ?? '' });
    const next = await until('another machine is there in place of one that was deleted', async (see) => {
      const found = see(await millwright.machines());
      return found.some(({ metadata }) => metadata.uid === first?.metadata.uid) ? undefined : found;
    });
    expect(uids(next)).toEqual(expect.arrayContaining(uids(others)));
    const present = await millwright.untilMachines(3, 'Running');

    // A deployment that selects the set adopts it.
    const [set] = await sets();
    await millwright.createDeployment('pool', 3);
    await until('the deployment is complete with them', async () => {
      const { status } = (await deployment()) ?? {};
      const reason = status?.conditions?.find(({ type }) => type === 'Progressing')?.reason;
      return reason === 'NewMachineSetAvailable' && status?.availableReplicas === 3;
    });
    expect((await sets()).map((one) => one.metadata.uid)).toEqual([set?.metadata.uid]);
    expect(uids(await millwright.machines())).toEqual(uids(present));
    expect(await millwright.cloud.stats()).toMatchObject({ vmsEver: 4, vmsNow: 3 });
  });

  it('with --cascade=orphan, a set leaves its machines', async () => {
    const { control } = millwright;
    await millwright.createDeployment('other', 0);
    await createLoneSet();
    const before = await millwright.untilMachines(3, 'Running');

    await withoutGarbageCollector(async () => {
      await control.delete(machineSets, key(), { propagationPolicy: 'Orphan' });
      expect(await untilItWaits('machineset')).toMatch(/has to release what it owns/);
      await expectThreeRunning(before);
    });
    await until('the set is gone', async (see) => see(await control.find(machineSets, key())) === undefined);
    expect(controllersOf(await millwright.machines())).toEqual([]);
    await expectThreeRunning(before);
  });

  it('with --cascade=orphan, a set of a deployment leaves its machines to the set that the deployment makes next', async () => {
    const { control } = millwright;
    await millwright.createDeployment('pool', 3);
    const before = await millwright.untilMachines(3, 'Running');
    const [first] = await sets();

    await control.delete(machineSets, first!.metadata, { propagationPolicy: 'Orphan' });

    const next = await until('another set has the machines', async (see) => {
      const [set] = see(await sets());
      const owners = controllersOf(await millwright.machines());
      const isNext = set !== undefined && set.metadata.uid !== first?.metadata.uid;
      return isNext && owners.length === 3 && owners.every(({ uid }) => uid === set.metadata.uid) && set;
    });
    await until('the deployment is complete with them', async () => {
      const { status } = (await deployment()) ?? {};
      const reason = status?.conditions?.find(({ type }) => type === 'Progressing')?.reason;
      return reason === 'NewMachineSetAvailable' && status?.availableReplicas === 3;
    });
    expect(next.metadata.name).toBe(first?.metadata.name);
    await expectThreeRunning(before);
  });

  it('with --cascade=foreground, a deployment goes last and leaves nothing', async () => {
    const { control } = millwright;
    await millwright.createDeployment('pool', 3);
    await millwright.untilMachines(3, 'Running');

    await control.delete(machineDeployments, key(), { propagationPolicy: 'Foreground' });

    await until('the deployment is gone', async (see) => see(await deployment()) === undefined);
    expect([await millwright.machines(), await sets()]).toEqual([[], []]);
    expect(await millwright.cloud.stats()).toMatchObject({ vmsEver: 3, vmsNow: 0 });
  });

  it('with --cascade=foreground, a set goes last and leaves nothing', async () => {
    const { control } = millwright;
    await createLoneSet();
    await millwright.untilMachines(3, 'Running');

    await control.delete(machineSets, key(), { propagationPolicy: 'Foreground' });

    await until('the set is gone', async (see) => see(await control.find(machineSets, key())) === undefined);
    expect(await millwright.machines()).toEqual([]);
    expect(await millwright.cloud.stats()).toMatchObject({ vmsEver: 3, vmsNow: 0 });
  });

  it('with --cascade=foreground, a set of a deployment is replaced by another one with as many machines', async () => {
    const { control } = millwright;
    await millwright.createDeployment('pool', 3);
    const before = await millwright.untilMachines(3, 'Running');
    const [first] = await sets();

    await control.delete(machineSets, first!.metadata, { propagationPolicy: 'Foreground' });

    await until('the set is gone', async (see) => {
      const found = see(await sets());
      return found.every(({ metadata }) => metadata.uid !== first?.metadata.uid);
    });
    const left = uids(await millwright.machines()).filter((uid) => uids(before).includes(uid));
    expect(left).toEqual([]);
    await millwright.untilMachines(3, 'Running');
    expect(await millwright.cloud.stats()).toMatchObject({ vmsEver: 6, vmsNow: 3 });
  });
});
