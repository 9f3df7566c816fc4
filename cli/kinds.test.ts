import { expect, it } from '@jest/globals';
import { parseObjects } from './kinds.ts';
import { UsageError } from './options.ts';

it.each([
  [['machines', 'a', 'b'], 'Machine', ['a', 'b']],
  [['mcd'], 'MachineDeployment', []],
  [['machine/a'], 'Machine', ['a']],
  [['machine.machine.sapcloud.io/a', 'machine.machine.sapcloud.io/b'], 'Machine', ['a', 'b']],
] as const)('reads the kind and names of %j', ([first, ...more], kind, names) => {
  expect(parseObjects(first, more)).toEqual({ kind, names });
});

it.each([[['machine/a', 'mcd/b']], [['machine/a', 'b']], [['machine/']], [['node/a']]])(
  'refuses %j',
  ([first, ...more]) => {
    expect(() => parseObjects(first!, more)).toThrow(UsageError);
  },
);
