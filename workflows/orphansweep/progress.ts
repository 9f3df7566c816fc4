/** What a running sweep shows: the query `progress`, the details in the Temporal UI, and on what it is blocked. */

import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import {
  ApplicationFailure,
  condition,
  continueAsNew,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { SweepActivities } from '../../activities/sweep.ts';
import type { SweepNotice } from '../../api/model/sweep.ts';
import { type Blocker, blockers, searchAttributes } from '../../api/names.ts';
import { inPortions } from '../../api/payloads.ts';
import type { Failure } from '../calls/failure.ts';
import { untilAnswered as untilApiAnswers } from '../calls/kubernetes.ts';
import { commandLine } from '../command-line.ts';
import { retryNowSignal } from '../messages.ts';
import { approvedKeys, type Census } from './brake.ts';
import {
  approveUpdate,
  type HeldOrphan,
  progressQuery,
  type SweepInput,
  type SweepProgress,
  type SweepReport,
} from './messages.ts';

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
  /** Bytes of the questions whose resources have Machines that are under way. */
  askedBytes: number;
  /** What its readings say of the Machines. */
  census?: Census;
  /** Keys of what a person has named at the brake. */
  approved?: ReadonlySet<string>;
  /** Who that was; left out where the command does not say so. */
  approvedBy?: string;
}

/** Starts to answer queries. */
export function startSweep(input: SweepInput): Sweep {
  const startedAt = new Date().toISOString();
  const progress = { doing: 'starting', since: startedAt, groups: 0, listed: 0, seen: 0, candidates: 0 };
  const sweep: Sweep = {
    ...{ input, startedAt, nudges: 0, blocked: 0, askedBytes: 0 },
    progress: { ...progress, deleted: 0, failed: 0 },
  };
  setHandler(progressQuery, () => sweep.progress, { description: 'How far the sweep is.' });
  const nudge = () => {
    sweep.nudges += 1;
  };
  setHandler(retryNowSignal, nudge, { description: 'Try again now what Kubernetes has refused.' });
  const approve = (given: readonly string[]) => {
    const { held } = sweep.progress;
    if (held === undefined || sweep.approved !== undefined) throw refuse('the sweep does not wait for approval');
    const answer = approvedKeys(held.orphans, given);
    if ('problem' in answer) throw refuse(answer.problem);
    return answer.keys;
  };
  const accept = (given: readonly string[], by?: string) => {
    sweep.approved = new Set(approve(given));
    if (by !== undefined) sweep.approvedBy = by;
    return sweep.approved.size;
  };
  const description = 'Name the orphans that may be deleted, by id or name. All others are kept.';
  setHandler(approveUpdate, accept, { validator: (given, _by?: string) => void approve(given), description });
  return sweep;
}

function refuse(message: string): ApplicationFailure {
  return ApplicationFailure.create({ type: 'InvalidArgument', message, nonRetryable: true });
}

/** Shows what has changed. A new `doing` starts now, and drops `until` and `held` unless they are given with it. */
export function show(sweep: Sweep, change: Partial<SweepProgress>): void {
  const { until: _, held: __, ...rest } = sweep.progress;
  const before = change.doing === undefined ? sweep.progress : { ...rest, since: new Date().toISOString() };
  sweep.progress = { ...before, ...change };
  setCurrentDetails(toMarkdown(sweep));
}

/** Above this many events a run that waits starts over as a new run. */
const maxEvents = 10_000;
const pauses = { firstPauseMs: 2_000, maxPauseMs: 5 * 60_000 };

/**
 * Reads Kubernetes until it answers: nothing is judged by what could not be read. While it does not, the sweep says so
 * and waits, longer each time.
 */
