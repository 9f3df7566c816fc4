/**
 * Pause before the next try after so many failures in a row: 0.8 s, doubling up to 30 s, as client-go's reflector.
 * `random` in [0, 1) spreads it by a quarter to either side, so that clients that failed together come back apart.
 */
export function backoffMs(failures: number, random: number): number {
  const exponent = Math.max(0, failures - 1);
  return Math.min(30_000, 800 * 2 ** exponent) * (0.75 + random / 2);
}
