// Set-up and teardown run in the same process, but jest loads the modules of each afresh.
const shared = globalThis as typeof globalThis & { millwrightTeardown?: (() => Promise<void>)[] };

/** Has the teardown call this, what was added last first. */
export function atEnd(end: () => Promise<void>): void {
  shared.millwrightTeardown ??= [];
  shared.millwrightTeardown.push(end);
}

export async function endAll(): Promise<void> {
  for (const end of (shared.millwrightTeardown ?? []).toReversed()) await end();
}
