import type { z } from 'zod';
import { ProviderError } from './provider.ts';

/**
 * The parsed value. Throws ProviderError `InvalidArgument` whose message lists every problem.
 * @param root - How people know the value, for example `providerSpec`.
 */
export function parseOrRefuse<T extends z.ZodType>(schema: T, value: unknown, root: string): z.output<T> {
  const { success, data, error } = schema.safeParse(value, { error: inOurWords });
  if (success) return data;
  throw new ProviderError('InvalidArgument', problemsOf(error, value, root).join('; '));
}

/** One sentence per issue: the field, its value and the fix. */
export function problemsOf(error: z.ZodError, value: unknown, root: string): string[] {
  return error.issues.flatMap((issue) => {
    const field = [root, ...issue.path.map(String)].join('.');
    if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => `${field}.${key} is not known: remove it`);
    return [`${field} is ${shown(valueAt(value, issue.path))}: ${issue.message}`];
  });
}

/** What to do about a value, where its schema does not say that itself: for `safeParse`. */
export const inOurWords: z.core.$ZodErrorMap = (issue) => {
  switch (issue.code) {
    case 'invalid_type':
      return `give ${nouns[issue.expected] ?? issue.expected}`;
    case 'invalid_value':
      return `use ${issue.values
        .map(String)
        .join(', ')
        .replace(/, ([^,]+)$/, ' or $1')}`;
    case 'too_small':
      return `give ${counted(issue.minimum, issue.origin, 'at least') ?? (issue.inclusive ? `${issue.minimum} or more` : `more than ${issue.minimum}`)}`;
    case 'too_big':
      return `give ${counted(issue.maximum, issue.origin, 'at most') ?? (issue.inclusive ? `${issue.maximum} or less` : `less than ${issue.maximum}`)}`;
    default:
      return undefined;
  }
};

/** What YAML calls the types of values. */
const nouns: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'fields with their values',
  record: 'names with their values',
};

const units: Readonly<Record<string, readonly [one: string, many: string]>> = {
  string: ['character', 'characters'],
  array: ['entry', 'entries'],
};

/** Of what has a length; undefined for a number. */
function counted(count: number | bigint, origin: string, limit: string): string | undefined {
  const [one, many] = units[origin] ?? [];
  return one && `${limit} ${count} ${Number(count) === 1 ? one : many}`;
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce(
    (at: unknown, key) => (typeof at === 'object' && at !== null ? Reflect.get(at, key) : undefined),
    value,
  );
}

function shown(value: unknown): string {
  if (value === undefined) return 'missing';
  const text = JSON.stringify(value);
  return text.length > 100 ? `${text.slice(0, 100)}…` : text;
}
