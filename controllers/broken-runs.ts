/** Ends runs of workflows whose history and code disagree. The next run finds the progress in the objects: ADR 47. */
import { type MachineEvent, machineEvents } from '../api/events.ts';
import { referenceTo } from '../api/objects.ts';
import { type BrokenRun, listBrokenRuns, replaceBrokenRun } from '../temporal/broken-runs.ts';
import type { Controller, ControllerContext } from './controller.ts';

/** Most runs that are ended at a resync. If workers are too slow for their tasks, many new runs would not help them. */
const mostAtOnce = 20;

/** The longest pause between two ends of runs of one workflow, in resyncs. */
const longestPause = 60;

/** What an Event about a workflow regards. */
const roles: Readonly<Record<string, 'machine' | 'deployment' | 'set'>> = {
  machine: 'machine',
  rollout: 'deployment',
  machineSet: 'set',
};

/** What people have to do again, by what an Event regards. */
const again = {
  machine: ': run `millwright drain` again if you had run it',
  deployment: '',
  set: '',
} as const;

/** How often runs of a workflow were ended, or could not be, and until when its next one is left alone, by performance.now(). */
interface Pace {
  readonly count: number;
  readonly untilMs: number;
}

/**
 * Lists broken runs at every resync, and ends those that two lists in a row have. If the next run of the workflow
 * breaks as well, the cause is another one: it is ended after pauses of 2, 4, 8 and finally 60 resyncs. A run that
 * could not be ended waits as long, so that it keeps no other from its turn.
 */
export function createBrokenRunController(
  context: Pick<ControllerContext, 'installation' | 'dialect' | 'events' | 'logger' | 'resyncMs' | 'onRunReplaced'>,
): Controller {
  const { installation, dialect, events, logger, resyncMs, onRunReplaced } = context;
  let listed = new Set<string>();
  const paces = new Map<string, Pace>();

  async function replace(run: BrokenRun): Promise<void> {
    const { workflowId, runId, type } = run;
    try {
      if (!(await replaceBrokenRun(installation, run))) return;
      logger.warn({ workflowId, runId }, 'a run could not go on and was terminated: a new one takes over');
      onRunReplaced?.(type);
      record(run);
    } catch (err) {
      logger.warn({ workflowId, runId, err }, 'ending a run that cannot go on failed: trying again after a pause');
    }
    const count = (paces.get(workflowId)?.count ?? 0) + 1;
    const pauseMs = (Math.min(2 ** count, longestPause) - 0.5) * resyncMs;
    paces.set(workflowId, { count, untilMs: performance.now() + pauseMs });
  }

  function record({ workflowId, type }: BrokenRun): void {
    const role = roles[type];
    const [namespace, name, uid] = workflowId.split('/').slice(-3);
    if (role === undefined || namespace === undefined || name === undefined || uid === undefined) return;
    const reason: MachineEvent = 'RunFailed';
    events.record({
      regarding: referenceTo(dialect.kinds[role], { namespace, name, uid }),
      type: machineEvents[reason].type,
      reason,
      action: reason,
      note: `a run of its workflow could not go on and was ended, and a new run took over${again[role]}`,
    });
  }

  return {
    queue: 'broken-runs',
    hears: {},
    delayMs: 0,
    keys: () => ['broken runs'],
    handle: async () => undefined,
    async resync() {
      const broken = await listBrokenRuns(installation);
      const nowMs = performance.now();
      const isDue = ({ workflowId, runId }: BrokenRun) =>
        listed.has(runId) && nowMs >= (paces.get(workflowId)?.untilMs ?? 0);
      const due = broken.filter(isDue).slice(0, mostAtOnce);
      listed = new Set(broken.map(({ runId }) => runId));
      for (const run of due) await replace(run);
      for (const [id, { untilMs }] of paces) if (nowMs > untilMs + longestPause * resyncMs) paces.delete(id);
    },
  };
}
