import { afterEach, beforeEach, expect, it, jest } from '@jest/globals';
import { parse } from 'yaml';
import { rendered } from './output.ts';
import { complain, say, visible } from './terminal.ts';

/** Retitles the window, and colours what follows, in the two ways that a terminal knows. */
const hostile = '\u001b]0;title\u0007\u001b[31mred \u009d0;title\u009c\u009b31mred\r\u007f';
/** Shows what follows from right to left. */
const reversing = 'a\u202ecba';

const printed = { log: '', error: '' };
beforeEach(() => {
  for (const stream of ['log', 'error'] as const) {
    jest.spyOn(console, stream).mockImplementation((text) => {
      printed[stream] = String(text);
    });
  }
});
afterEach(() => {
  jest.restoreAllMocks();
});

it('shows control characters except newline and tab', () => {
  expect(visible(hostile)).toBe(
    '\\u001b]0;title\\u0007\\u001b[31mred \\u009d0;title\\u009c\\u009b31mred\\u000d\\u007f',
  );
  expect(visible(reversing)).toBe('a\\u202ecba');
  expect(visible('a\tb\nÄ ✓ 🙂 👩‍💻 \\')).toBe('a\tb\nÄ ✓ 🙂 👩‍💻 \\');
});

it('prints no control characters of a text, and the colours that are asked for', () => {
  say(hostile, (text) => `\u001b[32m✓\u001b[39m ${text}`);
  complain(hostile);

  expect(printed).toEqual({ log: `\u001b[32m✓\u001b[39m ${visible(hostile)}`, error: visible(hostile) });
});

it.each([
  ['json', 'control characters', hostile],
  ['yaml', 'control characters', hostile],
  ['json', 'reversed text', reversing],
  ['yaml', 'reversed text', reversing],
] as const)('prints %s without %s that is parsed to the same', (output, _, text) => {
  const value = { [text]: [text, `two\nlines ${text}`, 'plain'] };

  say(rendered(value, { output }, () => ''));

  expect(printed.log).toBe(visible(printed.log));
  expect(output === 'json' ? JSON.parse(printed.log) : parse(printed.log)).toEqual(value);
});
