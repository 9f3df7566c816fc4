import type { z } from 'zod';
import { ProviderError } from './provider.ts';

/**
 * The parsed value. Throws ProviderError `InvalidArgument` whose message lists every problem.
 * @param root - How people know the value, for example `providerSpec`.
 */
export function parseOrRefuse<T extends z.ZodType>(schema: T, value: unknown, root: string): z.output<T> {
  const { success, data, error } = schema.safeParse(value);
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
