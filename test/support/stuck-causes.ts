/** What can make a machine stuck, each as it happens, with what its page in Temporal says about it. */
import { machineClasses, machines } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import type { Blocker } from '../../api/names.ts';
import type { CloudAdmin } from '../../deploy/local/simulated-cloud/admin.ts';
import { pods } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { guardNode } from './guarded-node.ts';
import { type Installation, plainSecret } from './installation.ts';
import { until } from './until.ts';
import { startVolumes } from './volumes.ts';

type Fault = Parameters<CloudAdmin['setFaults']>[0];

/** Where the causes are made, side by side. */
export interface StuckWorld {
  readonly millwright: Installation;
  /** The faults that are on, by the class whose VMs meet them. */
  readonly faults: Map<string, Fault>;
}

/** A machine that is stuck, and what its page asks for. After that it runs, or is gone where it is being deleted. */
export interface Stuck {
  readonly ref: ObjectRef;
  remedy(): Promise<unknown>;
  /** Ends what was started for it. */
  stop?(): Promise<void>;
}

export interface StuckCause {
  /** Of its picture and its machine. */
  readonly name: string;
  /** In a few words. */
  readonly title: string;
  readonly blockedOn: Blocker;
  /**
   * What its page in Temporal shows, where quotes are typographic ones: what has happened, in the words of whoever
   * refuses it, and what to do.
   */
  readonly shows: readonly string[];
  readonly isDeleted?: true;
  make(world: StuckWorld): Promise<Stuck>;
}

/**
 * The last cause, which needs a process of its own: test/end-to-end/failing-code.long.test.ts. Its page is the tab
 * Event History.
 */
export const failingCode = {
  name: 'failing-code',
  title: 'The code of a workflow fails',
  blockedOn: 'WorkflowTask',
  shows: ['Workflow Worker Unhandled Failure', 'a mistake in validate'],
} as const;

/** Sets the faults that are on. */
export async function applyFaults({ millwright, faults }: StuckWorld): Promise<void> {
  await millwright.cloud.setFaults(...[...faults].map(([name, fault]) => ({ ...fault, tags: { class: name } })));
}

/** Makes a class, and a Machine of it. @param changes to the class, and to its providerSpec */
async function createMachine(
  { millwright }: StuckWorld,
  name: string,
  { providerSpec = {}, ...changes }: { providerSpec?: object; provider?: string; secretRef?: object } = {},
): Promise<ObjectRef> {
  const { cloud, namespace } = millwright;
  const usual = {
    endpoint: cloud.url,
    machineType: 'small',
    region: 'here',
    tags: { cluster: namespace, class: name },
  };
  await millwright.createClass(name, { providerSpec: { ...usual, ...providerSpec }, ...changes });
  return millwright.createMachine(`${name}-${namespace}`, { class: { kind: 'MachineClass', name } });
}

/** A fault of the cloud that a person removes there and then says so with `retryNow`. */
const ofCloud =
  (name: string, fault: Fault) =>
  async (world: StuckWorld): Promise<Stuck> => {
    world.faults.set(name, fault);
    await applyFaults(world);
    const ref = await createMachine(world, name);
    return {
      ref,
      async remedy() {
        world.faults.delete(name);
        await applyFaults(world);
        await world.millwright.handleOf(ref).signal('retryNow');
      },
    };
  };

/**
 * A machine that is being deleted, with a pod that a budget protects; with one pod the budget can allow no eviction.
 */
const ofBudget =
  (name: string, expectedPods: number) =>
  async (world: StuckWorld): Promise<Stuck> => {
    const { target, control, namespace } = world.millwright;
    const ref = await createMachine(world, name);
    await world.millwright.untilPhase(ref, 'Running');
    const remedy = await guardNode(target, namespace, ref.name, { name, expectedPods });
    await control.delete(machines, ref);
    return { ref, remedy };
  };

