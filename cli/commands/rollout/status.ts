/** `millwright rollout status`: the progress of a rollout, until it is complete or late. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { OwnerDeployment } from '../../../api/owner/objects.ts';
import { controllerOf } from '../../../api/owner/ownership.ts';
import { revisionOf } from '../../../api/owner/revision.ts';
import { takenBackSet } from '../../../api/owner/rollback.ts';
import { dialect } from '../../dialect.ts';
import { secondsOf } from '../../duration-text.ts';
import {
  blockerLines,
  countsOf,
  type OwnedObjects,
  type OwnerState,
  readOwned,
  toDeploymentState,
  watchOwned,
} from '../../owner-state.ts';
import { complain, say } from '../../terminal.ts';
import { commandLineOf, existing, nameOf, type RolloutTarget, refOf, refuseDeleted } from './target.ts';

/** How often what is watched is looked at, ms: a line for each change of a large rollout would say no more. */
const lookMs = 1_000;
/**
 * While the counts change they say enough. The blockers are printed once the counts have not changed for this long, ms.
 */
const stuckMs = 10_000;

/**
 * Resolves when the rollout is complete, or at once with --watch false. Throws an Error when it is late, or when it is
 * complete because it was late and went back by itself meanwhile.
 */
export async function status(target: RolloutTarget, first: OwnerDeployment): Promise<string> {
  const { control, key } = target;
  const report = progressReporter(target);
  const answer = await report(first, await readOwned(control, key.namespace));
  if (answer !== undefined) return answer;
  const owned = watchOwned(control, key.namespace);
  try {
    for (;;) {
      await sleep(lookMs);
      const read = await owned.read();
      const deployment = read.deployments.find(({ metadata }) => metadata.name === key.name);
      const answer = await report(existing(target, deployment), read);
      if (answer !== undefined) return answer;
    }
  } finally {
    await owned.stop();
  }
}

/**
 * Prints what has changed since its last call. It returns the final text, and undefined while there is none. Throws an
 * Error when the rollout has failed.
 */
export function progressReporter(target: RolloutTarget) {
  let printed = { text: '', blockers: '' };
  let changedAt = 0;
  let retry: Retry | undefined;
  let rollback: { readonly toSet: string; readonly fromRevision: number } | undefined;
  let isWatched = false;
  return async (deployment: OwnerDeployment, owned: OwnedObjects): Promise<string | undefined> => {
    refuseDeleted(target, deployment);
    const state = toDeploymentState(deployment, owned);
    const own = owned.sets.filter((set) => controllerOf(set) === deployment.metadata.uid);
    const from = takenBackSet(dialect, deployment, own);
    const { setName: toSet } = state.view.template;
    // Kept while the template is the same: the set may be deleted as soon as the rollback is complete.
    if (from !== undefined) rollback = { toSet, fromRevision: revisionOf(dialect, from) };
    else if (rollback?.toSet !== toSet) rollback = undefined;
    // A rollback that was over before does not fail a later scale-up.
    isWatched ||=
      rollback === undefined || state.view.sets.some(({ name, total }) => name === from?.metadata.name && total > 0);
    const progress = toProgress(target, deployment, state, rollback?.fromRevision);
    const isLate = progress.outcome === 'late';
    if (isLate && (retry === undefined || isOver(retry))) retry = await findOpenRetry(target, deployment);
    const { text, outcome, blockers } = isLate ? afterRetry(target, progress, retry) : progress;
    if (outcome === 'complete') {
      if (rollback === undefined || !isWatched) return text;
      throw new Error(`${text}; why: ${commandLineOf('runs', target)}`);
    }
    const all = [text, ...blockers].join('\n  ');
    if (outcome === 'failed') throw new Error(all);
    if (target.options.watch === false) return all;
    if (text !== printed.text) {
      say(text);
      printed = { ...printed, text };
      changedAt = Date.now();
    } else if (all !== printed.blockers && blockers.length > 0 && Date.now() - changedAt >= stuckMs) {
      say(blockers.map((line) => `  ${line}`).join('\n'));
      printed = { ...printed, blockers: all };
    }
    return undefined;
  };
}

