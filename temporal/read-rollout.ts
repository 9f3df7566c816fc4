/** The last rollout of a deployment, from the histories that Temporal keeps. */
import { readEvents } from './fetch-history.ts';
import type { HistoryLimits } from './read-timeline.ts';
import { listRolloutRuns, type RolloutRun } from './rollout-runs.ts';
import { type RolloutStep, toRolloutSteps } from './rollout-steps.ts';
import type { Installation } from './workflows.ts';

/** The newest runs, the newest first, and the steps of those of them that had the newest template, in order. */
export async function readRollout(
  installation: Installation,
  deployment: { readonly namespace: string; readonly name: string },
  { maxRuns, timeoutMs }: HistoryLimits,
): Promise<{ readonly runs: readonly RolloutRun[]; readonly steps: readonly RolloutStep[] }> {
  const runs = await listRolloutRuns(installation, deployment, maxRuns, timeoutMs);
  const [newest] = runs;
  const own = runs.filter(({ workflowId, set }) => workflowId === newest?.workflowId && set === newest.set);
  const histories = await Promise.all(own.map((run) => readEvents(installation.client, run, timeoutMs)));
  return { runs, steps: toRolloutSteps(histories.toReversed().filter((each) => each !== undefined)) };
}