export const stuckCauses: readonly StuckCause[] = [
  {
    name: 'no-capacity',
    title: 'The cloud has no capacity',
    blockedOn: 'CloudCapacity',
    shows: [
      'InsufficientCapacity: no room for another small',
      'request ID',
      'Raise the quota or choose another machine type or zone',
    ],
    make: ofCloud('capacity', { kind: 'capacity' }),
  },
  {
    name: 'no-quota',
    title: 'The quota is used up',
    blockedOn: 'CloudCapacity',
    shows: ['QuotaExceeded: the quota of 0 VMs is used up', 'Raise the quota or choose another machine type or zone'],
    make: ofCloud('quota', { kind: 'quota' }),
  },
  {
    name: 'wrong-credentials',
    title: 'The credentials are wrong',
    blockedOn: 'Credentials',
    shows: ['Unauthenticated', 'Correct the credentials in the Secret of the class'],
    async make(world) {
      const { millwright } = world;
      await millwright.putSecret('credentials', { ...plainSecret, token: 'wrong' });
      const secretRef = { namespace: millwright.namespace, name: 'credentials' };
      const ref = await createMachine(world, 'credentials', { secretRef });
      return { ref, remedy: () => millwright.putSecret('credentials', plainSecret) };
    },
  },
  {
    name: 'no-image',
    title: 'The image does not exist',
    blockedOn: 'Source',
    shows: ['InvalidArgument', 'there is no image debain-13', 'request ID', 'Correct the class or its Secret'],
    async make(world) {
      const ref = await createMachine(world, 'image', { providerSpec: { image: 'debain-13' } });
      const { control, namespace } = world.millwright;
      const corrected = mergePatch({ providerSpec: { image: 'debian-13' } });
      return { ref, remedy: () => control.patch(machineClasses, { namespace, name: 'image' }, corrected) };
    },
  },
  {
    name: 'no-join',
    title: 'The node does not join',
    blockedOn: 'NodeJoin',
    shows: ['to register', 'Look at the VM’s console for what its user data does'],
    async make(world) {
      world.faults.set('join', { kind: 'neverJoin' });
      await applyFaults(world);
      const ref = await createMachine(world, 'join');
      // Whatever is wrong with the VM, another one has to be made.
      return { ref, remedy: () => world.millwright.control.delete(machines, ref) };
    },
    isDeleted: true,
  },
  {
    name: 'budget',
    title: 'A PodDisruptionBudget allows no eviction now',
    blockedOn: 'PodDisruptionBudget',
    shows: ['/budget to allow the eviction of', 'millwright drain --force'],
    make: ofBudget('budget', 2),
    isDeleted: true,
  },
  {
    name: 'misconfigured-budget',
    title: 'A PodDisruptionBudget never allows an eviction',
    blockedOn: 'PodDisruptionBudget',
    shows: ['it requires zero voluntary evictions', 'millwright drain --force'],
    make: ofBudget('mistake', 1),
    isDeleted: true,
  },
  {
    name: 'stuck-volume',
    title: 'A volume does not leave the node, nor does its pod',
    blockedOn: 'Drain',
    shows: ['/db to end, which should have ended by', 'volume ', ': its pod to end', 'millwright drain --force'],
    async make({ millwright }) {
      const { target, control, namespace } = millwright;
      const ref = await createMachine({ millwright, faults: new Map() }, 'volume');
      await millwright.untilPhase(ref, 'Running');
      const volumes = startVolumes(target, namespace, 'elsewhere');
      await volumes.create('data', ref.name);
      const key = { namespace, name: 'db' };
      await target.create(pods, {
        metadata: { ...key, finalizers: ['test/volume-in-use'] },
        spec: {
          nodeName: ref.name,
          containers: [{ name: 'db', image: 'db' }],
          volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }],
        },
      });
      await until('it runs', async (see) => see(await target.get(pods, key)).status?.phase === 'Running');
      await control.delete(machines, ref);
      return {
        ref,
        remedy: () => target.patch(pods, key, mergePatch({ metadata: { finalizers: null } })),
        stop: () => volumes.stop(),
      };
    },
    isDeleted: true,
  },
  {
    name: 'no-worker',
    title: 'No worker serves the provider',
    blockedOn: 'ProviderWorker',
    shows: ['is the name “simulatid” right', 'Start a worker for this provider, or correct provider in the class'],
    async make(world) {
      const ref = await createMachine(world, 'queue', { provider: 'simulatid' });
      const { control, namespace } = world.millwright;
      const corrected = mergePatch({ provider: 'simulated' });
      return { ref, remedy: () => control.patch(machineClasses, { namespace, name: 'queue' }, corrected) };
    },
  },
];
