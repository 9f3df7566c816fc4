/** Records on sets that their machines have failed without having joined: the next ones have to wait. */
import type { Candidate, FailedAttempts } from '../../api/model/owner.ts';
import { names } from '../../api/names.ts';
import { afterFailures, attemptsAnnotation, attemptsText, withKnownAttempts } from '../../api/owner/failed-attempts.ts';
import { update } from '../../kube/update.ts';
import { temporalNowMs } from '../boundary.ts';
import { noteKept } from './not-kept.ts';
import { recordOnOwner } from './report.ts';
import type { Owner, Step } from './step.ts';

/** @param failed machines that the step has deleted, each after it had failed without having joined */
export async function recordAttempts(step: Step, owner: Owner, failed: readonly Candidate[]): Promise<void> {
  const { deps, api, sets, ref, plan } = step;
  const replicas = (owner.deployment ?? owner.set).spec?.replicas ?? 0;
  for (const name of new Set(failed.map(({ set }) => set))) {
    const failures = failed.flatMap(({ set, failedToJoin }) => (set === name && failedToJoin ? [failedToJoin] : []));
    const uid = plan.sets.find((set) => set.name === name)?.uid;
    const noted = step.attempts?.[name];
    if (uid === undefined || noted) continue; // the step has begun the next attempt: these are of the one before
    let attempts: FailedAttempts | undefined;
    const written = await update(deps.control, sets, { namespace: ref.namespace, name, uid }, (set) => {
      const seconds = api.owner.template.creationSecondsOf(set) ?? deps.defaults.creationSeconds;
      const known = noted === null ? set : withKnownAttempts(set, plan.attempts?.[name]);
      attempts = afterFailures({ ...api, nowMs: temporalNowMs() }, known, replicas, failures, seconds);
      return attempts && { metadata: { annotations: attemptsAnnotation(attempts) } };
    });
    if (attempts === undefined || written === undefined) continue;
    const note = attemptsText(name, attempts);
    if (note !== undefined) recordOnOwner(step, owner, 'CreationPaused', note);
    noteAttempts(step, name, attempts);
    const annotation = attemptsAnnotation(attempts);
    const isKept = written.metadata.annotations?.[names.failedAttempts] === annotation[names.failedAttempts];
    if (!isKept) noteKept(step, `machine set ${name}`, { metadata: { annotations: annotation } });
  }
}

/** Notes what the run has to know of a set from now on. @param attempts null: nothing any more */
export function noteAttempts(step: Step, set: string, attempts: FailedAttempts | null): void {
  step.attempts = { ...step.attempts, [set]: attempts };
}
