/** What a running sweep shows: the query `progress`, the details in the Temporal UI, and on what it is blocked. */
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import {
  condition,
  continueAsNew,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { SweepActivities } from '../../activities/sweep.ts';
import { type Blocker, searchAttributes } from '../../api/names.ts';
import { isActivityFailure, toFailure } from '../machine/failure.ts';
import { progressQuery, retryNowSignal, type SweepInput, type SweepProgress } from './messages.ts';
import type { orphanSweep } from './sweep.ts';

/** Readings of whole lists: what they do not bring within their attempts the workflow waits for. */
export const kubernetes = proxyActivities<SweepActivities>({
  startToCloseTimeout: '2 minutes',
  heartbeatTimeout: '10 seconds',
  retry: { initialInterval: '500 ms', maximumInterval: '10 seconds', maximumAttempts: 3 },
  cancellationType: 'WAIT_CANCELLATION_COMPLETED',
});

/** A run of a sweep. */
export interface Sweep {
  readonly input: SweepInput;
  readonly startedAt: string;
  progress: SweepProgress;
  /** Grows when somebody wants what is waited for to be tried now. */
  nudges: number;
  /** How many readings of Kubernetes are being waited for. */
  blocked: number;
}

/** Starts to answer queries. */
export function startSweep(input: SweepInput): Sweep {
  const startedAt = new Date().toISOString();
  const progress = { doing: 'starting', since: startedAt, groups: 0, listed: 0, seen: 0, candidates: 0 };
  const sweep: Sweep = {
    ...{ input, startedAt, nudges: 0, blocked: 0 },
    progress: { ...progress, deleted: 0, failed: 0 },
  };
  setHandler(progressQuery, () => sweep.progress, { description: 'How far the sweep is.' });
  const nudge = () => {
    sweep.nudges += 1;
  };
  setHandler(retryNowSignal, nudge, { description: 'Try again now what Kubernetes has refused.' });
  return sweep;
}

/** Shows what has changed. A new `doing` begins now, and waits for nothing that is not said with it. */
export function show(sweep: Sweep, change: Partial<SweepProgress>): void {
  const { until: _, ...rest } = sweep.progress;
  const before = change.doing === undefined ? sweep.progress : { ...rest, since: new Date().toISOString() };
  sweep.progress = { ...before, ...change };
  setCurrentDetails(toMarkdown(sweep));
}

/** A run gives way to another, which begins anew, above this many events. */
const maxEvents = 10_000;
const firstPauseMs = 2_000;
const maxPauseMs = 5 * 60_000;

/**
 * Reads Kubernetes until it answers: nothing is judged by what could not be read. While it does not, the sweep says so
 * and waits, longer each time.
 */
export async function untilAnswered<T>(sweep: Sweep, read: () => Promise<T>): Promise<T> {
  let isBlocked = false;
  try {
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, maxPauseMs)) {
      const { nudges } = sweep;
      try {
        return await read();
      } catch (error) {
        if (!isActivityFailure(error)) throw error;
        const { code, message } = toFailure(error);
        if (workflowInfo().historyLength > maxEvents) await continueAsNew<typeof orphanSweep>(sweep.input);
        show(sweep, { lastError: { code, message, at: new Date().toISOString() } });
        if (!isBlocked) block(sweep, 1);
        isBlocked = true;
        await condition(() => sweep.nudges !== nudges, pauseMs);
      }
    }
  } finally {
    if (isBlocked) block(sweep, -1);
  }
}

const blockedOnKey = defineSearchAttributeKey(searchAttributes.blockedOn, SearchAttributeType.KEYWORD);

/** One event when the first reading has to be waited for, and one when the last is answered. */
function block(sweep: Sweep, change: 1 | -1): void {
  const before = sweep.blocked;
  sweep.blocked += change;
  if (before > 0 && sweep.blocked > 0) return;
  const blocker: Blocker = 'KubernetesApi';
  upsertSearchAttributes([{ key: blockedOnKey, value: sweep.blocked > 0 ? blocker : null }]);
}

function toMarkdown({ input, progress, blocked }: Sweep): string {
  const { doing, since, until, groups, listed, seen, candidates, deleted, failed, lastError } = progress;
  const rows: [string, string | undefined][] = [
    ['Doing', `${doing}, since ${since}${until === undefined ? '' : `, until ${until}`}`],
    ['Blocked on', blocked > 0 ? 'KubernetesApi: it has to tell which Machines there are' : undefined],
    ['Groups of classes', `${groups}, of which ${listed} are listed; ${seen} resources seen`],
    ['Without a Machine', `${candidates}; ${deleted} deleted, ${failed} could not be deleted`],
    ['Last error', lastError && `${lastError.code} at ${lastError.at}: ${lastError.message}`],
    ['Dry run', input.dryRun ? 'nothing is deleted' : undefined],
  ];
  return rows.flatMap(([name, value]) => (value === undefined ? [] : [`- **${name}**: ${value}`])).join('\n');
}
