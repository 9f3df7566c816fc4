/**
 * Pause before the next attempt after a number of failures in a row, ms: 0.8 s, doubling up to 30 s, as client-go's
 * reflector. `random` in [0, 1) spreads it by a quarter, so that clients that failed together do not return together.
 */
export function backoffMs(failures: number, random: number): number {
  const exponent = Math.max(0, failures - 1);
  return Math.min(30_000, 800 * 2 ** exponent) * (0.75 + random / 2);
}
