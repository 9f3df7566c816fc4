/**
 * Which earlier template a deployment goes back to, because its spec asks for that or because a rollout is late. Pure.
 */
import type { OwnerApi } from '../dialect.ts';
import type { OwnerView } from '../model/owner.ts';
import { names, prefix } from '../names.ts';
import { copiedAnnotations } from './new-objects.ts';
import type { OwnerDeployment, OwnerSet } from './objects.ts';
import { revisionOf } from './revision.ts';
import { difference } from './settings.ts';
import { templateHash, templatesEqual, withoutHash } from './template.ts';

/** What becomes of a rollback. */
export interface Rollback {
  readonly kind: 'done' | 'revisionNotFound' | 'templateUnchanged' | 'refused';
  /** For people, in the words of MCM. */
  readonly note: string;
  /** Merge patch of the deployment. */
  readonly patch: object;
}

/**
 * The rollback that `spec.rollbackTo` asks for, as MCM does it: revision 0 is the last one before that of the template.
 * In any case the field is cleared. Template and annotations become those of the set; annotations of our own stay.
 * @param own the sets of the deployment
 */
export function askedRollback(api: OwnerApi, deployment: OwnerDeployment, own: readonly OwnerSet[]): Rollback {
  const { name } = deployment.metadata;
  const { template, rollbackTo } = deployment.spec ?? {};
  const asked = rollbackTo?.revision ?? 0;
  const isCurrent = (set: OwnerSet) => templatesEqual(api, set.spec?.template, template);
  const byRevision = own.toSorted((a, b) => revisionOf(api, b) - revisionOf(api, a));
  const wanted = (set: OwnerSet) => (asked === 0 ? !isCurrent(set) : revisionOf(api, set) === asked);
  const set = byRevision.filter((each) => revisionOf(api, each) > 0).find(wanted);
  const cleared = { spec: { rollbackTo: null } };
  if (set === undefined) {
    const note = asked === 0 ? 'Unable to find last revision.' : 'Unable to find the revision to rollback to.';
    return { kind: 'revisionNotFound', note, patch: cleared };
  }
  if (isCurrent(set)) {
    const note = `The rollback revision contains the same template as current deployment "${name}"`;
    return { kind: 'templateUnchanged', note, patch: cleared };
  }
  const note = `Rolled back deployment "${name}" to revision ${revisionOf(api, set)}`;
  const { metadata, spec } = toTemplateOf(api, deployment, set);
  return { kind: 'done', note, patch: { metadata, spec: { ...spec, ...cleared.spec } } };
}

/** What becomes of a rollback that is asked for and that the API server refuses for good: the field is cleared. */
export function refusedRollback({ metadata }: OwnerDeployment, message: string): Rollback {
  const note = `Unable to roll back deployment "${metadata.name}", as the API server refuses that: ${message}`;
  return { kind: 'refused', note, patch: { spec: { rollbackTo: null } } };
}

/**
 * The rollback of a rollout that is late, to the last revision whose rollout was complete; undefined: there is none,
 * the template is that of such a revision, or this template was rolled back before. So a rollback never follows another
 * one.
 */
export function lateRollback(
  api: OwnerApi,
  deployment: OwnerDeployment,
  own: readonly OwnerSet[],
): Rollback | undefined {
  const { template } = deployment.spec ?? {};
  const { [names.rolledBack]: before, [names.rollbackWhenLate]: isWanted } = deployment.metadata.annotations ?? {};
  const hash = templateHash(api, template);
  const completedAs = ({ metadata }: OwnerSet) => Number(metadata.annotations?.[names.completed]) || 0;
  const completed = own.filter((set) => completedAs(set) > 0);
  const [last] = completed.toSorted((a, b) => completedAs(b) - completedAs(a));
  const isCompleted = completed.some((set) => templatesEqual(api, set.spec?.template, template));
  // Sets have the annotation of their deployment, also where somebody has replaced all of the deployment's own.
  const isRepeated = before === hash || own.some(({ metadata }) => metadata.annotations?.[names.rolledBack] === hash);
  if (isWanted !== 'true' || isRepeated || last === undefined || isCompleted) return undefined;
  const { metadata, spec } = toTemplateOf(api, deployment, last);
  const annotations = { ...metadata.annotations, [names.rolledBack]: hash };
  const revision = revisionOf(api, last);
  const note = `Rolled back deployment "${deployment.metadata.name}" to revision ${revision}, the last that was complete: the rollout is late`;
  return { kind: 'done', note, patch: { metadata: { annotations }, spec } };
}

/**
 * The set whose rollout was late, if the template of the deployment is there because of that: its own is newer than
 * all others. undefined: a person has changed the template since, nothing was taken back, or the set was deleted.
 * @param own the sets of the deployment
 */
export function takenBackSet(
  api: OwnerApi,
  { metadata, spec }: OwnerDeployment,
  own: readonly OwnerSet[],
): OwnerSet | undefined {
  const hash = metadata.annotations?.[names.rolledBack];
  const isCurrent = (set: OwnerSet) => templatesEqual(api, set.spec?.template, spec?.template);
  const current = own.find(isCurrent);
  const others = own.filter((set) => !isCurrent(set));
  const [newest] = others.toSorted((a, b) => revisionOf(api, b) - revisionOf(api, a));
  if (current === undefined || newest === undefined || templateHash(api, newest.spec?.template) !== hash)
    return undefined;
  const wasUsed = current.metadata.annotations?.[api.owner.keys.revisionHistory] !== undefined;
  const isEarlier = revisionOf(api, current) < revisionOf(api, newest) || wasUsed;
  // A set with the annotation was used again after its rollback.
  const isRepeated = newest.metadata.annotations?.[names.rolledBack] === hash;
  return isEarlier && !isRepeated ? newest : undefined;
}

function toTemplateOf(api: OwnerApi, deployment: OwnerDeployment, set: OwnerSet) {
  const [before, after] = [deployment, set].map(({ metadata }) => {
    const copied = Object.entries(copiedAnnotations(api, metadata)).filter(([key]) => !key.startsWith(prefix));
    return Object.fromEntries(copied);
  });
  const { template = {} } = deployment.spec ?? {};
  const change = difference(template, withoutHash(api, set.spec?.template ?? {}));
  return {
    metadata: { annotations: { ...difference(before ?? {}, after ?? {}) } },
    spec: { ...(change && { template: change }) },
  };
}

/** What a view says of rollbacks. @param newSet the set of the template, if any */
export function rollbacksOf(
  { owner }: OwnerApi,
  { metadata, spec }: OwnerDeployment,
  newSet: OwnerSet | undefined,
): Pick<OwnerView, 'rollsBack' | 'rollsBackWhenLate' | 'lacksCompletion'> {
  const isLateWanted = metadata.annotations?.[names.rollbackWhenLate] === 'true';
  const { [names.completed]: completed, [owner.keys.revision]: revision } = newSet?.metadata.annotations ?? {};
  return {
    ...(spec?.rollbackTo !== undefined && spec.rollbackTo !== null && { rollsBack: true as const }),
    ...(isLateWanted && { rollsBackWhenLate: true as const }),
    ...(isLateWanted && revision !== undefined && completed !== revision && { lacksCompletion: true as const }),
  };
}

/** What is wrong with the annotation, with the fix; undefined when nothing is. */
export function problemOfRollback({ metadata }: OwnerDeployment): string | undefined {
  const value = metadata.annotations?.[names.rollbackWhenLate];
  if (value === undefined || value === 'true' || value === 'false') return undefined;
  return `metadata.annotations['${names.rollbackWhenLate}'] is '${value}': set it to true, or remove it`;
}
