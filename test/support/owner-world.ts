/**
 * A MachineDeployment with its sets and machines in memory, read and changed by the activities themselves. Runs of its
 * workflow may be lost in the middle of a step, and the step may go on while the next run acts.
 */
import { applyPlan } from '../../activities/owner/apply.ts';
import { snapshotOwner } from '../../activities/owner/index.ts';
import { createOwnedReader } from '../../activities/owner/owned.ts';
import { contextOf } from '../../activities/owner/step.ts';
import { gardener } from '../../api/gardener/index.ts';
import { finalizers } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { MachineDeployment } from '../../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../../api/gardener/schema/machine-set.ts';
import type { OwnerPlan, OwnerSnapshot } from '../../api/model/owner.ts';
import { names, orphanFinalizer } from '../../api/names.ts';
import type { KubeObject, Resource } from '../../api/objects.ts';
import type { replacementPolicies } from '../../api/owner/bounds.ts';
import { toNewMachine, toNewMachineSet } from '../../api/owner/new-objects.ts';
import { controllerOf } from '../../api/owner/ownership.ts';
import { isOrphaning } from '../../api/owner/view.ts';
import { MemoryCluster, type WriteGate } from '../../kube/memory-cluster.ts';
import { withOwnCreations } from '../../workflows/rollout/state.ts';
import { noReplacements } from './owner-deps.ts';

export type World = ReturnType<typeof createWorld>;

const namespace = 'n';
/** Sets and machines of others: so many that a reading goes by label. */
const neighbours = 20;
const lost = new Error('the worker is gone');

export interface WorldOptions {
  readonly replicas: number;
  /** Default: RollingUpdate. */
  readonly strategy?: 'RollingUpdate' | 'Recreate' | 'InPlaceUpdate';
  readonly maxSurge: number;
  readonly maxUnavailable: number;
  /** Default: that of a deployment that says nothing. */
  readonly replacementPolicy?: (typeof replacementPolicies)[number];
  /** Candidates that one reading names at most. */
  readonly limit: number;
}

