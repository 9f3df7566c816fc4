/**
 * Attempts in a row to make machines of a set of which no Node has joined: each is followed by a longer pause. The
 * annotation of the set records them, so that a run that takes over, or a restored Temporal, goes on with them. Pure.
 */
import type { OwnerApi, OwnerApiAt } from '../dialect.ts';
import { hasJoined } from '../model/machine.ts';
import type { FailedAttempts, OwnerView, SetView } from '../model/owner.ts';
import { names } from '../names.ts';
import type { KubeObject } from '../objects.ts';
import { toKubernetesTime } from '../time.ts';
import type { OwnerDeployment, OwnerSet } from './objects.ts';
import { templateHash } from './template.ts';

/** A machine that has failed without having joined. */
export interface FailedMachine {
  /** Its creationTimestamp. */
  readonly createdAt: string;
  readonly reason: string;
}

const firstPauseSeconds = 10;
const maxReasonLength = 120;

/** Why a machine that is to be replaced has never joined; undefined: it has. */
export function failureToJoin({ owner }: OwnerApi, machine: KubeObject): FailedMachine | undefined {
  if (!owner.machines.failedToJoin(machine)) return undefined;
  const { text } = owner.machines.operationOf(machine);
  const reason = text.length > maxReasonLength ? `${text.slice(0, maxReasonLength - 1)}…` : text;
  return { createdAt: machine.metadata.creationTimestamp, reason };
}

/** The annotation of a set, for a merge patch; null: it has none. */
export function attemptsAnnotation(attempts: FailedAttempts | null): Readonly<Record<string, string | null>> {
  return { [names.failedAttempts]: attempts && JSON.stringify(attempts) };
}

/** What a set records of attempts for its template and these replicas of its owner; undefined: nothing that counts. */
export function recordedAttempts(api: OwnerApi, set: OwnerSet, replicas: number): FailedAttempts | undefined {
  const attempts = parse(set);
  return attempts?.about === aboutOf(api, set, replicas) ? attempts : undefined;
}

/** Whether a set waits before its next attempt, if nothing has changed: nothing is being created in it. */
export function isBetweenAttempts(set: OwnerSet): boolean {
  return parse(set)?.until !== undefined;
}

/** The record when the next attempt begins; undefined: it stays as it is. */
export function nextAttempt(set: OwnerSet): FailedAttempts | undefined {
  const recorded = parse(set);
  if (recorded?.until === undefined) return undefined;
  const { until: _, ...attempts } = recorded;
  return attempts;
}

/**
 * The set with what the run of its owner knows of its attempts: a webhook, a policy or a controller may have removed the
 * annotation, or put an older one back. A newer one counts: the answer of a step was lost, or Temporal was restored.
 */
export function withKnownAttempts<T extends OwnerSet>(set: T, known: FailedAttempts | undefined): T {
  if (known === undefined) return set;
  const recorded = parse(set);
  if (recorded !== undefined && isNewer(recorded, known)) return set;
  const { annotations } = set.metadata;
  const text = JSON.stringify(known);
  return { ...set, metadata: { ...set.metadata, annotations: { ...annotations, [names.failedAttempts]: text } } };
}

/** Attempts in a row begin with the same machine. Each is recorded when it has failed, and when the next one begins. */
function isNewer(one: FailedAttempts, other: FailedAttempts): boolean {
  if (one.since !== other.since) return one.since > other.since;
  if (one.count !== other.count) return one.count > other.count;
  return one.until === undefined && other.until !== undefined;
}

/**
 * The record after machines have failed: one attempt more, however many machines it was. undefined: this attempt is
 * recorded.
 * @param creationSeconds most of the pause
 */
