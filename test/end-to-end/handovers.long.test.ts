/**
 * A fleet with twenty machines in every phase is handed over from machine-controller-manager (MCM) to Millwright and
 * back, twice. Both are the real programs, with their Leases and sweeps, on one simulated cloud. What could go on is
 * held while they change.
 */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { annotations, finalizers, labels } from '../../api/gardener/names.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import { prefix } from '../../api/names.ts';
import type { KubeObject, Resource } from '../../api/objects.ts';
import { nodes } from '../../kube/core.ts';
import { type PhaseFleet, size, startFleet } from '../support/fleet-in-phases.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { changesBetween, kindsOfMarks, type MarkChange, takeSnapshot } from '../support/marks.ts';
import { type McmProcesses, startMcm } from '../support/mcm-processes.ts';
import { readAsMcm } from '../support/mcm-reader.ts';
import { type OwnClusters, startOwnClusters } from '../support/own-cluster.ts';
import { until } from '../support/until.ts';

type Side = 'MCM' | 'Millwright';
const handovers: readonly { round: number; from: Side; to: Side }[] = [
  { round: 1, from: 'MCM', to: 'Millwright' },
  { round: 2, from: 'Millwright', to: 'MCM' },
  { round: 3, from: 'MCM', to: 'Millwright' },
  { round: 4, from: 'Millwright', to: 'MCM' },
];

/** Nothing ends by itself while it is held, and an orphan would be deleted at once. */
const timeouts = [
  ...['--machine-creation-timeout', '2h', '--machine-health-timeout', '2h', '--machine-drain-timeout', '2h'],
  ...['--machine-inplace-update-timeout', '2h', '--resource-exhausted-retry', '5s'],
  ...['--machine-safety-orphan-vms-period', '30s'],
];
const requests = ['--kube-api-qps', '300', '--kube-api-burst', '600', '--concurrent-syncs', '100'];
const overshooting = ['--machine-safety-overshooting-period', '5s'];
const mcmFlags = {
  machineControllerManager: [...requests, ...overshooting],
  machineController: [...requests, ...timeouts],
};
const millwrightFlags = [
  ...[...timeouts, ...overshooting, '--max-health-replacements', '100%', '--outage-share', '100'],
  ...['--orphan-confirm-after', '10s', '--orphan-minimum-age', '1s'],
];

const frozen = ['MachineSet', 'MachineDeployment'].flatMap((kind) => [
  `${kind}: label ${labels.freeze}`,
  `${kind}: condition Frozen`,
]);
/** What the next controller may change before anything is released. Annotations of Millwright are not asked for. */
const due: Readonly<Record<Side, readonly string[]>> = {
  Millwright: [
    // Machines that are being deleted freeze nothing.
    ...frozen,
    // MCM adds it three minutes after it has seen the Node.
    `Node: finalizer ${finalizers.node}`,
    // MCM sometimes loses them on Nodes of preserved machines.
    `Node: annotation ${annotations.scaleDownDisabled}`,
    `Node: annotation ${annotations.scaleDownDisabledByMcm}`,
  ],
  MCM: [
    ...frozen,
    // Notes of MCM on old sets.
    `MachineSet: label ${labels.scaleUpDisabled}`,
    `MachineSet: annotation ${annotations.preferNoSchedule}`,
    // MCM removes it from classes without machines.
    `MachineClass: finalizer ${finalizers.machine}`,
  ],
};

