/** What the use of a limit adds up to, and how people are told: pure. Workflow code imports this file. */
import type { Limit, LimitReading, Limits, LimitUse, LimitWait } from '../model/limits.ts';

/** The lowest value of each limit. */
export function lowestOf(all: readonly Limits[]): Limits {
  const lowest = (limit: Limit) => Math.min(...all.map((limits) => limits[limit] ?? Number.POSITIVE_INFINITY));
  const [surge, provisioning] = [lowest('surge'), lowest('provisioning')];
  return { ...(Number.isFinite(surge) && { surge }), ...(Number.isFinite(provisioning) && { provisioning }) };
}

/** Surge machines of an owner that creates `more`. */
export function surgeOf({ surplus }: LimitUse, more: number): number {
  return Math.max(0, surplus + more);
}

/** What an owner uses of a limit. @param more machines that it may create and that do not exist */
export function useOf(limit: Limit, use: LimitUse, more: number): number {
  return limit === 'surge' ? surgeOf(use, more) : use.provisioning + more;
}

/** The limit that leaves no room for one machine more of an owner, by what exists; undefined: there is room. */
export function waitOf(reading: LimitReading, own: LimitUse): LimitWait | undefined {
  const none = () => 0;
  const isFull = (limit: Limit) => {
    const used = reading.uses.reduce((sum, use) => sum + useOf(limit, use, 0), 0);
    return used + useOf(limit, own, 1) - useOf(limit, own, 0) > (reading.limits[limit] ?? Number.POSITIVE_INFINITY);
  };
  const limit = (['provisioning', 'surge'] as const).find(isFull);
  return limit && toLimitWait(limit, reading, own.uid, none);
}

/** @param moreOf machines that an owner may create and that do not exist */
export function toLimitWait(
  limit: Limit,
  { limits, uses }: LimitReading,
  uid: string,
  moreOf: (use: LimitUse) => number,
): LimitWait {
  const holders = uses
    .map((use) => ({ name: use.name, uid: use.uid, count: useOf(limit, use, moreOf(use)) }))
    .filter(({ count }) => count > 0)
    .toSorted((a, b) => b.count - a.count);
  return {
    limit,
    most: limits[limit] ?? 0,
    used: holders.reduce((sum, { count }) => sum + count, 0),
    holders: holders.slice(0, 10).map(({ name, count }) => ({ name, count })),
    holderCount: holders.length,
    isOwn: holders.some((holder) => holder.uid === uid),
  };
}

const machinesOf: Record<Limit, string> = {
  surge: 'surge machines',
  provisioning: 'machines that do not run yet',
};

/** What somebody waits for: which limit it is, how far it is used, and by whom. */
export function limitText({ limit, most, used, holders, holderCount }: LimitWait): string {
  const more = holderCount - holders.length;
  const names = [...holders.map(({ name, count }) => `${name} ${count}`), ...(more > 0 ? [`${more} more`] : [])];
  const users = names.length === 0 ? '' : `: ${names.join(', ')}`;
  return `the namespace's limit of ${machinesOf[limit]}, ${used} of ${most} used${users}`;
}
