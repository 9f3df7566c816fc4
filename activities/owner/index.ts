/** What the workflow of a MachineDeployment, or of a MachineSet without one, reads and does in Kubernetes. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { OwnerApi } from '../../api/dialect.ts';
import type { LastSeen, OwnerPlan, OwnerReading, RolloutBlockers } from '../../api/model/owner.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import type { KubeObject } from '../../api/objects.ts';
import { adoptableSets, readOwnerChanges, selects } from '../../api/owner/adoption.ts';
import { findBlockers } from '../../api/owner/blockers.ts';
import { machinesBehind, toCandidates } from '../../api/owner/candidates.ts';
import { recordedCreation, toPendingCreations } from '../../api/owner/creations.ts';
import { withKnownAttempts } from '../../api/owner/failed-attempts.ts';
import { readHealth } from '../../api/owner/health.ts';
import type { OwnerDeployment, OwnerSet } from '../../api/owner/objects.ts';
import { controllerOf } from '../../api/owner/ownership.ts';
import { readPreservations } from '../../api/owner/preservation.ts';
import { newSetName, templateHash } from '../../api/owner/template.ts';
import { readUpdates } from '../../api/owner/updated-machines.ts';
import { newSetAmong, toDeploymentView, toLoneSetView } from '../../api/owner/view.ts';
import { currentCall, temporalNowMs } from '../boundary.ts';
import { applyPlan } from './apply.ts';
import { findJoined } from './joined.ts';
import { createOwnedReader, type OwnedReader } from './owned.ts';
import {
  contextOf,
  type Owner,
  type OwnerContext,
  type OwnerDeps,
  type OwnerKind,
  readOwner,
  type StepResult,
} from './step.ts';

export type { OwnerDeps, OwnerKind, StepResult };
export type OwnerActivities = ReturnType<typeof createOwnerActivities>;

/** Most candidates of one reading: more than a step deletes would only fill the history. */
const maxCandidates = 100;

export function createOwnerActivities(deps: OwnerDeps) {
  const { control, target } = deps;
  const reader = createOwnedReader(control);

  return {
    /**
     * Reads an owner, then its sets, then its machines, each by quorum. In this order a machine that is created
     * meanwhile may be missed, but never one that existed before. null: the owner is gone, or it is a set of a
     * deployment.
     *
     * Only the controller reference says whose a machine is. Labels are a hint that spares a reading the machines of
     * others, see `createOwnedReader`.
     * @param notBeforeMs when to read, ms since the epoch, at most a second from now: changes until then are in one
     *   reading. A timer of the workflow takes at least a second.
     * @param last what is known of earlier readings; without it everything is listed
     */
    async observeOwner(
      ref: ObjectRef,
      kind: OwnerKind,
      notBeforeMs: number,
      last?: LastSeen,
    ): Promise<OwnerReading | null> {
      await sleep(Math.max(0, Math.min(notBeforeMs - temporalNowMs(), 1_000)));
      return snapshotOwner(contextOf(deps, ref, kind), reader, { maxCandidates, nowMs: temporalNowMs(), last });
    },

    /**
     * Reads live what the rollout of a deployment waits for. null: the deployment is gone. Fails while one of the API
     * servers does not answer: then the rollout waits for that server.
     */
    async listBlockers(ref: ObjectRef): Promise<RolloutBlockers | null> {
      const context = contextOf(deps, ref, 'MachineDeployment');
      const { deployment } = (await readOwner(context)) ?? {};
      if (deployment === undefined) return null;
      await target.getRaw('/version');
      const { namespace } = ref;
      const sets = await control.list(context.sets, { namespace });
      const machines = await control.list(context.api.kinds.machine, { namespace });
      const api = { ...context.api, nowMs: temporalNowMs() };
      return findBlockers(api, deployment, sets.items, machines.items);
    },

    /** Runs a step that was planned, see `applyPlan`. */
    actOnOwner(ref: ObjectRef, kind: OwnerKind, plan: OwnerPlan): Promise<StepResult> {
      return applyPlan({ ...contextOf(deps, ref, kind), plan, signal: currentCall().signal });
    },
  };
}

/** How an owner is read. */
interface ReadOptions {
  /** Most candidates of one reading. */
  readonly maxCandidates: number;
  /** By which machines are available, marked or preserved, ms since the epoch. */
  readonly nowMs: number;
  readonly last?: LastSeen | undefined;
}

