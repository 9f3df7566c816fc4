/**
 * What tests have the played machine-controller-manager (MCM) leave is compared with what MCM v0.62.1 itself leaves.
 */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { labels } from '../../api/gardener/names.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { MachineSet } from '../../api/gardener/schema/machine-set.ts';
import type { KubeObject } from '../../api/objects.ts';
import { nodes, secrets } from '../../kube/core.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { type McmMachine, type McmSet, playMcm } from '../support/mcm.ts';
import { liveWithMcm, mcmFlags } from '../support/mcm-lives.ts';
import { startMcm } from '../support/mcm-processes.ts';
import {
  creating,
  deleting,
  inPlace,
  leaveRollout,
  type McmRolloutLeft,
  replaced,
  resting,
  rollouts,
} from '../support/mcm-states.ts';
import {
  comparable,
  differencesBetween,
  type ObjectHistory,
  type Replacements,
  recordObjects,
} from '../support/object-history.ts';
import { type OwnClusters, startOwnClusters } from '../support/own-cluster.ts';

/** Kubelets report once and no more, so that what a test writes into a Node stays. */
const cloud = { statusUpdateMs: 2 ** 31 - 1 };

const states: Readonly<Record<string, McmMachine>> = { ...resting, ...creating, ...replaced, ...deleting };
/** The machine of MCM that has been in a state, or its deployment. Default: `real-life`. */
const realMachines: Readonly<Record<string, string>> = {
  unknown: 'real-unknown',
  failed: 'real-failed',
  'preserved-failed': 'real-preserved-failed',
  'preserved-by-set': 'real-saved',
  'preserved-running': 'real-preserved',
  updating: 'real-updating',
  'refused-without-vm': 'real-refused',
  'refused-with-vm': 'real-refused',
  'at-vm-status-unnamed': 'real-refused',
  'at-vm-status-unnamed-with-vm': 'real-refused',
  'deleted-by-set': 'real-frozen',
  'at-refused-drain': 'real-guarded',
  'at-refused-vm': 'real-kept',
  'at-volumes': 'real-forced',
};
/** States that are not compared, with the reason. */
const notThere: Readonly<Record<string, string>> = {
  available: 'MCM has a cluster of Nodes here',
  'not-initialized': 'VMs of the simulated cloud need no initialization',
};

const left: Readonly<Record<string, McmRolloutLeft>> = { ...rollouts, 'in-place': inPlace };
/** The deployment of MCM that has been in a rollout. Default: `real-walk`. */
const realRollouts: Readonly<Record<string, string>> = {
  'before-its-first-machine': 'real-stuck',
  'before-it-joins': 'real-stuck',
  'after-a-second-template': 'real-again',
  'after-it-went-back': 'real-back',
  'in-place': 'real-in-place',
};

interface Exception {
  readonly path: RegExp;
  readonly reason: string;
  /** What it is for. Default: everything. */
  readonly of?: readonly string[];
}

/** What may be different. */
const exceptions: readonly Exception[] = [
  { path: /^Machine\.spec\.healthTimeout$/, reason: 'MCM is given a short one, so that its machines fail soon' },
  {
    path: /\.status\.(\w*[rR]eplicas|lastOperation\..*)$/,
    reason: 'the rollouts are played without counts, because Millwright counts them itself',
    of: Object.keys(left),
  },
  {
    path: /^MachineSet \d\.spec\.replicas$/,
    reason: 'how MCM divides the replicas depends on how old its caches are',
    of: ['after-a-second-template', 'after-it-went-back'],
  },
];
const used = new Set<Exception>();

