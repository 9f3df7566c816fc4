/** What the orphan sweep reads and does in Kubernetes. Every reading is live: nothing is deleted by a cache. */
import { asyncLocalStorage } from '@temporalio/activity';
import type { Dialect } from '../api/dialect.ts';
import { allDialects, dialectOf } from '../api/dialects.ts';
import { type SourceEvent, sourceEvents } from '../api/events.ts';
import { hasJoined, type MachineLimits, type MachineSnapshot } from '../api/model/machine.ts';
import type { DialectName } from '../api/model/ref.ts';
import type {
  AskedOrphan,
  LostMachine,
  Ownership,
  PastSweeps,
  ReleasableSource,
  ResourceKey,
  SourceObject,
  SweepLimits,
  SweepNamespace,
  SweepNotice,
  SweepScope,
  SweptSource,
} from '../api/model/sweep.ts';
import { maxProviderLength, providerNameProblem } from '../api/names.ts';
import { toStatuses } from '../api/node.ts';
import { type KubeObject, type Resource, referenceTo } from '../api/objects.ts';
import { inPortions } from '../api/payloads.ts';
import { vmOf } from '../api/provider-id.ts';
import type { KubeClient } from '../kube/client.ts';
import { nodes } from '../kube/core.ts';
import { isRefused, StatusError } from '../kube/errors.ts';
import type { EventRecorder } from '../kube/events.ts';
import type { Logger } from '../kube/logger.ts';
import { update } from '../kube/update.ts';
import { withoutFinalizer } from './finalizer.ts';

export interface SweepDeps {
  /** Cluster of the Machines and their sources. */
  readonly control: KubeClient;
  /** Cluster of the Nodes; may be the same. */
  readonly target: KubeClient;
  readonly events: EventRecorder;
  /** For machines that do not say otherwise. */
  readonly defaults: MachineLimits;
  readonly sweep: SweepLimits;
  readonly past: SweepMemory;
  readonly logger: Pick<Logger, 'info'>;
}

/** What Temporal knows of the sweeps and machines of the installation. */
export interface SweepMemory {
  readPast(): Promise<PastSweeps>;
  /** How many machines were deleted through their workflows since a time, RFC 3339. */
  countDeletions(since: string): Promise<number>;
  /**
   * Why each Machine may not have been deleted through its workflow, for people; undefined: it was, or nobody can know.
   */
  findLosses(machines: readonly LostMachine[]): Promise<readonly (string | undefined)[]>;
}

export type SweepActivities = ReturnType<typeof createSweepActivities>;

