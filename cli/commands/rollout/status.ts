/** `millwright rollout status`: how far a rollout is, until it is complete or late. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { MachineDeployment } from '../../../api/gardener/schema/machine-deployment.ts';
import { findRetry } from '../../../temporal/workflows.ts';
import { countsOf, heldUpLines, type OwnerState, readDeploymentState } from '../owner-state.ts';
import { lineOf, nameOf, readDeployment, refOf, refuseDeleted, type Subject, withInstallation } from './target.ts';

const lookAgainMs = 1_000;
/** While a rollout moves its counts say enough. What holds it up is told when they stand still, and at the end. */
const standsStillMs = 10_000;

/** Resolves when it is complete, or at once where nobody wants to watch; throws an Error when it is late. */
export async function status(subject: Subject, first: MachineDeployment): Promise<string> {
  let told = '';
  let toldLines = '';
  let movedAt = 0;
  let retry: Retry | undefined;
  for (let deployment = first; ; deployment = await readDeployment(subject)) {
    refuseDeleted(subject, deployment);
    const state = await readDeploymentState(subject.control, deployment);
    const progress = progressOf(subject, deployment, state);
    const isLate = progress.outcome === 'late';
    if (isLate && (retry === undefined || isOver(retry))) retry = await findOpenRetry(subject, deployment);
    const { text, outcome, lines } = isLate ? afterRetry(subject, progress, retry) : progress;
    if (outcome === 'complete') return text;
    const all = [text, ...lines].join('\n  ');
    if (outcome === 'failed') throw new Error(all);
    if (!subject.options.watch) return all;
    if (text !== told) {
      console.log(text);
      told = text;
      movedAt = Date.now();
    } else if (all !== toldLines && lines.length > 0 && Date.now() - movedAt >= standsStillMs) {
      console.log(lines.map((line) => `  ${line}`).join('\n'));
      toldLines = all;
    }
    await sleep(lookAgainMs);
  }
}

interface Progress {
  readonly text: string;
  readonly outcome: 'complete' | 'failed' | 'late' | 'under way';
  /** What holds it up. */
  readonly lines: readonly string[];
}

/** How far a rollout is, and what it waits for. */
function progressOf(subject: Subject, { metadata, status: now = {} }: MachineDeployment, state: OwnerState): Progress {
  const { view, needs, waitsFor, blockedBy } = state;
  const { generation = 0 } = metadata;
  const { total, older, available } = countsOf(state);
  const which = nameOf(subject);
  if (view.problem !== undefined) {
    return { text: `${which} is not valid: ${view.problem}`, outcome: 'failed', lines: [] };
  }
  if ((now.observedGeneration ?? 0) < generation) {
    const lines = ['do the controllers and a worker run?'];
    return { text: `${which}: waiting until its spec is seen`, outcome: 'under way', lines };
  }
  const updated = total - older;
  const counts = `${updated} of ${view.replicas} machines are of the new template, ${older} of older ones, ${available} available`;
  const resume = view.paused ? `; it is paused: ${lineOf('resume', subject)}` : '';
  const isDone = updated === view.replicas && older === 0 && available >= view.replicas;
  if (isDone && (view.progress === 'complete' || view.paused)) {
    return { text: `${which}: complete, ${counts}${resume}`, outcome: 'complete', lines: [] };
  }
  const lines = blockedBy === undefined ? [] : heldUpLines(blockedBy);
  const waits = waitsFor === undefined ? '' : `; ${waitsFor}`;
  if (view.progress === 'late') {
    return { text: `${which}: the progress deadline has passed: ${counts}${waits}`, outcome: 'late', lines };
  }
  return { text: `${which}: ${counts}${waits}${needs.length === 0 ? resume : ''}`, outcome: 'under way', lines };
}

/** When a late rollout was signalled to try again, and until when it may take to get further. */
interface Retry {
  readonly at: Date;
  readonly until: Date;
}

function isOver({ until }: Retry): boolean {
  return Date.now() >= until.getTime();
}

/**
 * The status says late until there is progress. A run that is late fails, so what was told to its successor was told
 * since. undefined also when Temporal does not answer, which is told.
 */
async function findOpenRetry(subject: Subject, deployment: MachineDeployment): Promise<Retry | undefined> {
  try {
    const ref = refOf(subject, deployment);
    const at = await withInstallation(subject, (installation) => findRetry(installation, 'MachineDeployment', ref));
    if (at === undefined) return undefined;
    const retry = { at, until: new Date(at.getTime() + (deployment.spec?.progressDeadlineSeconds ?? 0) * 1_000) };
    return isOver(retry) ? undefined : retry;
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    return undefined;
  }
}

function afterRetry(subject: Subject, progress: Progress, retry: Retry | undefined): Progress {
  if (retry === undefined) {
    const fix = `once what holds it up is away: ${lineOf('retry', subject)}`;
    return { ...progress, text: `${progress.text}; ${fix}`, outcome: 'failed' };
  }
  const told = `retry was signalled at ${retry.at.toISOString()}; it has until ${retry.until.toISOString()}`;
  return { ...progress, text: `${progress.text}; ${told}`, outcome: 'under way' };
}
