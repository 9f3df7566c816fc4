import { describe, expect, it } from '@jest/globals';
import { toRolloutSteps } from '../../temporal/rollout-steps.ts';
import { filesOf, historiesFolder } from '../replay/files.ts';

/** The steps of a run that a scenario has recorded. */
function stepsOf(scenario: string, file: string) {
  const { events } = filesOf(historiesFolder, `0.1.0/${scenario}`).find(({ name }) => name.endsWith(file))!.history;
  return toRolloutSteps([events]);
}

describe('the steps of a rollout', () => {
  it('are what was read, and the machines that were created and deleted then', () => {
    const steps = stepsOf('rolling', 'rollout-2.json');
    expect(
      steps.map(({ old, updated, available, created, deleted }) => [
        ...[old, updated, available],
        `+${created.length} -${deleted.length}`,
      ]),
    ).toEqual([
      [10, 0, 10, '+2 -0'],
      [10, 2, 12, '+0 -2'],
      [8, 2, 10, '+2 -0'],
      [12, 0, 12, '+0 -0'], // its template went back
    ]);
    expect(steps[0]?.created).toEqual([expect.stringMatching(/^turned-/), expect.stringMatching(/^turned-/)]);
    expect(steps.every(({ replicas }) => replicas === 10)).toBe(true);
  });

  it('have the machines whose in-place update began', () => {
    expect(stepsOf('in-place', 'rollout-1.json').flatMap(({ selected }) => selected)).toHaveLength(5);
  });

  it('are none where nothing was read', () => {
    expect(toRolloutSteps([[]])).toEqual([]);
  });
});
