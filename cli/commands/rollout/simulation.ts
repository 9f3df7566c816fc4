/**
 * What the workflow of a deployment would do, step by step: its own snapshot, plan and writes, on a copy of the cluster
 * in memory. Nothing is written to a cluster.
 */
import { applyPlan } from '../../../activities/owner/apply.ts';
import { snapshotOwner } from '../../../activities/owner/index.ts';
import { createOwnedReader } from '../../../activities/owner/owned.ts';
import type { OwnerContext } from '../../../activities/owner/step.ts';
import type { Dialect } from '../../../api/dialect.ts';
import { orderOf, toOrder } from '../../../api/in-place-order.ts';
import type { LimitClaim, LimitGrant } from '../../../api/model/limits.ts';
import type { OwnerPlan, OwnerView } from '../../../api/model/owner.ts';
import { inPlaceOrders, names } from '../../../api/names.ts';
import type { KubeObject } from '../../../api/objects.ts';
import { toLimitReading } from '../../../api/owner/limit-reading.ts';
import { limitText } from '../../../api/owner/limit-use.ts';
import type { OwnerDeployment } from '../../../api/owner/objects.ts';
import { controllerOf } from '../../../api/owner/ownership.ts';
import {
  countBounded,
  countWorking,
  hasOwnerChanges,
  minAvailable,
  newSetOf,
  sumOf,
} from '../../../api/owner/set-counts.ts';
import { waitsOf } from '../../../api/owner/waits.ts';
import { MemoryCluster } from '../../../kube/memory-cluster.ts';
import { decide, emptyState } from '../../../workflows/limits/grants.ts';
import { isEmpty, planOwner } from '../../../workflows/rollout/plan.ts';
import { withOwnCreations } from '../../../workflows/rollout/state.ts';
import { dialect, dialectName } from '../../dialect.ts';
import type { OwnedObjects } from '../../owner-state.ts';

/** Machines that are not being deleted, those that are, and what counts against the bounds. */
export interface StepCounts {
  readonly old: number;
  readonly new: number;
  readonly leaving: number;
  /** Machines that count against replicas + maxSurge. */
  readonly total: number;
  /** Machines that are available and not about to be drained. */
  readonly available: number;
}

/**
 * A step, with the counts right after it: no new machine is ready yet, what it deletes still exists, and no agent has
 * begun.
 */
export interface SimulatedStep extends StepCounts {
  readonly createSet?: string;
  /** New machines by set. Their names are made when they are created. */
  readonly create: readonly { readonly set: string; readonly count: number }[];
  /** Names of machines. */
  readonly remove: readonly string[];
  /** Names of machines whose turn it is to be updated in place; left out where there are none. */
  readonly select?: readonly string[];
  /**
   * Names of machines that were updated in place and belong to the set of the current template now; left out likewise.
   */
  readonly handOver?: readonly string[];
}

export interface Simulation {
  readonly before: StepCounts;
  /** When all new machines are ready, and all deletions and updates in place have ended. */
  readonly after: StepCounts;
  readonly steps: readonly SimulatedStep[];
  readonly strategy: OwnerView['strategy'];
  readonly replicas: number;
  /** Most machines that may count against replicas + maxSurge, and fewest that have to be available, at any time. */
  readonly bounds: { readonly mostMachines: number; readonly leastAvailable: number };
  /** Why nothing at all is done: what is wrong with the spec. */
  readonly problem?: string;
  /** What it would wait for in the end; left out where it is complete. */
  readonly waitsFor?: string;
}

/** More steps than a rollout of any size takes: it has not ended. */
const maxRounds = 100_000;
const { signal } = new AbortController();

/**
 * Simulates a deployment until nothing is left to do. Each new machine becomes ready, each deletion ends and each
 * selected Node is updated before the next step, and nothing else happens. Machines that ask to be replaced for their
 * health stay.
 * @param owned sets and machines of its namespace, as they are
 */
