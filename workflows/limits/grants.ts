/**
 * Who may create machines where a namespace limits them: a pure decision over what was read.
 *
 * A set records the names of machines before they are claimed and created. So of an owner that nothing is known of,
 * after the workflow was lost, every recorded name counts as granted until the owner claims again: no grant is
 * forgotten.
 */
import type { Limit, LimitClaim, LimitGrant, LimitReading, LimitUse } from '../../api/model/limits.ts';
import { toLimitWait, useOf } from '../../api/owner/limit-use.ts';
import type { LimitState, Waiter } from './messages.ts';

export const emptyState: LimitState = { granted: {}, waiting: [] };

/** An owner that was told that there is room, and does not claim it within this time, ms, loses its turn. */
export const turnMs = 30_000;

/**
 * How long names count that their owner does not claim again, ms: it may be frozen, or its workflow paused. The step
 * that claimed them takes two minutes at most, and a worker learns within 15 s that nobody waits for it.
 */
export const grantMs = 3 * 60_000;

const limits = ['provisioning', 'surge'] as const satisfies readonly Limit[];

export interface Decision {
  readonly state: LimitState;
  /** For each claim, in the order of the claims. */
  readonly grants: readonly LimitGrant[];
  /** Those for which there is room now, or no limit any more. They are to be told. */
  readonly woken: readonly Waiter[];
}

/**
 * Decides on claims, and on who is told that there is room. An owner waits in line. In its turn it gets one machine, or
 * its share if there is more room than owners that wait, and goes to the end of the line for the rest.
 * @param reading made after all of the claims
 */
export function decide(
  before: LimitState,
  reading: LimitReading,
  claims: readonly LimitClaim[],
  nowMs: number,
): Decision {
  const uses = new Map(reading.uses.map((use) => [use.uid, use]));
  // The steps before that of a claim are over: what they were granted and did not create is free again.
  const known = Object.entries(before.granted).filter(([uid]) => uses.has(uid));
  const granted = new Map([...known, ...claims.map(({ uid }) => [uid, []] as const)]);
  const room = roomIn(reading, granted);
  const ownerOf = new Map(reading.uses.flatMap(({ uid, pending }) => pending.map((name) => [name, uid])));
  const byUid = new Map(claims.map((claim) => [claim.uid, claim]));
  const line = toLine(before.waiting, claims, uses, nowMs);
  const grants = new Map<string, LimitGrant>();
  const rest: Waiter[] = [];
  const served: Waiter[] = [];
  for (const [i, waiter] of line.entries()) {
    const use = uses.get(waiter.uid);
    const claim = byUid.get(waiter.uid);
    if (claim === undefined) {
      // It has not claimed yet: who comes after it leaves it one.
      if (use !== undefined) takeOne(room, use, heldBy(use, granted));
      rest.push(waiter);
      continue;
    }
    if (use === undefined) continue; // it is gone, and gets nothing
    const wanted = claim.names.filter((name) => use.pending.includes(name));
    const count = mostFor(use, wanted.length, room, line.length - i);
    take(room, use, 0, count);
    granted.set(waiter.uid, wanted.slice(0, count));
    const refused = new Set(wanted.slice(count));
    // A name that is not pending costs nothing: its machine exists, or another creation was recorded since. One of a
    // set that has another owner by now is that owner's to claim.
    const isGranted = (name: string) => !refused.has(name) && (ownerOf.get(name) ?? waiter.uid) === waiter.uid;
    grants.set(waiter.uid, { granted: claim.names.filter(isGranted) });
    if (refused.size > 0) (count > 0 ? served : rest).push(waiter);
  }
  const moreOf = (use: LimitUse) => heldBy(use, granted);
  const sinceMs = ({ uid }: LimitUse) => (byUid.has(uid) ? nowMs : (before.heldSinceMs?.[uid] ?? nowMs));
  const holders = reading.uses.filter((use) => moreOf(use) > 0);
  const state = {
    granted: Object.fromEntries(granted),
    waiting: [...rest, ...served],
    heldSinceMs: Object.fromEntries(holders.map((use) => [use.uid, sinceMs(use)])),
  };
  const { waiting, woken } = wake(state, uses, roomIn(reading, granted), moreOf, nowMs);
  return {
    state: { ...state, waiting },
    grants: claims.map((claim) => {
      const grant = grants.get(claim.uid) ?? { granted: [] };
      if (grant.granted.length === claim.names.length) return grant;
      const limit = tightest(reading, granted, uses.get(claim.uid));
      return { ...grant, wait: toLimitWait(limit, reading, claim.uid, moreOf) };
    }),
    woken,
  };
}

/** Owners whose recorded names count although nobody knows whether they were granted. They are told to claim again. */
export function unknownHolders({ granted }: LimitState, { uses }: LimitReading): readonly LimitUse[] {
  return uses.filter((use) => use.limits !== undefined && granted[use.uid] === undefined && heldBy(use, new Map()) > 0);
}

