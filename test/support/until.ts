/** How tests wait: for a condition, never for a time. */
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect, stripVTControlCharacters } from 'node:util';

interface UntilOptions {
  /** Default: two minutes. */
  readonly timeoutMs?: number | undefined;
  /** Asked when the wait has failed: what it returns is the end of the message. */
  readonly describe?: () => string | Promise<string>;
}

/** Notes what a check has seen, for the message of a wait that fails. Returns it. */
type See = <V>(seen: V) => V;

/**
 * Calls a check again and again until it returns something other than false and undefined, and returns that. A check
 * that throws is called again, too. A wait that fails throws an error that says what the check has seen last: its
 * error, what it gave to `see`, or else what it returned. The last error of the check is its `cause`. Checks make
 * servers work, so the pauses grow: the longer of a quarter of the time since the start, at most 1 s, and twice the
 * time of the check, at most 2 s.
 */
export async function until<T>(
  what: string,
  check: (see: See) => T | Promise<T>,
  { timeoutMs = 120_000, describe }: UntilOptions = {},
): Promise<Exclude<T, false | undefined>> {
  const since = performance.now();
  let seen: unknown;
  let cause: unknown;
  for (;;) {
    let isNoted = false;
    const checkedAt = performance.now();
    const see: See = (value) => {
      seen = value;
      isNoted = true;
      return value;
    };
    try {
      const answer = await check(see);
      if (answer !== false && answer !== undefined) return answer as Exclude<T, false | undefined>;
      if (!isNoted) seen = answer;
    } catch (error) {
      seen = cause = error;
    }
    const now = performance.now();
    if (now - since > timeoutMs) break;
    await sleep(Math.max(20, Math.min(1_000, (now - since) / 4), Math.min(2_000, 2 * (now - checkedAt))));
  }
  const seconds = ((performance.now() - since) / 1_000).toFixed(1);
  const lines = [`waited ${seconds} s in vain until ${what}`, seenText(seen)];
  if (describe) lines.push(await describeOrNot(describe));
  throw new Error(lines.join('\n'), { cause });
}

/** What cannot be described any more must not hide what was waited for. */
async function describeOrNot(describe: () => string | Promise<string>): Promise<string> {
  try {
    return await describe();
  } catch (error) {
    return `(no more is known: ${String(error)})`;
  }
}

/**
 * What a check has seen last, for people: a list of objects has thousands of characters, and the status of one comes
 * last.
 */
export function seenText(seen: unknown): string {
  const text = seen instanceof Error ? stripVTControlCharacters(seen.message) : inspect(seen, { depth: 6 });
  const short = text.length > 2_000 ? `${text.slice(0, 1_000)} … ${text.slice(-1_000)}` : text;
  return `seen last: ${short}`;
}
