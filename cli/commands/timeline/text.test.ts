import { describe, expect, it } from '@jest/globals';
import { timelineText } from './text.ts';

describe('timeline', () => {
  it('is a table with a line for each step, the last of which may not be over', () => {
    const none = { failures: [], blockedOn: [], signals: [] };
    const noRoom = { code: 'ResourceExhausted', message: 'no capacity in zone a', times: 3 };
    const steps = [
      { ...none, step: 'validate', start: '2026-11-23T10:00:00.123456789Z', end: '2026-11-23T10:00:00.223Z' },
      {
        step: 'provision',
        start: '2026-11-23T10:00:00.223Z',
        end: '2026-11-23T10:00:34.3Z',
        failures: [noRoom],
        blockedOn: ['CloudCapacity'],
        signals: ['retryNow'],
      },
      { ...none, step: 'join', start: '2026-11-23T10:00:34.3Z', end: '2026-11-23T10:00:35Z' },
      { ...none, step: 'delete', cause: 'scale-down of MachineSet lone', start: '2026-11-23T10:00:35Z' },
    ] as const;

    expect(
      timelineText({ steps, isGone: false, isLost: false }, Date.parse('2026-11-23T10:01:15.3Z')).split('\n'),
    ).toEqual([
      'START                 TOOK         STEP       NOTES',
      '2026-11-23T10:00:00Z  0.1 s        validate',
      '2026-11-23T10:00:00Z  34 s         provision  ResourceExhausted 3 times: no capacity in zone a; blocked on CloudCapacity; signals retryNow',
      '2026-11-23T10:00:34Z  0.7 s        join',
      '2026-11-23T10:00:35Z  40 s so far  delete     scale-down of MachineSet lone',
    ]);
  });

  it.each([
    [false, '2026-11-23T10:00:01Z         gone'],
    [
      true,
      '2026-11-23T10:00:01Z         lost  it has disappeared although its deletion was not finished: its VM may still be there',
    ],
  ])('ends with the end of the machine, lost: %s', (isLost, last) => {
    const step = { step: 'run', start: '2026-11-23T10:00:00Z', end: '2026-11-23T10:00:01Z' } as const;
    const none = { failures: [], blockedOn: [], signals: [] };
    expect(
      timelineText({ steps: [{ ...step, ...none }], isGone: true, isLost }, 0)
        .split('\n')
        .at(-1),
    ).toBe(last);
  });
});
