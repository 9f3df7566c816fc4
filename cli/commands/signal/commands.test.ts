import { expect, it } from '@jest/globals';
import { parseOptions, UsageError } from '../../options.ts';
import { drainCommand } from './commands.ts';

it.each([
  [{}, '--force or --skip is missing: give one of them'],
  [{ force: 'true', skip: 'true' }, '--force and --skip are both given: give one of them'],
])('refuses to drain with %j', async (given, problem) => {
  const run = drainCommand.run(parseOptions(drainCommand.flags, given, {}), ['machine'], given);
  await expect(run).rejects.toThrow(new UsageError(problem));
});
