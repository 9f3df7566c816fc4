import { expect, it } from '@jest/globals';
import { parseOptions } from '../../options.ts';
import { replayCommand } from './command.ts';

it.each(['/nope.json', './nope', 'nope.json'])('says that there is no file %s, and asks no server', async (path) => {
  const run = replayCommand.run(parseOptions(replayCommand.flags, {}, {}), [path], {});
  await expect(run).rejects.toThrow(`there is no file ${path}`);
});
