/** Calls to providers, or to Kubernetes, that a workflow makes at once. */
export const concurrency = 20;

/** Runs something for every item, `concurrency` at once. */
export async function inParallel<T>(items: readonly T[], run: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values();
  const runOneByOne = async () => {
    for (const item of queue) await run(item);
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, runOneByOne));
}
