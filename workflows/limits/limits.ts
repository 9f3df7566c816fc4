/** Grants the limits of a namespace, in one place and one after the other. Open while somebody claims or waits. */
import {
  ApplicationFailure,
  allHandlersFinished,
  condition,
  continueAsNew,
  getExternalWorkflowHandle,
  isCancellation,
  patched,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { LimitActivities } from '../../activities/limits.ts';
import type { LimitClaim, LimitGrant, LimitReading, LimitScope } from '../../api/model/limits.ts';
import { useOf } from '../../api/owner/limit-use.ts';
import { workflowId } from '../../api/workflow-id.ts';
import { type Failure, isActivityFailure, toFailure } from '../calls/failure.ts';
import { inParallel } from '../calls/parallel.ts';
import { refreshSignal } from '../messages.ts';
import { decide, emptyState, endedGrants, heldBy, turnMs, unknownHolders, withoutGrants } from './grants.ts';
import { claimUpdate, describeLimitsQuery, type LimitState, type LimitsDescription } from './messages.ts';

/** Not a local one: the lists of a large namespace take seconds, and claims are taken meanwhile. */
const { readLimits } = proxyActivities<LimitActivities>({
  startToCloseTimeout: '20 seconds',
  heartbeatTimeout: '5 seconds',
  retry: { maximumAttempts: 2, initialInterval: '200 ms' },
  cancellationType: 'WAIT_CANCELLATION_COMPLETED',
});

/** How often it looks for room while somebody waits, for what no watcher reports, ms. */
const lookMs = 60_000;

/** How long it stays open when nobody waits, ms. */
const idleMs = 10_000;

/** Above this many events a run continues as a new one. */
const maxEvents = 1_000;

interface Request {
  readonly claim: LimitClaim;
  answer?: LimitGrant | Failure;
}

interface LimitRun {
  readonly scope: LimitScope;
  state: LimitState;
  /** Claims that are not answered. */
  requests: Request[];
  /** A watcher saw that a machine may have made room, or that a limit was changed. */
  isChanged: boolean;
  /** Whether nobody has been told yet that what earlier runs granted is not known. */
  isNew: boolean;
  description: LimitsDescription;
}

/**
 * Workflow type `machineLimits`. Grants the limits of a namespace. Its activity reads the namespace after a claim and
 * before the answer, so no claim is granted what an earlier one has taken. When it is lost, the next run finds what was
 * granted on the sets.
 */
export async function machineLimits(scope: LimitScope, before?: LimitState): Promise<void> {
  // The arguments of a run that failed are older than what it granted.
  const run = newRun(scope, workflowInfo().attempt === 1 ? before : undefined);
  handleMessages(run);
  for (;;) {
    const isWaiting = run.state.waiting.length > 0;
    const isAsked = await condition(() => run.requests.length > 0 || run.isChanged, pauseMs(run));
    if (!isAsked && !isWaiting && (await isOver(run))) return;
    run.isChanged = false;
    if (run.requests.length > 0 || isWaiting) await serve(run);
    if (workflowInfo().historyLength > maxEvents && (await isOver(run))) {
      await continueAsNew<typeof machineLimits>(scope, run.state);
    }
  }
}

function newRun(scope: LimitScope, before: LimitState | undefined): LimitRun {
  return {
    scope,
    state: before ?? emptyState,
    requests: [],
    isChanged: false,
    isNew: before === undefined,
    description: {
      at: new Date().toISOString(),
      limits: {},
      used: { surge: 0, provisioning: 0 },
      holders: [],
      waiting: [],
    },
  };
}

function handleMessages(run: LimitRun): void {
  setHandler(describeLimitsQuery, () => run.description, { description: 'Who uses the limits, and who waits.' });
  setHandler(
    refreshSignal,
    () => {
      run.isChanged = true;
    },
    { description: 'There may be room now.' },
  );
  setHandler(
    claimUpdate,
    async (claim) => {
      const request: Request = { claim };
      run.requests.push(request);
      await condition(() => request.answer !== undefined);
      const { answer = { granted: [] } } = request;
      if ('code' in answer) throw ApplicationFailure.create({ type: answer.code, message: answer.message });
      return answer;
    },
    { description: 'An owner wants to create machines.' },
  );
}

/** Whether no claim is open; waits until the answers of all are on their way. */
async function isOver(run: LimitRun): Promise<boolean> {
  await condition(() => allHandlersFinished() || run.requests.length > 0);
  return run.requests.length === 0;
}

function pauseMs({ state: { waiting } }: LimitRun): number {
  if (waiting.length === 0) return idleMs;
  return waiting.some(({ wokenMs }) => wokenMs !== undefined) ? turnMs : lookMs;
}

/** Reads the namespace, answers all claims that came before, and tells those who wait and have their turn. */
async function serve(run: LimitRun): Promise<void> {
  const requests = run.requests;
  run.requests = [];
  const claims = requests.map(({ claim }) => claim);
  const reading = await read(
    run,
    claims.map(({ uid }) => uid),
  );
  if ('code' in reading) {
    for (const request of requests) request.answer = reading;
    return;
  }
  const nowMs = Date.now();
  const ended = endedGrants(run.state, nowMs);
  const before = ended.length > 0 && patched('grants-end') ? withoutGrants(run.state, ended) : run.state;
  const { state, grants, woken } = decide(before, reading, claims, nowMs);
  run.state = state;
  for (const [i, request] of requests.entries()) request.answer = grants[i] ?? { granted: [] };
  const unknown = run.isNew ? unknownHolders(state, reading) : [];
  run.isNew = false;
  await inParallel([...woken, ...unknown], (owner) => tell(run, owner));
  describe(run, reading);
}

async function read(run: LimitRun, claiming: readonly string[]): Promise<LimitReading | Failure> {
  try {
    return await readLimits(run.scope, claiming);
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    const failure = toFailure(error);
    const { code, message } = failure;
    run.description = { ...run.description, lastError: { code, message, at: new Date().toISOString() } };
    return failure;
  }
}

/** Wakes the workflow of an owner. One without a workflow loses its turn: it claims again when it is started. */
async function tell(
  run: LimitRun,
  { kind, name, uid }: Pick<LimitReading['uses'][number], 'kind' | 'name' | 'uid'>,
): Promise<void> {
  if (kind === 'Machine') return;
  const id = workflowId(workflowInfo().taskQueue, kind, { ...run.scope, name, uid });
  try {
    await getExternalWorkflowHandle(id).signal(refreshSignal);
  } catch (error) {
    if (isCancellation(error)) throw error;
    run.state = { ...run.state, waiting: run.state.waiting.filter((waiter) => waiter.uid !== uid) };
    run.isChanged = true;
  }
}

function describe(run: LimitRun, reading: LimitReading): void {
  const { state } = run;
  const granted = new Map(Object.entries(state.granted));
  const holders = reading.uses
    .map((use) => {
      const held = heldBy(use, granted);
      return {
        name: use.name,
        provisioning: useOf('provisioning', use, held),
        surge: useOf('surge', use, held),
      };
    })
    .filter(({ provisioning, surge }) => provisioning + surge > 0);
  run.description = {
    at: new Date().toISOString(),
    limits: reading.limits,
    used: {
      surge: holders.reduce((sum, { surge }) => sum + surge, 0),
      provisioning: holders.reduce((sum, { provisioning }) => sum + provisioning, 0),
    },
    holders,
    waiting: state.waiting.map(({ name, sinceMs }) => ({ name, since: new Date(sinceMs).toISOString() })),
  };
  setCurrentDetails(toMarkdown(run.description));
}

/** The description as Markdown. */
function toMarkdown({ at, limits, used, holders, waiting }: LimitsDescription): string {
  const textOf = (limit: 'surge' | 'provisioning') =>
    `- **Machines ${limit === 'surge' ? 'of surge' : 'that do not run yet'}**: ${used[limit]} of at most ${limits[limit] ?? 'any number'}`;
  return [
    `As of ${at}:`,
    textOf('surge'),
    textOf('provisioning'),
    ...holders.map(({ name, surge, provisioning }) => `- ${name} uses ${surge} surge, ${provisioning} provisioning`),
    ...waiting.map(({ name, since }) => `- **${name} waits** since ${since}`),
  ].join('\n');
}
