/** What the workflow of a MachineDeployment, or of a MachineSet without one, reads and does in Kubernetes. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { OwnerPlan, OwnerSnapshot, RolloutBlockers } from '../../api/model/owner.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { findBlockers } from '../../api/owner/blockers.ts';
import { toCandidates } from '../../api/owner/candidates.ts';
import { toPendingCreations } from '../../api/owner/creations.ts';
import { toDeploymentView, toLoneSetView } from '../../api/owner/view.ts';
import { currentCall } from '../boundary.ts';
import { applyPlan } from './apply.ts';
import { contextOf, type OwnerContext, type OwnerDeps, type OwnerKind, readOwner } from './step.ts';

export type { OwnerDeps, OwnerKind };
export type OwnerActivities = ReturnType<typeof createOwnerActivities>;

/** Most candidates of one reading: more than a step deletes would only fill the history. */
const maxCandidates = 100;

export function createOwnerActivities(deps: OwnerDeps) {
  const { control, target } = deps;

  return {
    /**
     * Reads an owner, then its sets, then its machines, each by quorum. In this order a machine that is created meanwhile
     * may be missed, but never one that existed before. null: the owner is gone, or it is a set of a deployment.
     *
     * Only the controller reference says whose a machine is, so all machines of the namespace are listed. A label selector
     * would miss machines whose labels were edited, and every reading would create others for them.
     * @param notBeforeMs when to read, ms since the epoch, at most a second from now: changes until then are in one
     *   reading. A timer of the workflow takes at least a second.
     */
    async observeOwner(ref: ObjectRef, kind: OwnerKind, notBeforeMs: number): Promise<OwnerSnapshot | null> {
      await sleep(Math.max(0, Math.min(notBeforeMs - Date.now(), 1_000)));
      return snapshotOwner(contextOf(deps, ref, kind), maxCandidates);
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
      return findBlockers(context.api, deployment, sets.items, machines.items);
    },

    /** Runs a step that was planned, see `applyPlan`. */
    async actOnOwner(ref: ObjectRef, kind: OwnerKind, plan: OwnerPlan): Promise<void> {
      await applyPlan({ ...contextOf(deps, ref, kind), plan, signal: currentCall().signal });
    },
  };
}

/** The body of `observeOwner`. @param maxCandidates most candidates of one reading */
export async function snapshotOwner(context: OwnerContext, maxCandidates: number): Promise<OwnerSnapshot | null> {
  const { deps, api, ref } = context;
  const { namespace } = ref;
  const owner = await readOwner(context);
  if (owner === undefined) return null;
  const sets = owner.set === undefined ? (await deps.control.list(context.sets, { namespace })).items : [owner.set];
  const { items: machines } = await deps.control.list(api.kinds.machine, { namespace });
  const view =
    owner.set === undefined
      ? toDeploymentView(api, owner.deployment, sets, machines)
      : toLoneSetView(api, owner.set, machines);
  return {
    view,
    candidates: toCandidates(api, view, machines, maxCandidates),
    pendingCreations: toPendingCreations(view, sets, machines),
  };
}
