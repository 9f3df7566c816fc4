import { expect, it } from '@jest/globals';
import { tour } from '../../deploy/local/demo/tour.ts';
import { commandsOf } from './blocks.ts';

// `npm run demo -- --exit`, a step of `npm test`, runs the tour and checks the effect of each command.
it('docs/tutorial.md starts the demo, and then has the commands of its tour in their order', () => {
  expect(commandsOf('docs/tutorial.md')).toEqual(['npm run demo', ...tour.map(({ command }) => command)]);
});
