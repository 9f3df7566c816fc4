/**
 * `npm run screenshots`: runs the tests that look at web pages, and keeps what they see in docs/images. With arguments
 * of jest only those tests.
 */
import { resolve } from 'node:path';
import { conclude, runJest } from './jest.ts';
import { picturesVariable } from './support/pictures.ts';

const args = process.argv.slice(2);
const pages = ['end-to-end/stuck-machines.long', 'end-to-end/failing-code.long', 'end-to-end/fleet-page'];
conclude([
  await runJest(
    '.cache/screenshots-results.json',
    [...(args.length > 0 ? args : pages), '--testPathIgnorePatterns=/node_modules/'],
    { [picturesVariable]: resolve('docs/images') },
  ),
]);