/** What is different in any two scenes. */
const everywhere: Replacements = [
  [/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, '<time>'],
  [/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+0000 UTC/g, '<time>'],
  [/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<uid>'],
  [/\bvm-[0-9a-f]{8}-[0-9a-f]{4}(-\d+)?/g, '<vm>'],
  [/\b10(\.\d+){3}\b/g, '<address>'],
  // Faults of the cloud are for a class of MCM. The played one has only one class.
  [/"small-\w+"/g, '"small"'],
  // They are there with their times, as Go prints them.
  [/(Node [cC]onditions: )[^"]*/g, '$1<conditions>'],
  // MCM before v0.62 writes it, and Millwright has to read it.
  [/\\"creationTimestamp\\":null,/g, ''],
];

describe('the played MCM', () => {
  let clusters: OwnClusters;
  let real: Installation;
  let played: Installation;
  let history: ObjectHistory;
  let mcm: ReturnType<typeof playMcm>;
  let sets: Readonly<Record<string, McmSet>>;

  beforeAll(async () => {
    clusters = await startOwnClusters(['played-mcm']);
    const { kubeconfig } = clusters.clusters[0]!;
    real = await startInstallation({ kubeconfig, isStopped: true, cloud });
    played = await startInstallation({ isStopped: true, cloud });
    const { control, namespace } = real;
    const kinds = [machines, machineSets, machineDeployments, machineClasses, secrets, nodes];
    history = await recordObjects(control, namespace, kinds);
    const start = () => startMcm({ namespace, kubeconfig, flags: mcmFlags });
    await liveWithMcm({ installation: real, history, start });
    mcm = playMcm(played);
    await mcm.protectSources();
    sets = {
      'preserved-by-set': await mcm.deployment('played-saved', 1, 1),
      'deleted-by-set': await mcm.deployment('played-scaled', 2, 2),
    };
  }, 600_000);
  afterAll(async () => {
    await history?.stop();
    await real?.stop();
    await played?.stop();
    await clusters?.stop();
  });

  /** The differences to the scene of MCM that is most alike. @param of what is compared */
  function differencesTo(scenes: readonly unknown[], scene: unknown, of: string) {
    const found = scenes.map((each) => {
      const all = differencesBetween(scene, each);
      const exceptionsOf = (path: string) =>
        exceptions.filter((each) => each.path.test(path) && (each.of ?? [of]).includes(of));
      const excepted = all.flatMap(({ path }) => exceptionsOf(path));
      return { excepted, rest: all.filter(({ path }) => exceptionsOf(path).length === 0) };
    });
    const [closest] = found.toSorted((a, b) => a.rest.length - b.rest.length);
    for (const each of closest?.excepted ?? []) used.add(each);
    return closest?.rest;
  }

  function ofMachine({ namespace }: Installation, { metadata }: Machine): Replacements {
    const { [labels.name]: deployment, [labels.templateHash]: hash } = metadata.labels ?? {};
    const set = metadata.ownerReferences?.[0]?.name;
    return [
      ...everywhere,
      [namespace, '<namespace>'],
      [metadata.name, '<machine>'],
      ...(set === undefined ? [] : ([[set, '<set>']] as const)),
      ...(deployment === undefined ? [] : ([[deployment, '<deployment>']] as const)),
      ...(hash === undefined ? [] : ([[`"${hash}"`, '"<hash>"']] as const)),
    ];
  }

  /** The scenes of the machines of MCM with this name or of this deployment. @param withNode with that of each */
  function machineScenes(name: string, withNode: boolean): unknown[] {
    const isMeant = ({ metadata }: Machine) => [metadata.name, metadata.labels?.[labels.name]].includes(name);
    return history
      .ever<Machine>(machines)
      .filter(isMeant)
      .flatMap(({ metadata }) => {
        const isOf = (kind: string) => kind === 'Machine' || (withNode && kind === 'Node');
        const scenes = history.scenes((kind, object) =>
          isOf(kind) && object.metadata.name === metadata.name ? kind : undefined,
        );
        return scenes.flatMap(({ Machine, ...others }) =>
          Machine === undefined ? [] : [comparable({ Machine, ...others }, ofMachine(real, Machine as Machine))],
        );
      });
  }

  /** Compares a machine that was played, with its Node if MCM has marked that. */
  async function machineDifferences(machine: Machine, { vm }: McmMachine, name: string, of: string) {
    const withNode = vm === 'joined' || vm === 'gone';
    const node = withNode ? await played.target.find(nodes, { name: machine.metadata.name }) : undefined;
    const scene = comparable({ Machine: machine, ...(node && { Node: node }) }, ofMachine(played, machine));
    return differencesTo(machineScenes(name, withNode), scene, of);
  }

  const versionOf = ({ spec }: MachineSet) => spec?.template?.metadata?.annotations?.['version'] ?? '';
  function ofOwners({ namespace }: Installation, name: string, own: readonly MachineSet[]): Replacements {
    const ofSets = own.flatMap((set): Replacements => {
      const hash = set.metadata.labels?.[labels.templateHash];
      return [
        [set.metadata.name, `<set ${versionOf(set)}>`],
        [`"${hash}"`, `"<hash ${versionOf(set)}>"`],
      ];
    });
    return [...everywhere, [namespace, '<namespace>'], [name, '<deployment>'], ...ofSets];
  }
  const isSetOf = (name: string) => (set: KubeObject) => set.metadata.labels?.[labels.name] === name;
  const roleOfSet = (set: MachineSet) => `MachineSet ${versionOf(set)}`;

  /** The scenes of a deployment of MCM and its sets. */
  function ownerScenes(name: string): unknown[] {
    const replacements = ofOwners(real, name, history.ever<MachineSet>(machineSets).filter(isSetOf(name)));
    const scenes = history.scenes((kind, object) => {
      if (kind === 'MachineDeployment' && object.metadata.name === name) return kind;
      return kind === 'MachineSet' && isSetOf(name)(object) ? roleOfSet(object as MachineSet) : undefined;
    });
    return scenes.map((scene) => comparable(scene, replacements));
  }

  async function ownerDifferences(name: string, realName: string, of: string) {
    const { items } = await played.control.list(machineSets, { namespace: played.namespace });
    const own = items.filter(isSetOf(name));
    const scene = {
      MachineDeployment: await played.deployment(name),
      ...Object.fromEntries(own.map((set) => [roleOfSet(set), set])),
    };
    return differencesTo(ownerScenes(realName), comparable(scene, ofOwners(played, name, own)), of);
  }

  it('leaves the class and its Secret as MCM does', async () => {
    const sourcesOf = async ({ control, namespace, cloud }: Installation) => {
      const scene = {
        MachineClass: await control.get(machineClasses, { namespace, name: 'small' }),
        Secret: await control.get(secrets, { namespace, name: 'pool' }),
      };
      return comparable(scene, [...everywhere, [namespace, '<namespace>'], [cloud.url, '<cloud>']]);
    };
    expect(differencesTo([await sourcesOf(real)], await sourcesOf(played), 'sources')).toEqual([]);
  });

  it.each([
    { available: 2, realName: 'real-pool' },
    { available: 1, realName: 'real-pool' },
    { available: 0, realName: 'real-pool' },
    { available: 2, frozenAt: 5, realName: 'real-frozen' },
  ])('leaves a deployment and its set as MCM does: %p', async ({ available, frozenAt, realName }) => {
    const name = `played-${available}-${frozenAt}`;
    await mcm.deployment(name, 2, available, frozenAt);
    expect(await ownerDifferences(name, realName, name)).toEqual([]);
  });

  it.each(Object.keys(states).filter((name) => !(name in notThere)))(
    'leaves a machine and its Node as MCM does: %s',
    async (name) => {
      const state = states[name]!;
      const set = sets[name];
      const machine = await mcm.machine(`played-${name}`, { ...state, ...(set && { set }) });
      expect(await machineDifferences(machine, state, realMachines[name] ?? 'real-life', name)).toEqual([]);
    },
  );

  it.each(Object.keys(left))('leaves a rollout and its machines as MCM does: %s', async (name) => {
    const rollout = left[name]!;
    const realName = realRollouts[name] ?? 'real-walk';
    const { machines: all } = await leaveRollout(mcm, `played-${name}`, rollout);
    const of = rollout.machines.flat();
    expect(await ownerDifferences(`played-${name}`, realName, name)).toEqual([]);
    for (const [i, machine] of all.entries())
      expect(await machineDifferences(machine, of[i]!, realName, name)).toEqual([]);
  });

  it('is excepted from nothing that is the same', () => {
    expect(exceptions.filter((each) => !used.has(each))).toEqual([]);
  });
});
