/** Colours, where standard output is a terminal that shows them: not with NO_COLOR, and not in a pipe. */
import { styleText } from 'node:util';

type Colour = 'green' | 'yellow' | 'red' | 'dim';

export function paint(colour: Colour, text: string): string {
  return styleText(colour, text, { stream: process.stdout });
}
