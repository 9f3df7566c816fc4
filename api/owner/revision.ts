/** Revisions: which template of a deployment came when. As Kubernetes counts them. Pure. */
import type { OwnerApi } from '../dialect.ts';
import type { OwnerDeployment, OwnerSet } from './objects.ts';

/** Revision of a set that is newer than all of these. */
export function nextRevision(api: OwnerApi, sets: readonly OwnerSet[]): number {
  return 1 + Math.max(0, ...sets.map((set) => revisionOf(api, set)));
}

/** 0 for a set without a revision, or with one that is not a number. */
export function revisionOf({ owner }: OwnerApi, { metadata }: OwnerSet): number {
  return Number(metadata.annotations?.[owner.keys.revision]) || 0;
}

/**
 * Revision of the set of the current template once it is the newest. @param newSet undefined: it does not exist yet
 * @param own the sets of the deployment
 */
export function newestRevision(api: OwnerApi, newSet: OwnerSet | undefined, own: readonly OwnerSet[]): number {
  const next = nextRevision(
    api,
    own.filter((set) => set !== newSet),
  );
  return Math.max(next, newSet === undefined ? 0 : revisionOf(api, newSet));
}

/** Whether a set has the highest revision of its deployment. @param own the sets of the deployment */
export function isNewest(api: OwnerApi, newSet: OwnerSet, own: readonly OwnerSet[]): boolean {
  return withNewestRevision(api, newSet, own) === undefined;
}

/**
 * A patch that makes the new set the newest of its deployment, which it is not when its template is used again;
 * undefined when it is. Its former revision is added to its history.
 * @param own the sets of the deployment
 */
export function withNewestRevision(api: OwnerApi, newSet: OwnerSet, own: readonly OwnerSet[]): object | undefined {
  const { keys } = api.owner;
  const others = own.filter(({ metadata }) => metadata.uid !== newSet.metadata.uid);
  const next = nextRevision(api, others);
  const present = revisionOf(api, newSet);
  if (present >= next || next === 1) return undefined;
  const recorded = newSet.metadata.annotations?.[keys.revisionHistory];
  const history = [recorded, present > 0 ? String(present) : undefined].filter(Boolean).join(',');
  const changed = { [keys.revision]: String(next), ...(history && { [keys.revisionHistory]: history }) };
  return { metadata: { annotations: changed } };
}

/** A patch that gives the deployment the revision of its new set; undefined when it has it. */
export function withRevision(
  { owner }: OwnerApi,
  { metadata }: OwnerDeployment,
  newSet: OwnerSet | undefined,
): object | undefined {
  const key = owner.keys.revision;
  const revision = newSet?.metadata.annotations?.[key];
  if (revision === undefined || metadata.annotations?.[key] === revision) return undefined;
  return { metadata: { annotations: { [key]: revision } } };
}
