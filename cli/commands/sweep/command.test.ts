import { describe, expect, it } from '@jest/globals';
import type { FlagName } from '../../flags.ts';
import { parseOptions, UsageError } from '../../options.ts';
import { sweepCommand } from './command.ts';

describe('millwright sweep', () => {
  const run = (words: readonly string[], given: Partial<Record<FlagName, string>> = {}) =>
    sweepCommand.run(parseOptions(sweepCommand.flags, given, {}), words, given);

  it.each([
    [['aprove', 'vm-1'], {}, "action is 'aprove': give approve, or leave it out to start a sweep"],
    [
      ['approve'],
      { namespace: 'prod' },
      'orphan is missing: name the orphans that may be deleted, which millwright stuck -n prod lists',
    ],
    [['approve', 'vm-1'], { dryRun: 'true' }, "--dry-run is not a flag of 'sweep approve': use it with 'sweep' only"],
  ])('refuses %j with %j', async (words, given, problem) => {
    await expect(run(words, given)).rejects.toThrow(new UsageError(problem));
  });
});
