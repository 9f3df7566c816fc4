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
