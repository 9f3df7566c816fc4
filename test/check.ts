/** `npm run check`: types, lint, format and generated files, without tests. */
import { checks } from './steps.ts';

const outcomes = await checks();
if (outcomes.some(({ failed }) => failed > 0)) process.exitCode = 1;
