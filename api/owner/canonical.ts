/** Comparing objects whatever the order in which their fields were written: pure. */

/** JSON with sorted keys, without fields that are empty. undefined for a value that is empty itself. */
export function canonical(value: unknown): string | undefined {
  return JSON.stringify(value, (_, part: unknown) => {
    if (part === null || part === '' || typeof part !== 'object') return part || undefined;
    if (Array.isArray(part)) return part.length === 0 ? undefined : part;
    return Object.fromEntries(Object.entries(part).toSorted(byKey));
  });
}

export function byKey([a]: [string, unknown], [b]: [string, unknown]): number {
  return a < b ? -1 : 1;
}