export async function simulate(deployment: OwnerDeployment, owned: OwnedObjects): Promise<Simulation> {
  const cluster = new MemoryCluster(new Date().toISOString());
  const { kinds } = dialect;
  const others = (owned.deployments ?? []).filter(({ metadata }) => metadata.uid !== deployment.metadata.uid);
  cluster.load(kinds.deployment, [...others, deployment]);
  cluster.load(kinds.set, owned.sets);
  cluster.load(kinds.machine, owned.machines);
  const ready = new Set<string>();
  const context = contextOf(cluster, deployment, ready);
  const reader = createOwnedReader(context.deps.control);
  const created = new Map<string, string>();
  const refused = new Map<string, readonly string[]>();
  const observe = async () => {
    const reading = await snapshotOwner(context, reader, { maxCandidates: 100, nowMs: Date.now() });
    return reading && withOwnCreations({ created, planned: created, refused }, reading);
  };
  const newName = (prefix: string) => `${prefix}-new${cluster.next()}`;

  let first = (await observe())?.view;
  if (first === undefined) throw new Error('the deployment is gone');
  let last = first;
  const steps: SimulatedStep[] = [];
  for (let round = 0; round < maxRounds; round++) {
    const reading = await observe();
    if (reading === null) return toSimulation(first, last, steps); // it was being deleted
    // Counts say nothing before each set and machine has its owner.
    if (hasOwnerChanges(last)) first = reading.view;
    last = reading.view;
    const wanted = planOwner(reading, newName);
    const { limited } = isEmpty(wanted) ? {} : await applyPlan({ ...context, plan: wanted, signal });
    const plan = withoutNames(wanted, limited?.names);
    for (const [i, { set, id, names }] of wanted.create.entries()) {
      created.set(set, id);
      refused.set(set, names.slice(plan.create[i]?.names.length));
    }
    if (!isEmpty({ ...plan, create: plan.create.filter(({ names }) => names.length > 0) })) {
      const after = changesMachines(plan) ? await observe() : null;
      if (after !== null) {
        steps.push(toStep(plan, after.view));
        settle(cluster, context, ready);
      }
      continue;
    }
    if (settle(cluster, context, ready)) continue;
    return { ...toSimulation(first, last, steps), ...(limited && { waitsFor: limitText(limited) }) };
  }
  throw new Error(`the rollout does not end within ${maxRounds} steps`);
}

function contextOf(cluster: MemoryCluster, { metadata }: OwnerDeployment, ready: ReadonlySet<string>): OwnerContext {
  const control = cluster.client();
  const { stageOf, readySinceMs } = dialect.owner.machines;
  const api: Dialect = {
    ...dialect,
    owner: {
      ...dialect.owner,
      machines: {
        ...dialect.owner.machines,
        stageOf: (machine) => (ready.has(machine.metadata.uid) ? 'running' : stageOf(machine)),
        readySinceMs: (machine) => (ready.has(machine.metadata.uid) ? 0 : readySinceMs(machine)),
      },
    },
  };
  const { name, uid, namespace = '' } = metadata;
  return {
    api,
    sets: api.kinds.set,
    deployments: api.kinds.deployment,
    ref: { dialect: dialectName, namespace, name, uid },
    kind: 'MachineDeployment',
    deps: {
      control,
      target: control,
      events: { record: () => undefined, flush: async () => undefined },
      mostReplacing: { count: 0 },
      findOutage: async () => undefined,
      claimMachines: async (_scope, claim) => claimAlone(api, cluster, claim),
      defaults: { creationSeconds: 0, drainSeconds: 0, maxEvictRetries: 0, nodeConditions: [] },
    },
  };
}

/** Grants what the limits of the namespace leave: nobody else claims anything meanwhile. */
function claimAlone(api: Dialect, cluster: MemoryCluster, claim: LimitClaim): LimitGrant {
  const { deployment, set, machine } = api.kinds;
  const objects = { deployments: cluster.all(deployment), sets: cluster.all(set), machines: cluster.all(machine) };
  const [grant] = decide(emptyState, toLimitReading(api, objects, [claim.uid]), [claim], 0).grants;
  return grant ?? { granted: [] };
}