export async function untilAnswered<T>(sweep: Sweep, read: () => Promise<T>): Promise<T> {
  let isBlocked = false;
  let { nudges } = sweep;
  const attempt = () => {
    nudges = sweep.nudges;
    return read();
  };
  const pause = async ({ code, message }: Failure, pauseMs: number) => {
    if (workflowInfo().historyLength > maxEvents) await continueAsNew<Workflow>(sweep.input);
    show(sweep, { lastError: { code, message, at: new Date().toISOString() } });
    if (!isBlocked) block(sweep, 1);
    isBlocked = true;
    await condition(() => sweep.nudges !== nudges, pauseMs, { summary: `next try after ${code}` });
  };
  try {
    return await untilApiAnswers(attempt, { ...pauses, pause });
  } finally {
    if (isBlocked) block(sweep, -1);
  }
}

/** Records notices, in as many calls as payloads need. */
export async function recordNotices(sweep: Sweep, notices: readonly SweepNotice[]): Promise<void> {
  for (const portion of inPortions(notices)) {
    await untilAnswered(sweep, () => kubernetes.recordNotices(sweep.input, portion));
  }
}

/** The workflow `orphanSweep`, for the type of its arguments. */
type Workflow = (input: SweepInput) => Promise<SweepReport>;

const blockedOnKey = defineSearchAttributeKey(searchAttributes.blockedOn, SearchAttributeType.KEYWORD);

/** One event when the first reading has to be waited for, and one when the last is answered. */
function block(sweep: Sweep, change: 1 | -1): void {
  const before = sweep.blocked;
  sweep.blocked += change;
  if (before > 0 && sweep.blocked > 0) return;
  showBlocker(sweep.blocked > 0 ? 'KubernetesApi' : undefined);
}

/** Sets the search attribute of what the sweep waits for: one event. */
export function showBlocker(blockedOn: Blocker | undefined): void {
  upsertSearchAttributes([{ key: blockedOnKey, value: blockedOn ?? null }]);
}

/** An orphan at the brake, for people. */
export function nameOf({ named }: HeldOrphan): string {
  return named
    .map(({ kind, id, name, excessOf, doubts = [] }) => {
      const surplus = excessOf === undefined ? [] : [`surplus: Machine ${excessOf} names another VM`];
      return `${kind} ${id} (${[name || 'without a name', ...surplus, ...doubts].join(', ')})`;
    })
    .join(' with ');
}

/** Orphans at the brake that the details list. */
const maxShown = 100;

function heldLines({ input, progress: { held } }: Sweep): string[] {
  if (held === undefined) return [];
  const more = held.count - maxShown;
  return [
    `- **Blocked on**: Brake: ${blockers.Brake}`,
    ...held.reasons.map((reason) => `- **Waits because** ${reason}`),
    `- **To approve**: \`${commandLine('stuck', input)}\` has the command with the ids; what it does not name is kept`,
    ...held.orphans.slice(0, maxShown).map((orphan) => `  - ${nameOf(orphan)}`),
    ...(more > 0 ? [`  - and ${more} more`] : []),
  ];
}

function toMarkdown(sweep: Sweep): string {
  const { input, progress, blocked } = sweep;
  const { doing, since, until, groups, listed, seen, candidates, deleted, failed, lastError } = progress;
  const rows: [string, string | undefined][] = [
    ['Doing', `${doing}, since ${since}${until === undefined ? '' : `, until ${until}`}`],
    ['Blocked on', blocked > 0 ? 'KubernetesApi, or Temporal: the last error says what does not answer' : undefined],
    ['Groups of sources', `${groups}, of which ${listed} are listed; ${seen} resources seen`],
    ['Orphans', `${candidates}; ${deleted} deleted, ${failed} could not be deleted`],
    ['Last error', lastError && `${lastError.code} at ${lastError.at}: ${lastError.message}`],
    ['Dry run', input.dryRun ? 'nothing is deleted' : undefined],
  ];
  const shown = rows.flatMap(([name, value]) => (value === undefined ? [] : [`- **${name}**: ${value}`]));
  return [...shown, ...heldLines(sweep)].join('\n');
}
