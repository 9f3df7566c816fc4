/** Where the commands print: text for people on standard output, progress and errors on standard error. */
import { styleText } from 'node:util';

type Colour = 'green' | 'yellow' | 'red' | 'dim';

/**
 * Prints lines on standard output, with control characters made visible: they may come from an object or a cloud.
 * @param inColour paints the visible text
 */
export function say(text: string, inColour: (visibleText: string) => string = (visibleText) => visibleText): void {
  console.log(inColour(visible(text)));
}

/** Prints lines on standard error, in the same way. */
export function complain(text: string): void {
  console.error(visible(text));
}

/**
 * Control characters as in `\u001b`, which a terminal does not obey, except newline and tab; also those that reverse what
 * follows. So JSON and YAML stay what they are: they have such characters only where this is how to escape them.
 */
export function visible(text: string): string {
  return text.replace(
    /(?![\n\t])[\p{Cc}\p{Bidi_Control}]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Whether standard output is a terminal. */
export const isTerminal = process.stdout.isTTY;

/** Colours text if standard output is a terminal that shows colours: not with NO_COLOR, and not in a pipe. */
export function paint(colour: Colour, text: string): string {
  return styleText(colour, text, { stream: process.stdout });
}
