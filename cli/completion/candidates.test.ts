import { describe, expect, it } from '@jest/globals';
import { commands } from '../commands.ts';
import { candidatesFor } from './candidates.ts';

describe('what a shell offers', () => {
  it.each([
    [['do'], ['doctor']],
    [
      ['get', ''],
      ['machines', 'sets', 'deployments'],
    ],
    [['get', 'machines', '--wat'], ['--watch']],
    [
      ['get', '-o', ''],
      ['text', 'wide', 'json', 'yaml'],
    ],
    [['get', '-o', 'json', 's'], ['sets']],
    [['get', '--watch', 'd'], ['deployments']],
    [['describe', '--output=j'], ['--output=json']],
    [['rollout', 'pa'], ['pause']],
    [
      ['retry', '--blocked-on', 'Cloud'],
      ['CloudCapacity', 'CloudApi'],
    ],
    [
      ['completion', ''],
      ['bash', 'zsh', 'fish'],
    ],
    [['worker', '--temporal-api-key'], ['--temporal-api-key-file']],
    [['get', '-n', ''], []],
    [['-'], ['--help', '--version']],
    [['--he'], ['--help']],
    [
      ['version', '-'],
      ['--output', '--help'],
    ],
    [['nonsense', ''], []],
  ])('after %j is %j', (words, expected) => {
    expect([...candidatesFor(commands, words).words].toSorted()).toEqual([...expected].toSorted());
  });

  it.each([
    [['describe', 'mc', ''], 'mc'],
    [['get', 'machines', 'a', '--watch', 'b'], 'machines'],
    [['timeline', ''], 'machines'],
    [['retry', 'a', ''], 'machines'],
    [['rollout', 'status', 'w'], 'deployments'],
    [['replay', ''], undefined],
    [['sweep', 'approve', 'simulated:///a', ''], 'orphans'],
    [['get', 'machines', '-n', 'pro'], 'namespaces'],
    [['stuck', '--context', ''], 'contexts'],
    [['stuck', '--installation', ''], undefined],
  ])('after %j are the names of %p', (words, kind) => {
    expect(candidatesFor(commands, words).namesOf).toBe(kind);
  });

  it.each([
    [['get', 'mc/'], 'mc'],
    [['describe', 'machines/a', 'machines/'], 'machines'],
    [['get', 'mcd/a', ''], 'mcd'],
    [['retry', 'machine/a'], 'machine'],
    [['rollout', 'status', 'deployment/'], 'deployment'],
  ])('after %j are the names of %p with the kind before each', (words, kind) => {
    expect(candidatesFor(commands, words)).toEqual({ words: [], namesOf: kind, prefix: `${kind}/` });
  });

  it('has the flag before the name, where both are one word', () => {
    const found = candidatesFor(commands, ['stuck', '--context=pro']);
    expect(found).toEqual({ words: [], namesOf: 'contexts', prefix: '--context=' });
  });
});
