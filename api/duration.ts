/** Go's durations, as `metav1.Duration` has them on the wire. No zod here: workflow code imports this file. */

/** What Go's time.ParseDuration accepts, in the syntax that RE2 and JavaScript share. */
export const durationPattern = '^[-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$';

const nanoseconds: Readonly<Record<string, number>> = {
  ns: 1,
  us: 1e3,
  µs: 1e3,
  μs: 1e3,
  ms: 1e6,
  s: 1e9,
  m: 60e9,
  h: 3600e9,
};

/**
 * Seconds of a Go duration: '1h30m' is 5400, '500ms' is 0.5, '-5m' is -300. Understands what Go's time.ParseDuration
 * does. Throws an Error that names the value for anything else, an empty string included.
 */
export function parseDuration(text: string): number {
  if (!new RegExp(durationPattern).test(text)) {
    throw new Error(
      `duration '${text}' is not valid: write numbers with units h, m, s, ms, us or ns, such as 1h30m or 90s`,
    );
  }
  let total = 0;
  for (const [, amount, unit] of text.matchAll(/([0-9.]+)([a-zµμ]+)/g)) {
    total += Number(amount) * (nanoseconds[unit ?? ''] ?? 0);
  }
  return (text.startsWith('-') ? -total : total) / 1e9;
}

/** Whether two texts are the same Go duration, as `20m` and `20m0s` are. What is no duration is compared as text. */
export function sameDuration(a: string, b: string): boolean {
  const areDurations = [a, b].every((text) => new RegExp(durationPattern).test(text));
  return a === b || (areDurations && parseDuration(a) === parseDuration(b));
}
