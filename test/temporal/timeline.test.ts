import { describe, expect, it } from '@jest/globals';
import { toTimeline, withCause } from '../../temporal/timeline.ts';
import { filesOf, historiesFolder } from '../replay/files.ts';

/** The events of the first run that a scenario has recorded. */
function eventsOf(scenario: string, file: string) {
  return filesOf(historiesFolder, `0.1.0/${scenario}`).find(({ name }) => name.endsWith(file))!.history.events;
}

/** Its steps as text. */
function stepsOf(scenario: string, file: string): string[] {
  return toTimeline([eventsOf(scenario, file)]).steps.map(({ step, end, failures, blockedOn, signals }) =>
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

  it('has each call with its end and failure, and each time in which the machine was blocked', () => {
    const { calls, waits } = toTimeline([eventsOf('drain', 'machine-1.json')]);
    expect(calls.map(({ activity, failure }) => [activity, failure?.code])).toEqual([
      ...[
        ['ensureVm', undefined],
        ['drainNode', undefined],
        ['drainNode', undefined],
      ],
      ...[
        ['deleteVm', 'PermissionDenied'],
        ['deleteVm', undefined],
      ],
    ]);
    expect(waits.map(({ blockedOn }) => blockedOn)).toEqual(['PodDisruptionBudget', 'Credentials']);
    for (const { start, end = '' } of [...calls, ...waits]) expect(Date.parse(end)).toBeGreaterThan(Date.parse(start));
  });

  it.each([
    ['deletion', 'machine-3.json', 'somebody deleted its Node'],
    ['deletion', 'machine-1.json', undefined],
    ['scale', 'machine-3.json', undefined],
  ])('has the cause of a deletion that the workflow knows itself: %s %s', (scenario, file, cause) => {
    const { steps } = toTimeline([eventsOf(scenario, file)]);
    const causes = steps.flatMap((step) => (step.cause === undefined ? [] : [[step.step, step.cause]]));
    expect(causes).toEqual(cause === undefined ? [] : [[expect.stringMatching(/drain|delete/), cause]]);
  });

  it('has the cause of a deletion in its first step alone', () => {
    const { deletedAt, steps } = withCause(toTimeline([eventsOf('drain', 'machine-1.json')]), 'x');
    expect(steps.map(({ step, cause }) => `${step} ${cause}`).slice(-2)).toEqual(['drain x', 'delete undefined']);
    expect(deletedAt).toMatch(/^2026-11-23T\d\d:\d\d:\d\dZ$/);
  });

  it('ends the calls and waits of a run that has ended without their end, with the next one', () => {
    const events = eventsOf('drain', 'machine-1.json');
    const atCall = events.findIndex(({ eventType }) => eventType.endsWith('ACTIVITY_TASK_SCHEDULED')) + 1;
    const atWait = events.findIndex((event) => JSON.stringify(event).includes('"PodDisruptionBudget"')) + 1;
    const next = { ...events[0]!, eventTime: '2026-11-24T00:00:00.000Z' };
    expect(toTimeline([events.slice(0, atCall), [next]]).calls).toMatchObject([{ end: next.eventTime }]);
    const { waits } = toTimeline([events.slice(0, atWait), [next]]);
    expect(waits).toMatchObject([{ blockedOn: 'PodDisruptionBudget', end: next.eventTime }]);
    expect(toTimeline([events.slice(0, atCall)]).calls[0]).not.toHaveProperty('end');
  });

  it('ends when the Machine has vanished, and says that it was lost', () => {
    const events = eventsOf('vanished', 'machine-1.json');
    const { steps, isGone, isLost } = toTimeline([events]);
    expect([isGone, isLost, steps.map(({ step }) => step)]).toEqual([
      true,
      true,
      ['validate', 'provision', 'join', 'run'],
    ]);
    expect(steps.at(-1)?.end).toBe(new Date(events.at(-1)!.eventTime).toISOString());
  });

  it('ends in the drain of a machine that was lost in it', () => {
    const drained = eventsOf('drain', 'machine-1.json');
    const at = drained.findIndex((event) => JSON.stringify(event).includes('"drainNode"'));
    const { steps, isGone, isLost } = toTimeline([
      [...drained.slice(0, at), ...eventsOf('vanished', 'machine-1.json').slice(-2)],
    ]);
    expect([isGone, isLost, steps.at(-1)]).toMatchObject([true, true, { step: 'drain', end: expect.any(String) }]);
  });

  it('says of no deleted machine that it was lost, also if a late run has not found it', () => {
    const runs = [eventsOf('killed-controllers', 'machine-1.json'), eventsOf('killed-controllers', 'machine-2.json')];
    const { steps, isGone, isLost } = toTimeline(runs);
    expect([isGone, isLost, steps]).toEqual([true, false, toTimeline(runs.slice(0, 1)).steps.with(-1, steps.at(-1)!)]);
  });

  it('goes on where a restore has brought a lost machine back', () => {
    const { steps, isGone, isLost } = toTimeline([
      eventsOf('vanished', 'machine-1.json'),
      eventsOf('scale', 'machine-1.json').slice(0, 5),
    ]);
    expect([isGone, isLost]).toEqual([false, false]);
    expect(steps.slice(-2).map(({ step, end }) => [step, end !== undefined])).toEqual([
      ['run', true],
      ['validate', false],
    ]);
  });

  it('goes on from one run to the next', () => {
    const events = eventsOf('scale', 'machine-1.json');
    const [started] = events;
    const at = events.findIndex(({ eventType }) => eventType.endsWith('WORKFLOW_EXECUTION_SIGNALED'));
    expect(toTimeline([events.slice(0, at), [started!, ...events.slice(at)]])).toEqual(toTimeline([events]));
  });
});
