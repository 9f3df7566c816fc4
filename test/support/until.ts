import { setTimeout as sleep } from 'node:timers/promises';

/** Waits until a check answers something, by default for 60 s. On the way out of time it says what it last saw. */
export async function until<T>(
  what: string,
  check: () => Promise<T | undefined>,
  options: { readonly timeoutMs?: number; readonly describe?: () => Promise<string> } = {},
): Promise<T> {
  const deadline = Date.now() + (options.timeoutMs ?? 60_000);
  for (;;) {
    const answer = await check();
    if (answer !== undefined) return answer;
    if (Date.now() > deadline) throw new Error(`waited in vain until ${what}\n${await options.describe?.()}`);
    await sleep(100);
  }
}