/** The body of `observeOwner`. */
export async function snapshotOwner(
  context: OwnerContext,
  reader: OwnedReader,
  { maxCandidates, nowMs, last }: ReadOptions,
): Promise<OwnerReading | null> {
  const { ref } = context;
  const { namespace } = ref;
  const withAttempts = (set: OwnerSet) => withKnownAttempts(set, last?.attempts?.[set.metadata.name]);
  const read = await readOwner(context);
  if (read === undefined) return null;
  const owner = read.set ? { ...read, set: withAttempts(read.set) } : read;
  const isLastReader = last?.reader === reader.id;
  const labels = (owner.deployment ?? owner.set).spec?.selector?.matchLabels;
  const listed = owner.set
    ? [owner.set]
    : await reader.read({
        ...{ resource: context.sets, namespace, owners: [ref.uid], labels, isLastReader },
        names: [setNameOf(context.api, owner.deployment)], // the last step may have created it
        seen: last?.sets,
      });
  const sets = owner.set ? listed : listed.map(withAttempts);
  const own = sets.filter((set) => set === owner.set || controllerOf(set) === ref.uid);
  const machines = await reader.read({
    resource: context.api.kinds.machine,
    namespace,
    owners: own.map(({ metadata }) => metadata.uid),
    labels,
    isLastReader,
    names: [...own.flatMap((set) => recordedCreation(set)?.names ?? []), ...listedBy(context.api, owner)],
    seen: last?.machines,
  });
  const api = {
    ...context.api,
    nowMs,
    joined: await findJoined(context, inOldSets(context.api, owner, own, machines)),
  };
  const isSelected = (machine: KubeObject) =>
    controllerOf(machine) === undefined && own.some((set) => selects(set, machine.metadata.labels));
  // Labels say what a set selects, not what it has: any set may select a machine that has no owner.
  const rivals = machines.some(isSelected) ? (await context.deps.control.list(context.sets, { namespace })).items : [];
  const others = rivals.filter(({ metadata }) => !own.some((set) => set.metadata.uid === metadata.uid));
  const known = [...own, ...others];
  const free = owner.set ? [] : adoptableSets(owner.deployment, sets, []);
  const { items: deployments } =
    free.length === 0 ? { items: [] } : await context.deps.control.list(context.deployments, { namespace });
  const view =
    owner.set === undefined
      ? toDeploymentView(api, owner.deployment, [...known, ...free], machines, deployments)
      : toLoneSetView(api, owner.set, machines, known);
  const ownerChanges = readOwnerChanges(api, view, known, machines, maxCandidates);
  const behind = machinesBehind(api, view, own, machines, maxCandidates);
  const preservations = readPreservations(api, view, own, machines, maxCandidates);
  const ofSets = machines.filter((machine) => own.some(({ metadata }) => metadata.uid === controllerOf(machine)));
  const health = readHealth(api, view, ofSets, context.deps.mostReplacing, maxCandidates);
  const updates = readUpdates(api, view, machines, maxCandidates);
  return {
    view,
    candidates: toCandidates(api, owner.deployment ?? owner.set, view, machines, maxCandidates),
    pendingCreations: toPendingCreations(view, sets, machines),
    ...(ownerChanges.length > 0 && { ownerChanges }),
    ...(preservations.length > 0 && { preservations }),
    ...(behind.length > 0 && { machinesBehind: behind }),
    ...(health !== undefined && { health }),
    ...(updates !== undefined && { updates }),
    reader: reader.id,
  };
}

/** Machines of the sets that a rollout takes away: of those that are starting there it gives up all at once. */
function inOldSets(
  api: OwnerApi,
  { deployment }: Owner,
  own: readonly OwnerSet[],
  machines: readonly KubeObject[],
): readonly KubeObject[] {
  if (deployment === undefined) return [];
  const newSet = newSetAmong(api, deployment, own);
  const old = own.filter((set) => set !== newSet);
  return machines.filter((machine) => old.some(({ metadata }) => metadata.uid === controllerOf(machine)));
}

/** Names of the machines that a deployment lists to be deleted: they are read, whatever their labels. */
function listedBy(api: OwnerApi, { deployment }: Owner): readonly string[] {
  return deployment === undefined ? [] : (api.owner.scaleDown?.listedBy(deployment) ?? []);
}

/** The name that the set of the current template gets. */
function setNameOf(api: OwnerApi, { metadata, spec, status }: OwnerDeployment): string {
  return newSetName(metadata.name, templateHash(api, spec?.template, status?.collisionCount));
}