/** A plan without the creations that a limit refuses. */
function withoutNames(plan: OwnerPlan, refused: readonly string[] = []): OwnerPlan {
  const create = plan.create.map((each) => ({ ...each, names: each.names.filter((name) => !refused.includes(name)) }));
  return { ...plan, create };
}

/** Ends deletions and updates in place, and makes machines ready. Returns whether there was any of that to do. */
function settle(cluster: MemoryCluster, { api }: OwnerContext, ready: Set<string>): boolean {
  let isChanged = false;
  for (const machine of cluster.all(api.kinds.machine)) {
    const { uid, deletionTimestamp, finalizers = [] } = machine.metadata;
    if (deletionTimestamp !== undefined) {
      cluster.edit(api.kinds.machine, machine, { metadata: { finalizers: [] } });
      isChanged = true;
    } else if (!ready.has(uid) && !['failed', 'deleting'].includes(api.owner.machines.stageOf(machine))) {
      ready.add(uid);
      // As its workflow does: from now on its deletion takes time.
      const { finalizer } = api.marks;
      const isOurs = finalizers.includes(finalizer);
      if (!isOurs) cluster.edit(api.kinds.machine, machine, { metadata: { finalizers: [...finalizers, finalizer] } });
      isChanged = true;
    } else {
      const next = afterAgent(api, machine);
      if (next !== undefined) cluster.edit(api.kinds.machine, machine, next);
      isChanged ||= next !== undefined;
    }
  }
  return isChanged;
}

/** What the workflow of a machine writes there after its agent has succeeded, and after its Node takes pods again. */
function afterAgent({ owner }: OwnerContext['api'], machine: KubeObject): object | undefined {
  const { labels = {} } = machine.metadata;
  if (orderOf(machine) === inPlaceOrders.selected) {
    const updated = toOrder(inPlaceOrders.updated, controllerOf(machine) ?? '');
    return { metadata: { annotations: { [names.inPlaceUpdate]: updated } } };
  }
  const marks = Object.keys(owner.inPlaceUpdate?.handedOver ?? {}).filter((mark) => mark in labels);
  if (marks.length === 0) return undefined;
  return { metadata: { labels: Object.fromEntries(marks.map((mark) => [mark, null])) } };
}

function changesMachines({ createSet, create, remove, update }: OwnerPlan): boolean {
  const updated = [...(update?.select ?? []), ...(update?.handOver ?? [])];
  const created = create.flatMap(({ names }) => names);
  return createSet !== undefined || created.length + remove.length + updated.length > 0;
}

function toStep({ createSet, create, remove, update }: OwnerPlan, view: OwnerView): SimulatedStep {
  const { select = [], handOver = [] } = update ?? {};
  return {
    ...(select.length > 0 && { select: select.map(({ name }) => name) }),
    ...(handOver.length > 0 && { handOver: handOver.map(({ name }) => name) }),
    ...(createSet !== undefined && { createSet: createSet.name }),
    create: create.flatMap(({ set, names }) => (names.length === 0 ? [] : [{ set, count: names.length }])),
    remove: remove.map(({ name }) => name),
    ...countsOf(view),
  };
}

function countsOf(view: OwnerView): StepCounts {
  const { sets } = view;
  const active = sumOf(sets, (set) => set.active);
  const fresh = sumOf(sets, (set) => (set.isNew ? set.active : 0));
  return {
    old: active - fresh,
    new: fresh,
    leaving: sumOf(sets, (set) => set.total) - active,
    total: sumOf(sets, (set) => countBounded(view, set)),
    available: sumOf(sets, countWorking),
  };
}

function toSimulation(first: OwnerView, last: OwnerView, steps: readonly SimulatedStep[]): Simulation {
  const { strategy, replicas, maxSurge, problem } = last;
  const waitsFor = waitsOf(last);
  return {
    ...{ before: countsOf(first), after: countsOf(last), steps, strategy, replicas },
    bounds: { mostMachines: replicas + maxSurge, leastAvailable: Math.max(0, minAvailable(last, newSetOf(last))) },
    ...(problem !== undefined && { problem }),
    ...(waitsFor !== undefined && { waitsFor }),
  };
}
