/** Records on sets that their machines have failed without having joined: the next ones have to wait. */
import type { Candidate } from '../../api/model/owner.ts';
import {
  afterFailures,
  attemptsAnnotation,
  attemptsText,
  type FailedAttempts,
} from '../../api/owner/failed-attempts.ts';
import { update } from '../../kube/update.ts';
import { temporalNowMs } from '../boundary.ts';
import { recordOnOwner } from './report.ts';
import type { Owner, Step } from './step.ts';

/** @param failed machines that the step has deleted, each after it had failed without having joined */
export async function recordAttempts(step: Step, owner: Owner, failed: readonly Candidate[]): Promise<void> {
  const { deps, api, sets, ref, plan } = step;
  const replicas = (owner.deployment ?? owner.set).spec?.replicas ?? 0;
  for (const name of new Set(failed.map(({ set }) => set))) {
    const failures = failed.flatMap(({ set, failedToJoin }) => (set === name && failedToJoin ? [failedToJoin] : []));
    const uid = plan.sets.find((set) => set.name === name)?.uid;
    if (uid === undefined) continue;
    let attempts: FailedAttempts | undefined;
    await update(deps.control, sets, { namespace: ref.namespace, name, uid }, (set) => {
      const seconds = api.owner.template.creationSecondsOf(set) ?? deps.defaults.creationSeconds;
      attempts = afterFailures({ ...api, nowMs: temporalNowMs() }, set, replicas, failures, seconds);
      return attempts && { metadata: { annotations: attemptsAnnotation(attempts) } };
    });
    const note = attempts && attemptsText(name, attempts);
    if (note !== undefined) recordOnOwner(step, owner, 'CreationPaused', note);
  }
}
