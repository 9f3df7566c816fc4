/**
 * Millwright takes over rollouts that machine-controller-manager (MCM) has left half done:
 * docs/how-to/migrate-from-mcm.md.
 */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { annotations, labels, taints, updateResults } from '../../api/gardener/names.ts';
import { machineDeployments, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import { controllerOf } from '../../api/owner/ownership.ts';
import { type Node, nodes } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Reflector, startReflector } from '../../kube/reflector.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { recordingLogger } from '../support/kube.ts';
import { isActive, isAvailable } from '../support/machine-facts.ts';
import { type McmSet, playMcm } from '../support/mcm.ts';
import { inPlace, leaveRollout, type McmRolloutLeft, rollouts } from '../support/mcm-states.ts';
import { until } from '../support/until.ts';

const { candidateForUpdate, selectedForUpdate, updateResult } = labels;

describe('a rollout that MCM leaves half done', () => {
  let millwright: Installation;
  let mcm: ReturnType<typeof playMcm>;
  let machineWatch: Reflector<Machine>;
  let nodeWatch: Reflector<Node>;
  const made = new Map<string, readonly McmSet[]>();
  const before = new Map<string, readonly Machine[]>();
  /** Most machines, and fewest available ones, of each deployment since Millwright began. */
  const seen = new Map<string, { most: number; least: number }>();
  let mostSelected = 0;
  let vmsBefore: readonly string[];

  const ofPool = (name: string) =>
    machineWatch.store.list().filter(({ metadata }) => metadata.labels?.[labels.name] === name);
  const keyOf = (name: string) => ({ namespace: millwright.namespace, name });
  const isSelected = ({ metadata }: Node) =>
    metadata.name.startsWith('in-place-') && metadata.labels?.[labels.selectedForUpdate] !== undefined;

  function sample(): void {
    if (!machineWatch?.store.synced || !nodeWatch?.store.synced) return;
    for (const [name, bounds] of seen) {
      const all = ofPool(name);
      bounds.most = Math.max(bounds.most, all.filter(isActive).length);
      bounds.least = Math.min(bounds.least, all.filter((each) => isActive(each) && isAvailable(each)).length);
    }
    mostSelected = Math.max(mostSelected, nodeWatch.store.list().filter(isSelected).length);
  }

  async function leave(name: string, left: McmRolloutLeft): Promise<void> {
    const { sets, machines: all } = await leaveRollout(mcm, name, left);
    made.set(name, sets);
    before.set(name, all);
  }

  /** The agent on a Node of the update in place, and whoever sees its critical components run again. */
  async function playAgent({ metadata, spec, status }: Node): Promise<void> {
    const { name } = metadata;
    const rest = spec?.taints?.filter(({ key }) => key !== taints.criticalComponentsNotReady.key) ?? [];
    const reason = status?.conditions?.find(({ type }) => type === 'InPlaceUpdate')?.reason;
    const isReady = reason === 'ReadyForUpdate' && metadata.labels?.[updateResult] === undefined;
    const result = { [updateResult]: updateResults.successful };
    if (rest.length < (spec?.taints?.length ?? 0))
      await millwright.target.patch(nodes, { name }, mergePatch({ spec: { taints: rest } }));
    else if (isReady) await millwright.target.patch(nodes, { name }, mergePatch({ metadata: { labels: result } }));
  }

  beforeAll(async () => {
    millwright = await startInstallation({ isStopped: true, cloud: { statusUpdateMs: 2 ** 31 - 1 } });
    mcm = playMcm(millwright);
    await mcm.protectSources();
    for (const [name, left] of Object.entries(rollouts)) await leave(name, left);
    await leave('in-place', inPlace);
    vmsBefore = (await millwright.cloud.vms({ all: true })).map(({ id }) => id);

    const { control, target, namespace } = millwright;
    const logger = recordingLogger();
    machineWatch = startReflector<Machine>({ client: control, resource: machines, namespace, logger, onEvent: sample });
    nodeWatch = startReflector<Node>({
      ...{ client: target, resource: nodes, logger },
      onEvent: () => {
        sample();
        for (const node of nodeWatch?.store.list() ?? [])
          if (node.metadata.name.startsWith('in-place-')) void playAgent(node).catch(() => undefined);
      },
    });
    await Promise.all([machineWatch.waitForSync(), nodeWatch.waitForSync()]);
    for (const name of [...Object.keys(rollouts), 'in-place'])
      seen.set(name, { most: 0, least: Number.POSITIVE_INFINITY });
    sample();
    await millwright.start();
  });
  afterAll(async () => {
    await Promise.all([machineWatch?.stop(), nodeWatch?.stop()]);
    await millwright?.stop();
  });

  /** Waits until all machines are of the set of this version, and nothing is left on their Nodes. */
  async function untilComplete(name: string, version: string, count: number): Promise<Machine[]> {
    const isMarked = ({ metadata, spec }: Node) =>
      metadata.annotations?.[annotations.scaleDownDisabled] !== undefined ||
      metadata.annotations?.[annotations.scaleDownDisabledByMcm] !== undefined ||
      [candidateForUpdate, selectedForUpdate, updateResult].some((key) => metadata.labels?.[key] !== undefined) ||
      spec?.unschedulable === true ||
      spec?.taints?.some(({ key }) => key === taints.preferNoSchedule.key) === true;
    return until(
      `${name} is complete`,
      async () => {
        const all = ofPool(name);
        const { status, metadata } = await millwright.control.get(machineDeployments, keyOf(name));
        const progressing = status?.conditions?.find(({ type }) => type === 'Progressing');
        const isSeen = status?.observedGeneration === metadata.generation && status?.availableReplicas === count;
        const sets = await millwright.setsOf(name);
        const current = sets.find(({ spec }) => spec?.template?.metadata?.annotations?.['version'] === version);
        const isOf = (each: Machine) => controllerOf(each) === current?.metadata.uid && phaseOf(each) === 'Running';
        const isDone = isSeen && all.length === count && all.every(isOf);
        if (!isDone || progressing?.reason !== 'NewMachineSetAvailable') return false;
        const own = await Promise.all(all.map((each) => millwright.target.get(nodes, { name: each.metadata.name })));
        return !own.some(isMarked) && all;
      },
      { describe: () => millwright.story() },
    );
  }

  const newVmsOf = async (found: readonly Machine[]) => {
    const ids = new Set(found.map(({ spec }) => spec?.providerID?.split('/').at(-1)));
    return [...ids].filter((id) => !vmsBefore.includes(id ?? ''));
  };

  it.each(Object.entries(rollouts))(
    'goes on %s, with the sets that there are, and within its bounds',
    async (name, left) => {
      const { current = '2', expected } = left;
      const after = await untilComplete(name, current, 3);

      const own = await millwright.setsOf(name);
      expect(own).toHaveLength(expected.sets ?? left.sets.length);
      expect(own.map(({ metadata }) => metadata.uid)).toEqual(
        expect.arrayContaining((made.get(name) ?? []).map(({ uid }) => uid)),
      );
      expect(own.map(({ spec }) => spec?.replicas ?? 0).toSorted()).toEqual([...own.slice(1).map(() => 0), 3]);
      const uids = new Set(before.get(name)?.map(({ metadata }) => metadata.uid));
      expect(after.filter(({ metadata }) => uids.has(metadata.uid))).toHaveLength(expected.kept);
      expect(await newVmsOf(after)).toHaveLength(expected.made);
      const { most, least } = seen.get(name)!;
      expect([most <= 4, least >= 3]).toEqual([true, true]);
      const { metadata, status } = await millwright.control.get(machineDeployments, keyOf(name));
      expect(metadata.annotations?.[annotations.revision]).toBe(expected.revision);
      expect(status?.conditions?.map(({ type }) => type).toSorted()).toEqual(['Available', 'Progressing']);
    },
  );

  it('goes on in place, with the VMs that there are, and takes no machine more than may be away', async () => {
    const after = await untilComplete('in-place', '2', 5);
    const uidsOf = (found: readonly Machine[] = []) => found.map(({ metadata }) => metadata.uid).toSorted();
    expect(uidsOf(after)).toEqual(uidsOf(before.get('in-place')));
    expect(await newVmsOf(after)).toEqual([]);
    expect(seen.get('in-place')?.most).toBe(5);
    expect(mostSelected).toBe(3);
    expect((await millwright.setsOf('in-place')).map(({ spec }) => spec?.replicas ?? 0).toSorted()).toEqual([0, 5]);

    // The old set is used again, with the label that MCM has left on it: a machine that is missing is made there.
    const back = mergePatch({ spec: { template: { metadata: { annotations: { version: '1' } } }, replicas: 6 } });
    await millwright.control.patch(machineDeployments, keyOf('in-place'), back);
    await untilComplete('in-place', '1', 6);
  });
});