export function afterFailures(
  api: OwnerApiAt,
  set: OwnerSet,
  replicas: number,
  failures: readonly FailedMachine[],
  creationSeconds: number,
): FailedAttempts | undefined {
  const before = recordedAttempts(api, set, replicas);
  const [first] = failures.toSorted((a, b) => (a.createdAt < b.createdAt ? -1 : 1));
  if (first === undefined || before?.until !== undefined) return undefined;
  const count = (before?.count ?? 0) + 1;
  const pauseSeconds = Math.min(firstPauseSeconds * 2 ** count, creationSeconds);
  return {
    count,
    since: before?.since ?? first.createdAt,
    until: toKubernetesTime(new Date(api.nowMs + pauseSeconds * 1_000)),
    reason: first.reason,
    about: aboutOf(api, set, replicas),
  };
}

/**
 * The part of a view of a set.
 * @param owner its deployment, or else the set itself
 * @param given its machines, and whether it has the current template: an old one that is to have none starts anew
 */
export function attemptsIn(
  api: OwnerApiAt,
  owner: OwnerDeployment | OwnerSet,
  set: OwnerSet,
  { own, isNew }: { readonly own: readonly KubeObject[]; readonly isNew: boolean },
): Pick<SetView, 'failedAttempts' | 'hasOldAttempts'> {
  if (set.metadata.annotations?.[names.failedAttempts] === undefined) return {};
  const attempts = isNew || set.spec?.replicas ? recordedAttempts(api, set, owner.spec?.replicas ?? 0) : undefined;
  if (attempts === undefined || own.some((machine) => hasJoinedSince(api, machine, attempts.since)))
    return { hasOldAttempts: true };
  const { count, reason, until } = attempts;
  const isPaused = until !== undefined && api.nowMs < Date.parse(until);
  return { failedAttempts: { count, reason, ...(until && { until }), ...(isPaused && { isPaused }) } };
}

/** The view for a step that somebody has asked for: no set waits. */
export function withoutPauses(view: OwnerView): OwnerView {
  const sets = view.sets.map(({ failedAttempts, ...set }) => {
    if (failedAttempts === undefined) return set;
    const { isPaused: _, ...attempts } = failedAttempts;
    return { ...set, failedAttempts: attempts };
  });
  return { ...view, sets };
}

/** When the first set may have machines again, ms since the epoch; Infinity: none waits. */
export function nextAttemptMs({ sets }: OwnerView): number {
  const ends = sets.flatMap(({ failedAttempts }) =>
    failedAttempts?.isPaused ? Date.parse(failedAttempts.until ?? '') : [],
  );
  return Math.min(...ends);
}

/** What people read of a set that waits; undefined: it does not. */
export function attemptsText(
  set: string,
  attempts: Pick<FailedAttempts, 'count' | 'reason' | 'until'>,
): string | undefined {
  if (attempts.until === undefined) return undefined;
  const row = attempts.count === 1 ? 'the last attempt' : `the last ${attempts.count} attempts`;
  return `MachineSet ${set} gets no machine before ${attempts.until}, as no Node has joined in ${row}: ${attempts.reason}`;
}

function hasJoinedSince({ owner }: OwnerApi, machine: KubeObject, since: string): boolean {
  return hasJoined(owner.machines.stageOf(machine)) && machine.metadata.creationTimestamp >= since;
}

function aboutOf(api: OwnerApi, set: OwnerSet, replicas: number): string {
  return `${templateHash(api, set.spec?.template)}/${replicas}`;
}

function parse({ metadata }: OwnerSet): FailedAttempts | undefined {
  const text = metadata.annotations?.[names.failedAttempts];
  if (text === undefined) return undefined;
  try {
    const { count, since, until, reason, about }: Partial<FailedAttempts> = Object(JSON.parse(text));
    const isValid = typeof count === 'number' && [since, reason, about].every((each) => typeof each === 'string');
    if (!isValid || since === undefined || reason === undefined || about === undefined) return undefined;
    return { count, since, reason, about, ...(typeof until === 'string' && { until }) };
  } catch {
    return undefined;
  }
}
