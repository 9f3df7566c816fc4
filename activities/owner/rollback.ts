/** Takes a deployment back to an earlier template, and records which of its templates were rolled out completely. */
import { names } from '../../api/names.ts';
import type { OwnerDeployment } from '../../api/owner/objects.ts';
import { askedRollback, lateRollback, type Rollback, refusedRollback } from '../../api/owner/rollback.ts';
import { StatusError } from '../../kube/errors.ts';
import { update } from '../../kube/update.ts';
import { recordOn } from './report.ts';
import { ownSets, type Step } from './step.ts';

const events = {
  done: 'DeploymentRollback',
  revisionNotFound: 'DeploymentRollbackRevisionNotFound',
  templateUnchanged: 'DeploymentRollbackTemplateUnchanged',
  refused: 'DeploymentRollbackRefused',
} as const;

/** HTTP statuses with which the API server refuses a change for good. */
const refusals: readonly number[] = [400, 403, 422];

/**
 * Writes what `spec.rollbackTo` asks for, or what a rollout needs that is late. A spec that has changed is left alone.
 * Answers what was done, for people: also that the API server refuses it for good. Then a late rollout stays late, and
 * what was asked for is cleared.
 */
export async function rollBack(step: Step): Promise<string | undefined> {
  const { deps, api, deployments, ref, plan } = step;
  if (plan.rollback === undefined) return undefined;
  const own = await ownSets(step);
  const write = async (decide: (live: OwnerDeployment) => Rollback | undefined): Promise<string | undefined> => {
    let made: Rollback | undefined;
    const written = await update(deps.control, deployments, ref, (live) => {
      const isPlanned = live.metadata.generation === plan.generation && live.metadata.deletionTimestamp === undefined;
      made = isPlanned ? decide(live) : undefined;
      return made?.patch;
    });
    if (written === undefined || made === undefined) return undefined;
    recordOn(deps.events, deployments, written, events[made.kind], made.note);
    return made.note;
  };
  const isLate = plan.rollback === 'late';
  try {
    return await write((live) => (isLate ? lateRollback : askedRollback)(api, live, own));
  } catch (error) {
    if (!(error instanceof StatusError && refusals.includes(error.code))) throw error;
    if (isLate) return `it is not rolled back, as the API server refuses that: ${error.message}`;
    return write((live) => refusedRollback(live, error.message));
  }
}

/** Notes on the set of the current template that its rollout was complete. */
export async function recordCompletion({ deps, api, sets, ref, plan }: Step): Promise<void> {
  if (plan.completed === undefined) return;
  await update(deps.control, sets, { namespace: ref.namespace, ...plan.completed }, ({ metadata }) => {
    const revision = metadata.annotations?.[api.owner.keys.revision];
    return { metadata: { annotations: { [names.completed]: revision } } };
  });
}
