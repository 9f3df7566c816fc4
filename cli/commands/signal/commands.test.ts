import { expect, it } from '@jest/globals';
import { parseOptions, UsageError } from '../../options.ts';
import { drainCommand, retryCommand } from './commands.ts';

it.each([
  [{}, '--force or --skip is missing: give one of them'],
  [{ force: 'true', skip: 'true' }, '--force and --skip are both given: give one of them'],
])('refuses to drain with %j', async (given, problem) => {
  const run = drainCommand.run(parseOptions(drainCommand.flags, given, {}), ['machine'], given);
  await expect(run).rejects.toThrow(new UsageError(problem));
});

it('says of a sweep that waits for approval which command lists the orphans', async () => {
  const given = { blockedOn: 'Brake', namespace: 'prod' };
  const run = retryCommand.run(parseOptions(retryCommand.flags, given, {}), [], given);
  await expect(run).rejects.toThrow(/^--blocked-on is 'Brake': .*: millwright stuck -n prod lists the orphans/);
});
