/** How tests wait: for a condition, never for a time. */
import { setTimeout as sleep } from 'node:timers/promises';

interface UntilOptions {
  /** Default: a minute. */
  readonly timeoutMs?: number;
  /** Asked at the end of a wait in vain, for the message. */
  readonly describe?: () => string | Promise<string>;
}

/**
 * Waits until a check answers neither false nor undefined, and returns that. A check that throws has not answered; the
 * last error is the cause of the one that ends the wait. Pauses grow to 200 ms: many checks make a server work.
 */
export async function until<T>(
  what: string,
  check: () => T | Promise<T>,
  { timeoutMs = 60_000, describe }: UntilOptions = {},
): Promise<Exclude<T, false | undefined>> {
  const since = performance.now();
  let cause: unknown;
  for (;;) {
    try {
      const answer = await check();
      if (answer !== false && answer !== undefined) return answer as Exclude<T, false | undefined>;
    } catch (error) {
      cause = error;
    }
    const elapsedMs = performance.now() - since;
    if (elapsedMs > timeoutMs) break;
    await sleep(Math.min(200, Math.max(20, elapsedMs / 10)));
  }
  throw new Error(`waited ${timeoutMs} ms in vain until ${what}\n${(await describe?.()) ?? ''}`, { cause });
}

/** `until` for a condition that says itself what it is about. */
export async function eventually(condition: () => boolean | Promise<boolean>, timeoutMs = 20_000): Promise<void> {
  await until(String(condition), condition, { timeoutMs });
}