interface Progress {
  readonly text: string;
  readonly outcome: 'complete' | 'failed' | 'late' | 'under way';
  /** One line each. */
  readonly blockers: readonly string[];
}

/** @param lateRevision the revision that the deployment went back from by itself, if it did */
function toProgress(
  target: RolloutTarget,
  { metadata, status = {} }: OwnerDeployment,
  state: OwnerState,
  lateRevision: number | undefined,
): Progress {
  const { view, needs, waitsFor, blockedBy } = state;
  const { total, older, available } = countsOf(state);
  if (view.problem !== undefined) {
    return { text: `${nameOf(target)} is invalid: ${view.problem}`, outcome: 'failed', blockers: [] };
  }
  const wentBack = lateRevision === undefined ? '' : `revision ${lateRevision} was late and is rolled back; `;
  const start = `${nameOf(target)}: ${wentBack}`;
  if ((status.observedGeneration ?? 0) < (metadata.generation ?? 0)) {
    const blockers = [blockedBy?.problem ?? 'are the controllers and a worker running?'];
    return { text: `${start}waiting for the spec update to be observed`, outcome: 'under way', blockers };
  }
  const updated = total - older;
  const counts = `${updated} of ${view.replicas} machines updated, ${older} old, ${available} available`;
  const resume = view.paused ? `; it is paused, to resume: ${commandLineOf('resume', target)}` : '';
  const isDone = updated === view.replicas && older === 0 && available >= view.replicas;
  if (isDone && (view.progress === 'complete' || view.paused)) {
    return { text: `${start}complete, ${counts}${resume}`, outcome: 'complete', blockers: [] };
  }
  const blockers = blockedBy === undefined ? [] : blockerLines(blockedBy);
  const waits = waitsFor === undefined ? '' : `; ${waitsFor}`;
  if (view.progress === 'late') {
    return { text: `${start}the progress deadline has passed: ${counts}${waits}`, outcome: 'late', blockers };
  }
  const text = `${start}${counts}${waits}${needs.length === 0 ? resume : ''}`;
  return { text, outcome: 'under way', blockers };
}

/** When a late rollout was signalled to retry, and when it is late again. */
interface Retry {
  readonly at: Date;
  readonly until: Date;
}

function isOver({ until }: Retry): boolean {
  return Date.now() >= until.getTime();
}

/**
 * The status says late until there is progress. A late run fails, so a signal to its successor came later than that.
 * Prints the error and returns undefined when Temporal does not answer.
 */
async function findOpenRetry(target: RolloutTarget, deployment: OwnerDeployment): Promise<Retry | undefined> {
  try {
    const [{ withInstallation }, { findRetry }] = await Promise.all([
      import('../../installation.ts'),
      import('../../../temporal/workflows.ts'),
    ]);
    const ref = refOf(target, deployment);
    const at = await withInstallation(target.options, (to) => findRetry(to, 'MachineDeployment', ref));
    if (at === undefined) return undefined;
    const retry = { at, until: new Date(at.getTime() + (deployment.spec?.progressDeadlineSeconds ?? 0) * 1_000) };
    return isOver(retry) ? undefined : retry;
  } catch (error) {
    complain(error instanceof Error ? error.message : String(error));
    return undefined;
  }
}

function afterRetry(target: RolloutTarget, progress: Progress, retry: Retry | undefined): Progress {
  if (retry === undefined) {
    const fix = `once the cause is fixed: ${commandLineOf('retry', target)}`;
    return { ...progress, text: `${progress.text}; ${fix}`, outcome: 'failed' };
  }
  // No ages: a line is printed whenever the text has changed.
  const [at, until] = [retry.at, retry.until].map((time) => secondsOf(time.toISOString()));
  const times = `retry was signalled at ${at}; it is late again at ${until}`;
  return { ...progress, text: `${progress.text}; ${times}`, outcome: 'under way' };
}
