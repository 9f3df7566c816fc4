/** Which pods with volumes may be evicted, and which volumes are on their way to other nodes. Pure. */
import type { Volume } from './volumes.ts';

/** How long a drain waits for volumes, ms. */
export interface VolumeTimeouts {
  /** From the end of a pod's grace period until its volumes are detached. */
  readonly detachMs: number;
  /** From then until they are attached to another node. */
  readonly reattachMs: number;
}

/** How a drain treats pods with volumes. */
export interface VolumePolicy extends VolumeTimeouts {
  /** Whether they leave one by one, as with MCM, however much room there is. */
  readonly isSerial: boolean;
}

/** A pod on the node that claims volumes. */
export interface Claimant {
  readonly uid: string;
  /** `<namespace>/<name>`. */
  readonly name: string;
  /** Of the pod's spec; 0 without one. */
  readonly priority: number;
  readonly graceMs: number;
  /** Its volumes in the machine's cloud. */
  readonly volumes: readonly Volume[];
  /** When its eviction was asked for, or it was first seen ending, ms since the epoch; left out while it runs. */
  readonly leavingSinceMs?: number;
}

/** What is known of the volumes of the machine's cloud at an instant. */
export interface VolumeFacts {
  readonly nowMs: number;
  readonly claimants: readonly Claimant[];
  /** Those that are attached to the node. */
  readonly attached: readonly Volume[];
  isAttachedElsewhere(volume: string): boolean;
}

/** A volume on its way to another node. */
export interface Move {
  readonly volume: Volume;
  readonly waitsFor: 'pod' | 'detach' | 'reattach';
  /** When it is not waited for any more, ms since the epoch. */
  readonly untilMs: number;
}

/** All moves of the last look by volume, also those that are not waited for any more. */
export type Moves = ReadonlyMap<string, Move>;

/**
 * The moves at another look. A volume that is attached to the node moves from when its pod leaves until it is detached
 * and attached to another node.
 * @param shared volumes of several pods, which are not waited for, as with MCM
 */
export function nextMoves(
  before: Moves,
  { nowMs, claimants, attached, isAttachedElsewhere }: VolumeFacts,
  shared: ReadonlySet<string>,
  timeouts: VolumeTimeouts,
): Moves {
  const users = new Map(claimants.flatMap((pod) => pod.volumes.map(({ name }) => [name, pod] as const)));
  const known = [...before.values()].map(({ volume }) => volume);
  const volumes = [...known, ...attached, ...claimants.flatMap((pod) => pod.volumes)];
  const moves = new Map<string, Move>();
  for (const volume of volumes) {
    const { name } = volume;
    const last = before.get(name);
    const user = users.get(name);
    if (shared.has(name) || (user !== undefined && user.leavingSinceMs === undefined)) continue;
    const isHere = attached.some((each) => each.name === name);
    if (isHere && user !== undefined) {
      moves.set(name, { volume, waitsFor: 'pod', untilMs: endOfLeaving(user, timeouts) });
    } else if (isHere) {
      const isNew = last === undefined || last.waitsFor === 'reattach';
      moves.set(name, { volume, waitsFor: 'detach', untilMs: isNew ? nowMs + timeouts.detachMs : last.untilMs });
    } else if (last !== undefined && !isAttachedElsewhere(name)) {
      const isNew = last.waitsFor !== 'reattach';
      moves.set(name, { volume, waitsFor: 'reattach', untilMs: isNew ? nowMs + timeouts.reattachMs : last.untilMs });
    }
  }
  return moves;
}

/**
 * When a pod that leaves is not waited for any more before the next, ms since the epoch. It may be on the node longer.
 */
export function endOfLeaving(
  { leavingSinceMs = 0, graceMs }: Pick<Claimant, 'leavingSinceMs' | 'graceMs'>,
  { detachMs }: VolumeTimeouts,
): number {
  return leavingSinceMs + graceMs + detachMs;
}

/** The names of volumes that several pods use. */
export function sharedVolumes(claimants: readonly Claimant[]): readonly string[] {
  const names = claimants.flatMap(({ volumes }) => volumes.map(({ name }) => name));
  return names.filter((name, index) => names.indexOf(name) !== index);
}

export interface Room extends Pick<VolumePolicy, 'isSerial'> {
  /** How many more volumes of a CSI driver can be attached to other nodes. */
  beside(driver: string): number;
}

/**
 * The pods that may be evicted now, in the order of their priorities: as many as other nodes have room for, of a driver
 * with too little room one by one, and pods that share a volume one after the other. No pod with volumes of the same
 * driver overtakes one that has to wait.
 * @param due pods that run and whose eviction no budget has refused a moment ago
 * @param leaving pods that are on their way
 * @param moving volumes that are
 */
export function mayLeave(
  due: readonly Claimant[],
  leaving: readonly Claimant[],
  moving: readonly Volume[],
  { beside, isSerial }: Room,
): readonly Claimant[] {
  const inOrder = [...due].sort((a, b) => b.priority - a.priority || (a.name < b.name ? -1 : 1));
  if (isSerial) return leaving.length === 0 && moving.length === 0 ? inOrder.slice(0, 1) : [];
  const taken = new Set(leaving.flatMap(({ volumes }) => volumes.map(({ name }) => name)));
  const counts = new Map<string, number>();
  const take = ({ name, driver }: Volume) => {
    taken.add(name);
    counts.set(driver, (counts.get(driver) ?? 0) + 1);
  };
  moving.forEach(take);
  const closed = new Set<string>();
  const all = new Set(due.flatMap(({ volumes }) => volumes.map(({ driver }) => driver)));
  const rooms = new Map([...all].map((driver) => [driver, beside(driver)]));
  return inOrder.filter(({ volumes }) => {
    const drivers = [...new Set(volumes.map(({ driver }) => driver))];
    const fits = (driver: string) => {
      const present = counts.get(driver) ?? 0;
      const more = volumes.filter((volume) => volume.driver === driver).length;
      return !closed.has(driver) && (present === 0 || present + more <= (rooms.get(driver) ?? 0));
    };
    const isAllowed = drivers.every(fits) && !volumes.some(({ name }) => taken.has(name));
    if (isAllowed) volumes.forEach(take);
    else for (const driver of drivers) closed.add(driver);
    return isAllowed;
  });
}
