import { describe, expect, it } from '@jest/globals';
import { toTimeline } from '../../temporal/timeline.ts';
import { filesOf, historiesFolder } from '../replay/files.ts';

/** The steps of the first run that a scenario has recorded, as text. */
function stepsOf(scenario: string, file: string): string[] {
  const { history } = filesOf(historiesFolder, `0.1.0/${scenario}`).find(({ name }) => name.endsWith(file))!;
  return toTimeline([history.events]).steps.map(({ step, end, failures, blockedOn, signals }) =>
    [step, ...failures.map(({ code }) => code), ...blockedOn, ...signals, ...(end === undefined ? ['…'] : [])].join(
      ' ',
    ),
  );
}

describe('the timeline of a machine', () => {
  it.each([
    ['that runs', 'scale', 'machine-3.json', ['validate', 'provision', 'join', 'run …']],
    [
      'whose drain and deletion people have helped along',
      'drain',
      'machine-1.json',
      [
        ...['validate', 'provision', 'join', 'run', 'drain PodDisruptionBudget forceDeletion'],
        'delete PermissionDenied Credentials retryNow',
      ],
    ],
    [
      'that never had a Node',
      'creation-timeout',
      'machine-3.json',
      ['validate', 'provision ResourceExhausted CloudCapacity', 'delete'],
    ],
    [
      'that was replaced for its health',
      'health-replacement',
      'machine-1.json',
      ['validate', 'provision', 'join', 'run', 'unhealthy NodeHealth', 'failed', 'drain', 'delete'],
    ],
    [
      'that was updated in place',
      'in-place',
      'machine-1.json',
      ['validate', 'provision', 'join', 'run', 'update in place', 'run …'],
    ],
  ])('%s', (_name, scenario, file, expected) => {
    expect(stepsOf(scenario, file)).toEqual(expected);
  });

  it('goes on from one run to the next', () => {
    const { history } = filesOf(historiesFolder, '0.1.0/scale').find(({ name }) => name.endsWith('machine-1.json'))!;
    const { events } = history;
    const [started] = events;
    const at = events.findIndex(({ eventType }) => eventType.endsWith('WORKFLOW_EXECUTION_SIGNALED'));
    expect(toTimeline([events.slice(0, at), [started!, ...events.slice(at)]])).toEqual(toTimeline([events]));
  });
});
