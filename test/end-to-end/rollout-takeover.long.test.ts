/** Millwright takes over rollouts that machine-controller-manager (MCM) has left half done: docs/how-to/migrate-from-mcm.md. */
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
import { atStep, type McmMachine, type McmRollout, type McmSet, playMcm } from '../support/mcm.ts';
import { until } from '../support/until.ts';

/** What MCM puts on each Node of a deployment that rolls out, and on those of old sets. */
const kept = { [annotations.scaleDownDisabled]: 'true', [annotations.scaleDownDisabledByMcm]: 'true' };
const fresh: McmMachine = { vm: 'joined', phase: 'Running', node: { metadata: { annotations: kept } } };
const old: McmMachine = { ...fresh, node: { ...fresh.node, spec: { taints: [taints.preferNoSchedule] } } };
const unmarked: McmMachine = { vm: 'joined', phase: 'Running' };
const pending: McmMachine = {
  ...{ vm: 'made', phase: 'Pending', current: { timeoutActive: true } },
  operation: { type: 'Create', state: 'Processing', description: 'Creating machine on cloud provider' },
};
const deleting: McmMachine = {
  ...{ vm: 'joined', phase: 'Terminating', isDeleted: true, operation: atStep('drain', 'VM status: found. ') },
  node: { ...old.node, spec: { ...old.node?.spec, unschedulable: true } },
};
const tainted = { annotations: { [annotations.preferNoSchedule]: 'True' } };
const rolling = { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } };

interface Left extends Omit<McmRollout, 'replicas' | 'strategy' | 'current'> {
  /** Default: 2. */
  readonly current?: string;
  /** Machines of each set, the oldest set first. */
  readonly machines: readonly (readonly McmMachine[])[];
  /** VMs that are still to be made, and machines that stay. */
  readonly expected: {
    readonly made: number;
    readonly kept: number;
    readonly sets?: number;
    readonly revision: string;
  };
}

/** Rollouts of three machines with one more allowed, at the points at which MCM may stop. */
const rollouts: Readonly<Record<string, Left>> = {
  'before-the-new-set': {
    sets: [{ version: '1', replicas: 3 }],
    machines: [[unmarked, unmarked, unmarked]],
    expected: { made: 3, kept: 0, sets: 2, revision: '2' },
    reason: 'NewMachineSetAvailable',
  },
  'before-its-first-machine': {
    sets: [
      { version: '1', replicas: 3 },
      { version: '2', replicas: 1 },
    ],
    machines: [[unmarked, unmarked, unmarked], []],
    expected: { made: 3, kept: 0, revision: '2' },
    reason: 'NewMachineSetCreated',
  },
  'before-it-joins': {
    sets: [
      { version: '1', replicas: 3, marks: tainted },
      { version: '2', replicas: 1 },
    ],
    machines: [[old, old, old], [pending]],
    expected: { made: 2, kept: 1, revision: '2' },
  },
  'half-way': {
    sets: [
      { version: '1', replicas: 2, marks: tainted },
      { version: '2', replicas: 1 },
    ],
    machines: [[old, old, deleting], [fresh]],
    expected: { made: 2, kept: 1, revision: '2' },
  },
  'before-the-last-old-one-is-gone': {
    sets: [
      { version: '1', replicas: 0, marks: tainted },
      { version: '2', replicas: 3 },
    ],
    machines: [[deleting], [fresh, fresh, fresh]],
    expected: { made: 0, kept: 3, revision: '2' },
  },
  'before-the-marks-are-off': {
    sets: [
      { version: '1', replicas: 0, marks: tainted },
      { version: '2', replicas: 3 },
    ],
    machines: [[], [fresh, fresh, fresh]],
    expected: { made: 0, kept: 3, revision: '2' },
  },
  'after-a-second-template': {
    current: '3',
    sets: [
      { version: '1', replicas: 2, marks: tainted },
      { version: '2', replicas: 1, marks: tainted },
      { version: '3', replicas: 1 },
    ],
    machines: [[old, old], [old], [pending]],
    expected: { made: 2, kept: 1, revision: '3' },
  },
  'after-it-went-back': {
    current: '1',
    sets: [
      { version: '1', replicas: 2, marks: tainted },
      { version: '2', replicas: 2 },
    ],
    machines: [
      [old, old],
      [fresh, fresh],
    ],
    expected: { made: 1, kept: 2, revision: '3' },
  },
};

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

  async function leave(name: string, left: Left): Promise<void> {
    const { current = '2', machines: ofSets, ...rest } = left;
    const sets = await mcm.rollout(name, { replicas: 3, strategy: rolling, current, ...rest });
    made.set(name, sets);
    const all = ofSets.flatMap((own, i) =>
      own.map((each, k) => {
        const metadata = { annotations: { version: left.sets[i]?.version } };
        return mcm.machine(`${name}-${i}-${k}`, { ...each, set: sets[i]!, metadata });
      }),
    );
    before.set(name, await Promise.all(all));
  }

  const ofInPlace = (labelled: readonly string[], reason: string, more: McmMachine['node'] = {}): McmMachine => ({
    ...{ vm: 'joined', phase: 'Running' },
    node: {
      metadata: {
        ...more.metadata,
        annotations: kept,
        labels: Object.fromEntries(labelled.map((each) => [each, 'true'])),
      },
      spec: { taints: [taints.preferNoSchedule], ...more.spec },
      status: {
        conditions: [
          { type: 'Ready', status: 'True' },
          { type: 'InPlaceUpdate', status: 'True', reason },
        ],
      },
    },
  });
  const { candidateForUpdate, selectedForUpdate, updateResult } = labels;
  const taken = [candidateForUpdate, selectedForUpdate];
  const cordoned = { spec: { unschedulable: true } };
  const operation = {
    ...{ type: 'InPlaceUpdate', state: 'Processing', description: 'Node drain successful. Node is ready for update' },
  };

  /** Five machines, of which three may be away: one is drained, one waits for its agent, and one waits for its hand-over. */
  async function leaveInPlace(): Promise<void> {
    const sets = await mcm.rollout('in-place', {
      replicas: 5,
      current: '2',
      strategy: {
        type: 'InPlaceUpdate',
        ...{ inPlaceUpdate: { maxSurge: 0, maxUnavailable: 3, orchestrationType: 'Auto' } },
      },
      sets: [
        { version: '1', replicas: 5, marks: { labels: { [labels.scaleUpDisabled]: 'true' }, ...tainted } },
        { version: '2', replicas: 0 },
      ],
    });
    made.set('in-place', sets);
    const updated = ofInPlace(taken, 'UpdateSuccessful', cordoned);
    const result = { [updateResult]: updateResults.successful };
    const left: Readonly<Record<string, McmMachine>> = {
      waiting: ofInPlace([candidateForUpdate], 'CandidateForUpdate'),
      'waiting-too': ofInPlace([candidateForUpdate], 'CandidateForUpdate'),
      draining: ofInPlace(taken, 'SelectedForUpdate'),
      updating: { ...ofInPlace(taken, 'ReadyForUpdate', cordoned), phase: 'InPlaceUpdating', operation },
      updated,
    };
    const all = Object.entries(left).map(([name, each]) =>
      mcm.machine(`in-place-${name}`, { ...each, set: sets[0]!, metadata: { annotations: { version: '1' } } }),
    );
    before.set('in-place', await Promise.all(all));
    await millwright.target.patch(nodes, { name: 'in-place-updated' }, mergePatch({ metadata: { labels: result } }));
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
    await leaveInPlace();
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