/** UIDs of the owners whose names have counted for so long that no step can create them any more. */
export function endedGrants({ heldSinceMs = {} }: LimitState, nowMs: number): string[] {
  return Object.entries(heldSinceMs).flatMap(([uid, sinceMs]) => (nowMs >= sinceMs + grantMs ? [uid] : []));
}

/** The state without what these owners were granted: their names count again when they claim them. */
export function withoutGrants(state: LimitState, uids: readonly string[]): LimitState {
  return { ...state, granted: { ...state.granted, ...Object.fromEntries(uids.map((uid) => [uid, []])) } };
}

/** Machines that an owner may create and that do not exist. */
export function heldBy({ uid, pending, wanted }: LimitUse, granted: ReadonlyMap<string, readonly string[]>): number {
  const names = granted.get(uid);
  const held = names === undefined ? pending : names.filter((name) => pending.includes(name));
  return Math.min(held.length, wanted);
}

type Room = Record<Limit, number>;

/** How many machines more there may be of each limit; below 0: there are too many. */
export function roomIn(reading: LimitReading, granted: ReadonlyMap<string, readonly string[]>): Room {
  const roomOf = (limit: Limit) => {
    const used = reading.uses.reduce((sum, use) => sum + useOf(limit, use, heldBy(use, granted)), 0);
    return (reading.limits[limit] ?? Number.POSITIVE_INFINITY) - used;
  };
  return { surge: roomOf('surge'), provisioning: roomOf('provisioning') };
}

/** Who waits, in order, and then who claims and does not wait yet. Who does not want anything any more is left out. */
function toLine(
  waiting: readonly Waiter[],
  claims: readonly LimitClaim[],
  uses: ReadonlyMap<string, LimitUse>,
  nowMs: number,
): Waiter[] {
  const claiming = new Set(claims.map(({ uid }) => uid));
  const isThere = ({ uid, wokenMs = nowMs }: Waiter) =>
    claiming.has(uid) || ((uses.get(uid)?.wanted ?? 0) > 0 && nowMs < wokenMs + turnMs);
  const line = waiting.filter(isThere).map(({ wokenMs, ...waiter }) => ({
    ...waiter,
    ...(wokenMs !== undefined && !claiming.has(waiter.uid) && { wokenMs }),
  }));
  const inLine = new Set(line.map(({ uid }) => uid));
  const others = [...new Map(claims.map((claim) => [claim.uid, claim])).values()];
  return [
    ...line,
    ...others.filter(({ uid }) => !inLine.has(uid)).map(({ kind, name, uid }) => ({ kind, name, uid, sinceMs: nowMs })),
  ];
}

/** Marks those at the head of the line for which there is room, besides those that were told before. */
function wake(
  { waiting }: LimitState,
  uses: ReadonlyMap<string, LimitUse>,
  room: Room,
  moreOf: (use: LimitUse) => number,
  nowMs: number,
): Pick<Decision, 'woken'> & { waiting: Waiter[] } {
  const woken: Waiter[] = [];
  const after = waiting.flatMap((waiter) => {
    const use = uses.get(waiter.uid);
    if (use === undefined) return [];
    if (use.limits === undefined) {
      woken.push(waiter); // it takes part no more, and need not wait
      return [];
    }
    if (!takeOne(room, use, moreOf(use))) return [waiter];
    if (waiter.wokenMs !== undefined) return [waiter];
    woken.push(waiter);
    return [{ ...waiter, wokenMs: nowMs }];
  });
  return { waiting: after, woken };
}

/** How many of `wanted` machines an owner may create. @param shares how many share the room, itself included */
function mostFor(use: LimitUse, wanted: number, room: Room, shares: number): number {
  const share = (limit: Limit) => Math.min(room[limit], Math.max(1, Math.floor(room[limit] / shares)));
  let count = 0;
  while (count < wanted && limits.every((limit) => cost(limit, use, 0, count + 1) <= share(limit))) count++;
  return count;
}

/** Takes what one machine more needs, if there is room for it. */
function takeOne(room: Room, use: LimitUse, held: number): boolean {
  const isThere = limits.every((limit) => cost(limit, use, held, 1) <= room[limit]);
  if (isThere) take(room, use, held, 1);
  return isThere;
}

function take(room: Room, use: LimitUse, held: number, count: number): void {
  for (const limit of limits) room[limit] -= cost(limit, use, held, count);
}

/** What `count` machines more take of a limit. @param held machines that the owner may create already */
function cost(limit: Limit, use: LimitUse, held: number, count: number): number {
  return useOf(limit, use, held + count) - useOf(limit, use, held);
}

/** The limit that keeps an owner from its next machine. */
function tightest(reading: LimitReading, granted: ReadonlyMap<string, readonly string[]>, use?: LimitUse): Limit {
  if (use === undefined) return 'provisioning';
  const room = roomIn(reading, granted);
  const left = (limit: Limit) => room[limit] - cost(limit, use, heldBy(use, granted), 1);
  return left('surge') < left('provisioning') ? 'surge' : 'provisioning';
}
