/** Kubernetes' quantities, such as `1000`, `1k`, `500m` and `8Gi`. An API server stores them in a form of its own. */

const pattern = /^([-+]?)(\d*)(?:\.(\d*))?(?:([numkMGTPE]?)|([KMGTPE])i|[eE]([-+]?\d{1,2}))$/;
/** Powers of 10, and of 1024. */
const decimal: Readonly<Record<string, number>> = { n: -9, u: -6, m: -3, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 };
const binary = 'KMGTPE';

/** Whether two texts are the same quantity, as `1000` and `1k` are. What is no quantity is compared as text. */
export function sameQuantity(a: string, b: string): boolean {
  if (a === b) return true;
  const [first, second] = [nanosOf(a), nanosOf(b)];
  return first !== undefined && first === second;
}

/** In billionths, rounded up to whole ones as by an API server; undefined: it is no quantity. */
function nanosOf(text: string): bigint | undefined {
  const [, sign, whole = '', fraction = '', suffix = '', prefix, exponent = '0'] = pattern.exec(text) ?? [];
  if (whole + fraction === '') return undefined;
  const power = 9 + (decimal[suffix] ?? 0) + Number(exponent) - fraction.length;
  const factor = prefix === undefined ? 1n : 1024n ** BigInt(binary.indexOf(prefix) + 1);
  const digits = BigInt(whole + fraction) * factor;
  const divisor = 10n ** BigInt(Math.max(0, -power));
  const nanos = power < 0 ? (digits + divisor - 1n) / divisor : digits * 10n ** BigInt(power);
  return sign === '-' ? -nanos : nanos;
}
