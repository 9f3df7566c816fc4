import { describe, expect, it } from '@jest/globals';
import type { FlagName } from '../../flags.ts';
import { parseOptions, UsageError } from '../../options.ts';
import { rolloutCommandLine } from './actions.ts';
import { rolloutCommand } from './command.ts';

describe('millwright rollout', () => {
  const run = (action: string, given: Partial<Record<FlagName, string>>) =>
    rolloutCommand.run(parseOptions(rolloutCommand.flags, given, {}), [action, 'pool'], given);

  it.each([
    [
      'history',
      { toRevision: '3' },
      "--to-revision is not a flag of 'rollout history': use it with 'rollout undo' only",
    ],
    ['retry', { watch: 'false' }, "--watch is not a flag of 'rollout retry': use it with 'rollout status' only"],
    // All actions take the flags of the servers.
    [
      'undo',
      { watch: 'true', installation: 'a' },
      "--watch is not a flag of 'rollout undo': use it with 'rollout status' only",
    ],
  ])('refuses %s with %j, a flag of another action', async (action, given, problem) => {
    await expect(run(action, given)).rejects.toThrow(new UsageError(problem));
  });
});

describe('rolloutCommandLine', () => {
  const key = { namespace: 'prod', name: 'pool' };

  it('names the object and its namespace', () => {
    expect(rolloutCommandLine('retry', key, {})).toBe('millwright rollout retry pool -n prod');
  });

  it('repeats the flags of the servers and the installation, and no others', () => {
    const given = {
      ...{ namespace: 'prod', watch: 'false', output: 'json', installation: 'blue', temporalTls: 'true' },
      ...{ targetKubeconfig: "/home/o'neil/my config", temporalAddress: '[::1]:7233' },
    };

    expect(rolloutCommandLine('retry', key, given)).toBe(
      "millwright rollout retry pool -n prod --installation blue --target-kubeconfig '/home/o'\\''neil/my config'" +
        " --temporal-address '[::1]:7233' --temporal-tls true",
    );
  });
});
