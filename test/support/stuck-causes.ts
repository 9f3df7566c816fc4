/** What can make a machine stuck, each as it happens, with what its page in Temporal says about it. */
import { machineClasses, machines } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import type { SimulatedCloud } from '../../deploy/local/simulated-cloud/admin.ts';
import { mergePatch } from '../../kube/patch.ts';
import type { BlockedOn } from '../../temporal/blocked.ts';
import { guardNode } from './guarded-node.ts';
import { type Installation, plainSecret } from './installation.ts';

type Fault = Parameters<SimulatedCloud['setFaults']>[0];

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
}

export interface StuckCause {
  /** In a few words. */
  readonly title: string;
  readonly blockedOn: BlockedOn;
  /** What its page in Temporal shows, where quotes are typographic ones: what has happened, in the words of whoever refuses it, and what to do. */
  readonly shows: readonly string[];
  readonly isDeleted?: true;
  make(world: StuckWorld): Promise<Stuck>;
}

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

/** A machine that is being deleted, with a pod that a budget protects; with one pod the budget can allow no eviction. */
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
    title: 'The cloud has no capacity',
    blockedOn: 'CloudCapacity',
    shows: [
      'InsufficientCapacity: no room for another small',
      'Raise the quota or choose another machine type or zone',
    ],
    make: ofCloud('capacity', { kind: 'capacity' }),
  },
  {
    title: 'The quota is used up',
    blockedOn: 'CloudCapacity',
    shows: ['QuotaExceeded: the quota of 0 VMs is used up', 'Raise the quota or choose another machine type or zone'],
    make: ofCloud('quota', { kind: 'quota' }),
  },
  {
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
    title: 'The class is wrong, such as its image or machine type',
    blockedOn: 'Source',
    shows: ['providerSpec.machineType is “huge”: use one of small, medium, large', 'Correct the class or its Secret'],
    async make(world) {
      const ref = await createMachine(world, 'type', { providerSpec: { machineType: 'huge' } });
      const { control, namespace } = world.millwright;
      const corrected = mergePatch({ providerSpec: { machineType: 'small' } });
      return { ref, remedy: () => control.patch(machineClasses, { namespace, name: 'type' }, corrected) };
    },
  },
  {
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
    title: 'A PodDisruptionBudget allows no eviction now',
    blockedOn: 'PodDisruptionBudget',
    shows: ['/budget to allow the eviction of', 'skipDrain'],
    make: ofBudget('budget', 2),
    isDeleted: true,
  },
  {
    title: 'A PodDisruptionBudget never allows an eviction',
    blockedOn: 'PodDisruptionBudget',
    shows: ['it requires zero voluntary evictions', 'skipDrain'],
    make: ofBudget('mistake', 1),
    isDeleted: true,
  },
  {
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
