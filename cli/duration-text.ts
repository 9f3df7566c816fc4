/** Units of a duration, s. */
const units = [
  ['d', 86_400],
  ['h', 3_600],
  ['min', 60],
  ['s', 1],
] as const;

/** A duration by its two largest units, `2 d 3 h`; below 10 s with a tenth, `0.1 s`. */
export function durationText(ms: number): string {
  if (ms < 9_950) return `${(Math.max(ms, 0) / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  const first = units.findIndex(([, size]) => seconds >= size);
  const parts = units.slice(first, first + 2).map(([unit, size], i) => {
    const whole = Math.floor((i === 0 ? seconds : seconds % units[first]![1]) / size);
    return whole > 0 ? [`${whole} ${unit}`] : [];
  });
  return parts.flat().join(' ');
}

/** When something began, `for 8 min (since 16:58:36Z)`. @param time RFC 3339 @param nowMs ms since the epoch */
export function sinceText(time: string, nowMs = Date.now()): string {
  return `for ${durationText(nowMs - Date.parse(time))} (since ${clockText(time, nowMs)})`;
}

/** When something is or was, `in 8 min (16:58:36Z)` or `8 min ago (16:58:36Z)`. Parameters as of `sinceText`. */
export function atText(time: string, nowMs = Date.now()): string {
  const aheadMs = Date.parse(time) - nowMs;
  const distance = durationText(Math.abs(aheadMs));
  return `${aheadMs > 0 ? `in ${distance}` : `${distance} ago`} (${clockText(time, nowMs)})`;
}

/** In UTC and whole seconds, with the day where it is not today's. */
function clockText(time: string, nowMs: number): string {
  const [day, clock] = new Date(time).toISOString().split(/[T.]/);
  return `${new Date(nowMs).toISOString().startsWith(`${day}`) ? '' : `${day} `}${clock}Z`;
}

/** A time in UTC without its fraction of a second. @param time RFC 3339 in UTC */
export function secondsOf(time: string): string {
  return `${time.slice(0, 19)}Z`;
}

/** How long something took, `34 s`, or `41 s so far` where it has no end. Times are RFC 3339. */
export function tookText(of: { readonly start: string; readonly end?: string | undefined }, nowMs: number): string {
  const ms = (of.end === undefined ? nowMs : Date.parse(of.end)) - Date.parse(of.start);
  return `${durationText(ms)}${of.end === undefined ? ' so far' : ''}`;
}
