/**
 * How large payloads are. Temporal refuses a payload of more than 2 MiB, and a message with payloads of more than 4 MiB:
 * a message has all calls that a workflow makes in one task. Pure.
 */

/** Most bytes of a list in a payload. A longer list is passed in portions. */
export const maxListBytes = 1024 * 1024;

/** Most bytes of the spec of a source: one message has up to 20 calls with such a spec. */
export const maxSpecBytes = 64 * 1024;

/** Bytes of a value as JSON. */
export function jsonBytes(value: unknown): number {
  const text = JSON.stringify(value) ?? '';
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code > 0x7f) bytes += code > 0x7ff && !(code >= 0xd800 && code <= 0xdfff) ? 2 : 1;
  }
  return bytes;
}

/**
 * The items in their order, in portions of at most `most` items and `maxListBytes`. An item that is larger is a portion
 * of its own.
 * @param toPassed what of an item is in the payload
 */
export function inPortions<T>(
  items: readonly T[],
  most = Number.POSITIVE_INFINITY,
  toPassed: (item: T) => unknown = (item) => item,
): T[][] {
  const portions: T[][] = [];
  let left = 0;
  for (const item of items) {
    const bytes = jsonBytes(toPassed(item)) + 1; // with a comma
    const last = portions.at(-1);
    if (last === undefined || bytes > left || last.length >= most) {
      portions.push([item]);
      left = maxListBytes - bytes;
    } else {
      last.push(item);
      left -= bytes;
    }
  }
  return portions;
}

/** What is wrong with the size of the spec of a source; undefined: nothing. */
export function specSizeProblem(providerSpec: unknown): string | undefined {
  const bytes = jsonBytes(providerSpec);
  if (bytes <= maxSpecBytes) return undefined;
  return `providerSpec has ${bytes} bytes as JSON, and ${maxSpecBytes} is the most: shorten it`;
}
