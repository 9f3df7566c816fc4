/** How the rollout of a MachineDeployment is drawn: its machines, bounds, steps and runs. Pure. */
import type { RolloutBlockers } from '../../api/model/owner.ts';
import type { RolloutRun } from '../../temporal/rollout-runs.ts';
import type { RolloutStep } from '../../temporal/rollout-steps.ts';
import { durationText } from '../duration-text.ts';
import { countsOf, type OwnerState } from '../owner-state.ts';

/** Numbers of machines, and as shares of the scale that all of them have. */
interface Bar {
  readonly old: number;
  readonly updated: number;
  readonly available: number;
  readonly oldShare: number;
  readonly updatedShare: number;
  readonly availableShare: number;
}

interface DrawnSet {
  readonly name: string;
  readonly isNew: boolean;
  readonly total: number;
  /** Names, at most `maxNames`. */
  readonly machines: readonly string[];
}

/** A rollout as the page draws it. Times are RFC 3339. */
export interface Rollout {
  readonly replicas: number;
  /** How many machines may exist, and how many have to be available; as shares of the scale, too. */
  readonly most: number;
  readonly least: number;
  readonly mostShare: number;
  readonly leastShare: number;
  readonly now: Bar;
  readonly sets: readonly DrawnSet[];
  readonly blockers: RolloutBlockers['machines'];
  /** Number of machines that block it and are not among them. */
  readonly moreBlockers: number;
  readonly problem?: string;
  /** The newest at the end, at most `maxRolloutSteps`. */
  readonly steps: readonly (Bar & { readonly at: string; readonly notes: readonly string[] })[];
  readonly runs: readonly (Pick<
    RolloutRun,
    'runId' | 'workflowId' | 'start' | 'outcome' | 'paused' | 'set' | 'failure'
  > & {
    readonly took: string;
  })[];
}

/** Most that is sent of a rollout. */
export const maxNames = 200;
export const maxRolloutSteps = 100;

/**
 * @param machines names of the machines of each set, by the name of the set
 * @param nowMs ms since the epoch: the end of a run that is open
 */
export function toRollout(
  state: OwnerState,
  machines: ReadonlyMap<string, readonly string[]>,
  history: { readonly runs: readonly RolloutRun[]; readonly steps: readonly RolloutStep[] },
  nowMs: number,
): Rollout {
  const { view, blockedBy } = state;
  const { total, older, available } = countsOf(state);
  const steps = history.steps.slice(-maxRolloutSteps);
  const most = view.replicas + view.maxSurge;
  const scale = Math.max(1, most, total, ...steps.map(({ old, updated }) => old + updated));
  const toBar = (counts: Pick<Bar, 'old' | 'updated' | 'available'>): Bar => ({
    ...{ old: counts.old, updated: counts.updated, available: counts.available },
    oldShare: counts.old / scale,
    updatedShare: counts.updated / scale,
    availableShare: counts.available / scale,
  });
  const least = Math.max(0, view.replicas - view.maxUnavailable);
  return {
    ...{ replicas: view.replicas, most, least, mostShare: most / scale, leastShare: least / scale },
    now: toBar({ old: older, updated: total - older, available }),
    sets: view.sets
      .filter((set) => set.total > 0 || set.isNew)
      .map((set) => {
        const names = machines.get(set.name)?.slice(0, maxNames) ?? [];
        return { name: set.name, isNew: set.isNew, total: set.total, machines: names };
      }),
    blockers: blockedBy?.machines ?? [],
    moreBlockers: blockedBy === undefined ? 0 : blockedBy.count - blockedBy.machines.length,
    ...(blockedBy?.problem !== undefined && { problem: blockedBy.problem }),
    steps: steps.map((step) => ({ at: step.at, ...toBar(step), notes: notesOf(step) })),
    runs: history.runs.map(({ runId, workflowId, start, end, outcome, paused, set, failure }) => ({
      ...{ runId, workflowId, start, outcome },
      took: durationText((end === undefined ? nowMs : Date.parse(end)) - Date.parse(start)),
      ...(paused && { paused }),
      ...(set !== undefined && { set }),
      ...(failure !== undefined && { failure }),
    })),
  };
}

/** Most names in a line. */
const maxNamed = 5;

function notesOf({ created, deleted, selected }: RolloutStep): string[] {
  const said = { creates: created, deletes: deleted, 'updates in place': selected };
  return Object.entries(said).flatMap(([verb, names]) => {
    if (names.length === 0) return [];
    const more = names.length - maxNamed;
    return [`${verb} ${names.slice(0, maxNamed).join(', ')}${more > 0 ? ` and ${more} more` : ''}`];
  });
}