describe('a fleet in every phase', () => {
  let clusters: OwnClusters;
  let millwright: Installation;
  let mcm: McmProcesses | undefined;
  let fleet: PhaseFleet;
  const marks = { MCM: new Set<string>(), Millwright: new Set<string>() };

  beforeAll(async () => {
    clusters = await startOwnClusters(['handovers'], { isControlled: true });
    const { kubeconfig } = clusters.clusters[0]!;
    // Kubelets report once and no more, so that what a test writes into a Node stays.
    const cloud = { statusUpdateMs: 2 ** 31 - 1, maxGraceMs: 200 };
    const flags = millwrightFlags;
    millwright = await startInstallation({ kubeconfig, isStopped: true, isElected: true, cloud, flags });
    // Its tags are those of all VMs: MCM would take the VM of a deleted Machine that names none for an orphan.
    await millwright.control.delete(machineClasses, { namespace: millwright.namespace, name: 'small' });
    fleet = await startFleet(millwright);
    await start('MCM');
  }, 600_000);
  afterAll(async () => {
    await fleet?.stop();
    await mcm?.stop();
    await millwright?.stop();
    await clusters?.stop();
  });

  async function start(side: Side): Promise<void> {
    const { kubeconfig } = clusters.clusters[0]!;
    if (side === 'Millwright') await millwright.start();
    else mcm = await startMcm({ namespace: millwright.namespace, kubeconfig, flags: mcmFlags });
  }
  async function stop(side: Side): Promise<void> {
    if (side === 'MCM') await mcm?.stop();
    else for (const process of millwright.processes) await process.kill('SIGTERM');
  }
  /** What MCM's own types do not know of the objects. */
  async function problemsOfMcm(): Promise<string[]> {
    const { control, namespace } = millwright;
    const resources: readonly Resource<KubeObject>[] = [machines, machineSets, machineDeployments, machineClasses];
    const read = async (resource: Resource<KubeObject>, selection: object) =>
      (await control.list(resource, selection)).items.map((each) => ({ ...each, kind: resource.kind }));
    const own = await Promise.all(resources.map((resource) => read(resource, { namespace })));
    const readings = await readAsMcm([...own.flat(), ...(await read(nodes, {}))]);
    return readings.flatMap(({ kind, name, problems }) => problems.map((problem) => `${kind} ${name}: ${problem}`));
  }

  const snapshot = () => takeSnapshot(millwright.control, millwright.namespace);
  const vms = async () =>
    (await millwright.cloud.vms({ all: true })).map(({ id, name, state }) => ({ id, name, state }));
  const isInFlight = ({ name }: { readonly name: string }) => ['begun', 'asked'].includes(fleet.groupOf(name) ?? '');

  function isDue({ kind, mark, name }: MarkChange, side: Side): boolean {
    return isInFlight({ name }) || mark.includes(prefix) || due[side].includes(`${kind}: ${mark}`);
  }

  it.each(handovers)(
    'goes from $from to $to, and nothing changes that is not due',
    async ({ round, from, to }) => {
      const isMcm = from === 'MCM';
      await fleet.hold(round, isMcm);
      await stop(from);
      await fleet.endCalls(isMcm);
      const [before, vmsBefore] = [await snapshot(), await vms()];
      for (const kind of kindsOfMarks(before)) marks[from].add(kind);

      expect(await problemsOfMcm()).toEqual([]);
      await start(to);
      await fleet.untilTaken(to === 'MCM' ? 5 : 2);

      const [after, vmsAfter] = [await snapshot(), await vms()];
      expect(changesBetween(before, after).filter((change) => !isDue(change, to))).toEqual([]);
      expect(vmsAfter.filter((vm) => !isInFlight(vm))).toEqual(vmsBefore.filter((vm) => !isInFlight(vm)));
      const ofRound = vmsAfter.filter(({ name }) => new RegExp(`^(begun|asked)-${round}-`).test(name));
      expect(ofRound).toHaveLength(size);

      await fleet.release(isMcm);
      await until('each VM and each Node has its Machine', async (see) => {
        const { items } = await millwright.control.list(machines, { namespace: millwright.namespace });
        const ofVms = (await millwright.cloud.vms()).map(({ name }) => name);
        const ofNodes = (await millwright.target.list(nodes)).items.map(({ metadata }) => metadata.name);
        const ofMachines = items.map(({ metadata }) => metadata.name);
        const surplus = [ofVms, ofNodes].map((found) => found.filter((name) => !ofMachines.includes(name)));
        return (
          see(surplus).flat().length === 0 && ofVms.length === ofMachines.length && ofNodes.length === ofVms.length
        );
      });
      const everMade = await vms();
      expect(new Set(everMade.map(({ name }) => name)).size).toBe(everMade.length);
    },
    1_800_000,
  );

  it('is deleted, and nothing is left in the cloud and of its Nodes', async () => {
    await fleet.remove();
    expect(await millwright.cloud.resources()).toEqual([]);
    expect((await millwright.target.list(nodes)).items).toEqual([]);
  }, 600_000);

  it('has got the same marks from both, but for the freeze, and the page about the way back names each', () => {
    const { MCM, Millwright } = marks;
    const without = (set: ReadonlySet<string>, others: ReadonlySet<string>) =>
      [...set].filter((mark) => !mark.includes(prefix) && !others.has(mark)).toSorted();
    expect(without(MCM, Millwright)).toEqual(frozen.toSorted());
    expect(without(Millwright, MCM)).toEqual([]);

    const ofOthers = /: (label (name|(\w+\.)?kubernetes\.io\/.*)|condition (Ready|\w+Pressure))$/;
    const left = [...MCM, ...Millwright].filter((mark) => !mark.includes(prefix) && !ofOthers.test(mark));
    const page = readFileSync(new URL('../../docs/how-to/back-to-mcm.md', import.meta.url), 'utf8');
    const nameOf = (mark: string) => mark.replace(/^.*[ /]/, '').replace(/:\w+$/, '');
    expect(left.length).toBeGreaterThan(30);
    expect(left.filter((mark) => !new RegExp(`\\b${nameOf(mark)}\\b`).test(page))).toEqual([]);
  });
});
