/** What commands print: text for people, and the same facts for programs. */
import { stringify } from 'yaml';
import type { Options } from './options.ts';

/** @param text is called unless a format for programs is asked for */
export function rendered(value: unknown, { output }: Options<'output'>, text: (isWide: boolean) => string): string {
  switch (output) {
    case 'json':
      return JSON.stringify(value, undefined, 2);
    case 'yaml':
      return yamlOf(value).trimEnd();
    default:
      return text(output === 'wide');
  }
}

/** With all strings in quotes, where only quotes allow the escapes that `visible` makes. */
function yamlOf(value: unknown): string {
  const text = stringify(value);
  if (!/\p{Bidi_Control}/u.test(text)) return text;
  return stringify(value, { defaultKeyType: 'QUOTE_DOUBLE', defaultStringType: 'QUOTE_DOUBLE' });
}
