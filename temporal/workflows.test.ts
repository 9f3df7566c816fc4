import { expect, it } from '@jest/globals';
import { signalEach } from './workflows.ts';

it('a signal reaches all workflows but those that refuse it, which the error names', async () => {
  const signalled: string[] = [];
  const signal = async (name: string) => {
    if (name.startsWith('full')) throw new Error('it has had too many signals');
    signalled.push(name);
    return name !== 'closed';
  };
  const nameOf = (name: string) => name;

  expect(await signalEach(['open', 'closed'], nameOf, signal)).toEqual(['open']);
  await expect(signalEach(['full-1', 'late', 'full-2'], nameOf, signal)).rejects.toThrow(
    '2 of 3 workflows could not be signalled, all others were: full-1: it has had too many signals; full-2: it has',
  );
  expect(signalled).toEqual(['open', 'closed', 'late']);
});
