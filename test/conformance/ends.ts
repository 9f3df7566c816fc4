/** Runs something, and afterwards, also when it has failed, all that was given to `atEnd`, the last first. */
export async function withEnds<T>(run: (atEnd: (end: () => Promise<unknown>) => void) => Promise<T>): Promise<T> {
  const ends: (() => Promise<unknown>)[] = [];
  try {
    return await run((end) => ends.push(end));
  } finally {
    for (const end of ends.toReversed()) {
      await end().catch((error: unknown) =>
        console.error(`Cleaning up: ${error instanceof Error ? error.message : error}`),
      );
    }
  }
}
