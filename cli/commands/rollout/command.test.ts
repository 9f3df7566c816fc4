import { describe, expect, it } from '@jest/globals';
import { type FlagName, parseOptions, UsageError } from '../../options.ts';
import { rolloutCommand, rolloutLine } from './command.ts';

describe('millwright rollout', () => {
  const run = (action: string, given: Partial<Record<FlagName, string>>) =>
    rolloutCommand.run(parseOptions(rolloutCommand.flags, given, {}), [action, 'pool'], given);

  it.each([
    [
      'history',
      { toRevision: '3' },
      "--to-revision is no option of 'rollout history': give it to 'rollout undo' alone",
    ],
    ['retry', { watch: 'false' }, "--watch is no option of 'rollout retry': give it to 'rollout status' alone"],
    // What says where the servers are is for all.
    [
      'undo',
      { watch: 'true', installation: 'a' },
      "--watch is no option of 'rollout undo': give it to 'rollout status' alone",
    ],
  ])('refuses %s with %j, which is for another action', async (action, given, problem) => {
    await expect(run(action, given)).rejects.toThrow(new UsageError(problem));
  });
});

describe('rolloutLine', () => {
  const key = { namespace: 'prod', name: 'pool' };

  it('is the command for an object where nothing else was given', () => {
    expect(rolloutLine('retry', key, {})).toBe('millwright rollout retry pool -n prod');
  });

  it('reaches the servers and the installation that were given, and repeats nothing else', () => {
    const given = {
      ...{ namespace: 'prod', watch: 'false', output: 'json', installation: 'blue', temporalTls: 'true' },
      ...{ targetKubeconfig: "/home/o'neil/my config", temporalAddress: '[::1]:7233' },
    };

    expect(rolloutLine('retry', key, given)).toBe(
      "millwright rollout retry pool -n prod --installation blue --target-kubeconfig '/home/o'\\''neil/my config'" +
        " --temporal-address '[::1]:7233' --temporal-tls true",
    );
  });
});