export function createSweepActivities({ control, target, events, defaults, sweep, past, logger }: SweepDeps) {
  return {
    /**
     * The sources of a namespace as they are now, as many as a payload can have, how sure a sweep has to be, and what
     * earlier ones have left.
     * @param after name of the last source that is known; left out in the first call
     */
    async readSweepScope({ dialect, namespace }: SweepNamespace, after = ''): Promise<SweepScope> {
      const all = await dialectOf(dialect).source.list(async (resource) => (await list(resource, namespace)).items);
      const nameOf = ({ object }: SweptSource) => object.name;
      const left = all
        .filter((source) => nameOf(source) > after)
        .toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1))
        .map(withoutUnusable);
      const [sources = [], ...more] = inPortions(left);
      const last = more.length > 0 ? sources.at(-1) : undefined;
      return { sources, limits: sweep, past: await past.readPast(), ...(last && { next: nameOf(last) }) };
    },

    /** How many machines were deleted through Millwright since a time, RFC 3339. */
    async countDeletions(_: SweepNamespace, since: string): Promise<number> {
      return past.countDeletions(since);
    },

    /**
     * Which of these resources have no Machine, by lists that are read now. A Machine has what carries its UID, and the
     * VM that it or its Node names by provider ID. A VM without a UID tag, as another system makes them, also belongs
     * to the Machine of its name that has no provider ID yet, and what else has none to the Machine of the VM that has
     * it. A VM with the UID of a Machine is surplus once that has joined and names another; until then `ensureVm` looks
     * after it. Nodes are read only where a VM is named by no Machine. Machines of other dialects count as well: their
     * VMs may have the same tags.
     */
    async findOwnerless({ dialect, namespace }: SweepNamespace, asked: readonly ResourceKey[]): Promise<Ownership> {
      const own = await readMachines(dialectOf(dialect), namespace);
      const others = allDialects().filter(({ name }) => name !== dialect);
      const foreign = await Promise.all(others.map((other) => readMachines(other, namespace).catch(noMachines)));
      const machines = [own, ...foreign].flatMap((reading) => reading.machines);
      const uids = new Set(machines.map(({ uid }) => uid));
      const named = new Set(machines.flatMap(({ providerID }) => (providerID ? vmOf(providerID) : [])));
      const unnamed = new Set(machines.filter(({ providerID }) => !providerID).map(({ name }) => name));
      const joined = new Map(machines.filter(({ stage }) => hasJoined(stage)).map((each) => [each.uid, each]));

      const isNamed = ({ kind, id }: ResourceKey) => kind === 'vm' && named.has(vmOf(id));
      const isOwned = (resource: ResourceKey) => {
        if (isNamed(resource)) return true;
        return resource.uid === undefined
          ? resource.kind === 'vm' && unnamed.has(resource.name)
          : uids.has(resource.uid);
      };
      const isSuspicious = (resource: ResourceKey) =>
        resource.kind === 'vm' && !isNamed(resource) && (!isOwned(resource) || joined.has(resource.uid ?? ''));
      if (asked.some(isSuspicious)) for (const vm of await vmsOfNodes(machines)) named.add(vm);
      const surplus = asked.flatMap((resource, place) => {
        const { name, providerID } = joined.get(resource.uid ?? '') ?? {};
        if (name === undefined || providerID === undefined || !isSuspicious(resource)) return [];
        return [{ place, machine: name, keeper: vmOf(providerID) }];
      });
      const adopted = asked.flatMap((resource) => {
        const { uid } = resource;
        return uid !== undefined && !uids.has(uid) && isNamed(resource) ? [uid] : [];
      });
      const ownVms = new Set(asked.filter((each) => each.kind === 'vm' && isOwned(each)).map(({ id }) => vmOf(id)));
      const isOfOwnVm = ({ uid, attachedTo }: ResourceKey) =>
        uid === undefined && attachedTo !== undefined && (named.has(vmOf(attachedTo)) || ownVms.has(vmOf(attachedTo)));
      const ownerless = asked.flatMap((resource, i) => (isOwned(resource) || isOfOwnVm(resource) ? [] : [i]));
      return {
        ownerless,
        adopted,
        surplus,
        machines: { count: own.machines.length, resourceVersion: own.resourceVersion },
      };
    },

    /**
     * Why each of these orphans may be a healthy VM, for people: a Node of its own is Ready, or Temporal does not say
     * that its Machine was deleted. Nothing for one that nothing speaks for.
     */
    async findDoubts({ namespace }: SweepNamespace, asked: readonly AskedOrphan[]): Promise<readonly string[][]> {
      const ready = await readyNodes();
      const lost = asked.flatMap(({ uid, ageMs, vms: [vm], isSurplus }, place) =>
        isSurplus || vm === undefined
          ? []
          : [{ place, machine: { namespace, name: vm.name, ageMs, ...(uid !== undefined && { uid }) } }],
      );
      const answers = await past.findLosses(lost.map(({ machine }) => machine));
      const losses = new Map(lost.map(({ place }, i) => [place, answers[i]]));
      return asked.map(({ vms, isSurplus }, place) => {
        const found = vms.flatMap(
          ({ id, name }) => ready.byVm.get(vmOf(id)) ?? (isSurplus ? [] : ready.nameless.get(name)) ?? [],
        );
        const loss = losses.get(place);
        return [
          ...found.map((node) => `its Node ${node} is Ready`),
          ...(loss === undefined ? [] : [`Temporal does not say that Millwright deleted its Machine: ${loss}`]),
        ];
      });
    },

    /**
     * Takes our finalizer off those of the source objects that were deleted, were not changed since they were swept,
     * and that nothing names. Answers with their names. One that the API server does not change gets an Event and is
     * left to the next sweep, so that it delays no other.
     */
    async releaseSources(
      { dialect, namespace }: SweepNamespace,
      releasable: readonly ReleasableSource[],
    ): Promise<readonly string[]> {
      const { kinds, marks } = dialectOf(dialect);
      if (kinds.source === undefined) return [];
      const used = await usedSources(dialect, namespace);
      const released: string[] = [];
      for (const { name, uid, generation } of releasable) {
        const { metadata } = (await control.find(kinds.source, { namespace, name }, endWithCall())) ?? {};
        const isSame = metadata?.uid === uid && (metadata.generation ?? 0) === generation;
        if (!isSame || metadata.deletionTimestamp === undefined || used.has(name)) continue;
        try {
          const left = await update(control, kinds.source, { namespace, name, uid }, withoutFinalizer(marks.finalizer));
          if (!left?.metadata.finalizers?.includes(marks.finalizer)) released.push(name);
          else recordKept(kinds.source, { name, uid }, 'the API server does not keep the change');
        } catch (error) {
          if (!isRefused(error) || error.code === 409) throw error;
          recordKept(kinds.source, { name, uid }, error.message);
        }
      }
      return released;

      function recordKept(resource: Resource<KubeObject>, source: SourceObject, why: string): void {
        record(resource, namespace, source, 'SourceNotReleased', `could not take our finalizer off: ${why}`);
      }
    },

    /** Records Events on the objects of sources, and in the log: what was done in their clouds. */
    async recordNotices({ dialect, namespace }: SweepNamespace, notices: readonly SweepNotice[]): Promise<void> {
      const { kinds } = dialectOf(dialect);
      const resource = kinds.source ?? kinds.machine;
      for (const { object, reason, note } of notices) {
        record(resource, namespace, object, reason, note);
        logger.info({ namespace, source: object.name, reason }, note);
      }
    },
  };

  function list<T extends KubeObject>(resource: Resource<T>, namespace: string) {
    return control.list(resource, { namespace, ...endWithCall() });
  }

  async function readMachines({ kinds, machine }: Dialect, namespace: string) {
    const { items, resourceVersion } = await list(kinds.machine, namespace);
    const machines = items.map((item) => ({ name: item.metadata.name, ...machine.toSnapshot(item, defaults) }));
    return { machines, resourceVersion };
  }

  function record(
    resource: Resource<KubeObject>,
    namespace: string,
    object: SourceObject,
    reason: SourceEvent,
    note: string,
  ): void {
    const regarding = referenceTo(resource, { namespace, ...object });
    events.record({ regarding, type: sourceEvents[reason].type, reason, note, action: 'Sweep' });
  }

  /** The VMs that the Nodes of these Machines name. */
  async function vmsOfNodes(owners: readonly Pick<MachineSnapshot, 'nodeName'>[]): Promise<string[]> {
    const names = new Set(owners.map(({ nodeName }) => nodeName));
    const { items } = await target.list(nodes, endWithCall());
    return items.flatMap(({ metadata, spec }) =>
      names.has(metadata.name) && spec?.providerID ? vmOf(spec.providerID) : [],
    );
  }

  /** The names of all Nodes that are Ready, by the VM that they name; those that name none by their names. */
  async function readyNodes() {
    const byVm = new Map<string, string>();
    const nameless = new Map<string, string>();
    for await (const { items } of target.pages(nodes, endWithCall())) {
      for (const { metadata, spec, status } of items) {
        if (toStatuses(status?.conditions)['Ready'] !== 'True') continue;
        const { name } = metadata;
        if (spec?.providerID) byVm.set(vmOf(spec.providerID), name);
        else nameless.set(name, name);
      }
    }
    return { byVm, nameless };
  }

  async function usedSources(dialect: DialectName, namespace: string): Promise<ReadonlySet<string | undefined>> {
    const { kinds, source } = dialectOf(dialect);
    const pages = await Promise.all([kinds.machine, kinds.set, kinds.deployment].map((kind) => list(kind, namespace)));
    return new Set(pages.flatMap(({ items }) => items.map((object) => source.nameOf(object))));
  }
}

/** A source without what no cloud is asked with, which may be as large as an object can be. */
function withoutUnusable(source: SweptSource): SweptSource {
  const { provider } = source;
  const problem = source.problem ?? (provider.length > 1_000 ? providerNameProblem(provider) : undefined);
  if (problem === undefined) return source;
  return { ...source, provider: provider.slice(0, maxProviderLength), providerSpec: {}, problem };
}

/** For an API that is not installed: a server that is only starting answers 503. Throws any other error. */
function noMachines(error: unknown) {
  if (!(error instanceof StatusError) || error.code !== 404) throw error;
  return { machines: [] };
}

/** For requests: they end when the activity is to end. */
function endWithCall() {
  return { signal: asyncLocalStorage.getStore()?.cancellationSignal };
}