/** A deployment that no workflow has seen yet. */
export function createWorld(options: WorldOptions) {
  const { replicas, strategy = 'RollingUpdate', maxSurge, maxUnavailable, replacementPolicy, limit } = options;
  const cluster = new MemoryCluster();
  /** Those of two workers, which make three readings in turn. */
  const readers = [createOwnedReader(cluster.client()), createOwnedReader(cluster.client())] as const;
  let readings = 0;
  /** Who has made the last reading of the run. */
  let reader: string | undefined;
  /** What the workflow remembers, see `OwnerRun`. */
  let created = new Map<string, string>();
  let planned = new Map<string, string>();
  const { uid } = cluster.create(machineDeployments, {
    metadata: {
      ...{ name: 'pool', namespace },
      ...(replacementPolicy && { annotations: { [names.replacementPolicy]: replacementPolicy } }),
    },
    spec: {
      replicas,
      selector: { matchLabels: { name: 'pool' } },
      template: template('a'),
      strategy: { type: strategy, rollingUpdate: { maxSurge, maxUnavailable } },
    },
  }).metadata;
  const ref = { dialect: 'gardener' as const, namespace, name: 'pool', uid };
  for (let i = 0; i < neighbours; i++) {
    const metadata = { namespace, name: `neighbour-${i}`, labels: { name: 'neighbour' } };
    cluster.create(machineSets, { metadata, spec: {} });
    cluster.create(machines, { metadata, spec: {} });
  }
  const isOurs = ({ metadata }: KubeObject) => !metadata.name.startsWith('neighbour-');

  function context(gate?: WriteGate) {
    const control = cluster.client(gate);
    const events = { record: () => undefined, flush: async () => undefined };
    return contextOf({ control, target: control, events, ...noReplacements }, ref, 'MachineDeployment');
  }

  /** What the workflow plans with. */
  async function observe(): Promise<OwnerSnapshot | undefined> {
    readings += 1;
    const next = readers[Math.floor(readings / 3) % 2 === 0 ? 0 : 1];
    const last = reader === undefined ? {} : { reader };
    const reading = await snapshotOwner(context(), next, { maxCandidates: limit, nowMs: Date.now(), last });
    if (reading === null) return undefined;
    const { reader: by, ...snapshot } = reading;
    reader = by;
    return withOwnCreations({ created, refused: new Map(), planned }, snapshot);
  }

  async function run(plan: OwnerPlan, gate?: WriteGate): Promise<void> {
    for (const { set, id } of plan.create) planned.set(set, id);
    await applyPlan({ ...context(gate), plan, signal: new AbortController().signal });
  }

  /** A step of the workflow. @param maxWrites the step is lost before the next write */
  async function act(plan: OwnerPlan, maxWrites = Number.POSITIVE_INFINITY): Promise<void> {
    let writes = 0;
    const gate = async () => {
      writes += 1;
      if (writes > maxWrites) throw lost;
    };
    try {
      await run(plan, gate);
      for (const { set, id } of plan.create) created.set(set, id);
    } catch (error) {
      if (error !== lost) throw error;
    }
  }

  /** A step that stops before its next write, while its run is lost and `meanwhile` happens; then the step goes on. */
  async function actLate(plan: OwnerPlan, maxWrites: number, meanwhile: () => Promise<void>): Promise<void> {
    const stopped = newLatch();
    const resumed = newLatch();
    let writes = 0;
    const step = run(plan, async () => {
      writes += 1;
      if (writes <= maxWrites) return;
      stopped.open();
      await resumed.opened;
    });
    await Promise.race([step, stopped.opened]);
    created = new Map();
    planned = new Map();
    reader = undefined;
    await meanwhile();
    resumed.open();
    await step;
  }

  function editSpec(change: Partial<NonNullable<MachineDeployment['spec']>>): void {
    const [deployment] = cluster.all(machineDeployments);
    if (deployment !== undefined) cluster.edit(machineDeployments, deployment, { spec: change });
  }

  /** A set of another controller: another hash, another name. */
  function addSet(className: string, count: number, hasOurFinalizer: boolean): void {
    const [deployment] = cluster.all(machineDeployments);
    if (deployment === undefined) return;
    const before = { ...deployment, spec: { ...deployment.spec, template: template(className) } };
    const planned = { name: `pool-${cluster.next()}`, hash: String(cluster.next()), replicas: count };
    const set = toNewMachineSet(gardener, before, cluster.all(machineSets), planned);
    const own = hasOurFinalizer ? [finalizers.machine] : [];
    const { metadata } = cluster.create(machineSets, { ...set, metadata: { ...set.metadata, finalizers: own } });
    const stored = cluster.all(machineSets).find((one) => one.metadata.uid === metadata.uid);
    for (let i = 0; i < count && stored !== undefined; i++) {
      cluster.create(machines, toNewMachine(gardener, stored, `${metadata.name}-${cluster.next()}`));
    }
  }

  /** A DELETE with `--cascade=orphan`. */
  function orphan<T extends KubeObject>(resource: Resource<T>, object: T): void {
    const present = object.metadata.finalizers ?? [];
    cluster.edit(resource, object, { metadata: { finalizers: [...present, orphanFinalizer] } });
    cluster.delete(resource, object.metadata);
  }

  /** As Kubernetes' garbage collector: what an orphaning owner owns is released. */
  function collectGarbage(): void {
    collectOf(machineDeployments);
    collectOf(machineSets);
  }

  function collectOf<T extends KubeObject>(resource: Resource<T>): void {
    for (const owner of cluster.all(resource).filter(isOrphaning)) {
      releaseFrom(machineSets, owner);
      releaseFrom(machines, owner);
      const left = owner.metadata.finalizers?.filter((name) => name !== orphanFinalizer) ?? [];
      cluster.edit(resource, owner, { metadata: { finalizers: left } });
    }
  }

  function releaseFrom<T extends KubeObject>(resource: Resource<T>, { metadata }: KubeObject): void {
    for (const object of cluster.all(resource)) {
      if (controllerOf(object) === metadata.uid) cluster.edit(resource, object, { metadata: { ownerReferences: [] } });
    }
  }

  return {
    get deployment(): MachineDeployment | undefined {
      return cluster.all(machineDeployments)[0];
    },
    get sets(): MachineSet[] {
      return cluster.all(machineSets).filter(isOurs);
    },
    get machines(): Machine[] {
      return cluster.all(machines).filter(isOurs);
    },
    observe,
    act,
    actLate,
    editSpec,
    addSet,
    orphan,
    collectGarbage,
    edit: cluster.edit.bind(cluster),
    remove: <T extends KubeObject>(resource: Resource<T>, { metadata }: T) => cluster.delete(resource, metadata),
    newName: (prefix: string) => `${prefix}-${cluster.next()}`,
  };
}

function newLatch(): { readonly opened: Promise<void>; open(): void } {
  let open = () => undefined as void;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open: () => open() };
}

/** Template of machines of a class. */
export function template(className: string) {
  return { metadata: { labels: { name: 'pool' } }, spec: { class: { kind: 'MachineClass', name: className } } };
}

/** Phases, as in a Machine's status. */
export function phaseOf(machine: Machine): string {
  return machine.status?.currentStatus?.phase ?? '';
}
