/** What commands print: text for people, and the same facts for programs. */
import { stringify } from 'yaml';
import type { Options } from './options.ts';

/** @param text is called unless a format for programs is asked for */
export function rendered(value: unknown, { output }: Options<'output'>, text: (isWide: boolean) => string): string {
  switch (output) {
    case 'json':
      return JSON.stringify(value, undefined, 2);
    case 'yaml':
      return stringify(value).trimEnd();
    default:
      return text(output === 'wide');
  }
}
